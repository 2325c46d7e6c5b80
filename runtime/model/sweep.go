package model

import (
	"math"
	"slices"
)

const (
	sweepPart = 16 // the shortest life tried is this part of a step
	sweepWork = 64 // entries that a request pays for
)

// lifeKnown reports whether the request under way lives as entry says. What passes for one of the prologue's may be anything.
func (a *Allocator) lifeKnown(entry int) bool {
	return entry >= 0 && (entry >= a.match.loop || !a.stranger)
}

// sweep reads the plan for a place where z bytes are in nobody's way: for the life of an entry of the loop, or,
// where entry is none, for a step, half of one, and so on; where asked, only among what is committed.
func (a *Allocator) sweep(stream uint64, entry int, z uint64, committed bool) (interval, bool) {
	m := a.match
	n, wrap := len(a.plan.Entries), m.loop
	step := uint64(n - wrap)
	least := step / sweepPart
	if len(a.occupied.busy) == 0 || a.swept > sweepWork*a.stats.Requests+4*uint64(n) {
		return interval{}, false
	}
	var at int
	if a.lifeKnown(entry) {
		life := uint64(a.plan.Entries[entry].Life)
		if life > step {
			return interval{}, false
		}
		at = m.succ(entry)
		step = 0
		if life > 0 {
			step = life - 1
		}
		least = step
	} else {
		if m.last < 0 { // the loop is to come: what would lie in its way is not known to die before
			return interval{}, false
		}
		if at, _ = m.best(); m.mode != inSync || at < m.loop { // the plan is not being executed: nothing is known to be needed
			a.stats.Sweeps++
			return a.place(stream, a.occupied.lacking(a.occupied.kept, a.opts.Granularity), z, math.MaxInt)
		}
	}
	a.stats.Sweeps++
	for ; ; step /= 2 {
		needed := slices.Clone(a.occupied.kept)
		for k, p := uint64(0), at; k < step; k, p = k+1, m.succ(p) {
			if slot := a.plan.Slots[a.plan.Entries[p].Slot]; slot.Flags&Planned != 0 {
				a.occupied.mark(spanOf(slot), needed)
			}
		}
		a.swept += step
		if committed {
			needed = a.occupied.lacking(needed, a.opts.Granularity)
		}
		r, ok := a.place(stream, needed, z, math.MaxInt)
		if ok || step/2 < least || step/2 == 0 {
			return r, ok
		}
	}
}

// arenaWhole reports whether all granules of the arena are committed.
func (a *Allocator) arenaWhole() bool {
	return a.occupied.pages.missing(0, a.granules(a.plan.Arena)/a.opts.Granularity) == 0
}
