package heuristics

import (
	"math"

	"stweaver/ir"
)

// The climb: a dive whose priority is improved step by step.
//
// A crux (crux.go), its groups made boxes, is one or two hundred items, and a dive of them takes
// 50 microseconds. What separates a layout at the bound from one a little above is seldom a
// whole other order: it is that some small thing must lie on the other side of a large one, at
// every second peak, so that the large one can move by its size and back:
//
//	  t0   |====S====|x|        x and its like are made one after the other, each before the
//	  t1  x|====S====|          one before is gone; S comes and goes between. A slot for each x
//	  t2   |====S====|x|        would be one too many, S in one place leaves none.
//
// No priority by size, life or need says so. But moving an item in the priority and looking at
// how many bytes lie above the bound does, one peak after the other. Moves that cost nothing
// are taken too: most of the way is level.
//
//	cost   sum over the items of what is above the bound
//	move   one or two items to another rank, near or anywhere
//	start  the best of some drawn priorities
//
// On a crux of llama7b-V-s0 (136 items), where none of 12,000 drawn tries reaches the bound, 4
// climbs of 4 did, within 3,300 steps or 0.16 s; on one of gpt2-V-s0 4 of 4 within 3,700.
//
// Source: iterated first improvement on a priority list is folklore in scheduling; for memory
// planning TVM's hill climbing moves buffers in the order of a first fit. The cost and the dive
// are ours.

const (
	climbMost   = 512     // items up to which a coarse problem is climbed
	climbDraws  = 128     // drawn priorities to start from the best of
	climbWork   = 500_000 // steps × items
	climbNear   = 10      // ranks that a near move goes up or down
	climbFar    = 1_000   // a climb that is not within this part of the bound (1/1000) after a quarter of its steps ends
	climbHeight = 50      // a draw more than this part of the bound above it (1/50) is no start
)

// climb is climb number n of a coarse problem: its best layout and peak, nil if there is no
// start. Once ceil is below the bound it gives up.
func (c *coarse) climb(n int, ceil func() int64) ([]ir.Offset, int64) {
	goal := int64(c.in.bound)
	b := newBench(c.in)
	b.leash = c.leash(func() int64 { return goal + goal/climbHeight })
	cost := func() (sum int64) {
		for i, off := range b.offsets {
			sum += max(0, int64(off)+int64(c.in.buffers[i].Size)-goal)
		}
		return sum
	}
	g := splitmix(firstSeed ^ uint64(n) ^ c.in.seed)
	g = splitmix(g.next())
	low := int64(math.MaxInt64)
	var order []int32
	var offsets []ir.Offset
	peak := int64(math.MaxInt64)
	keep := func() bool { // takes the dive just made, if it is no worse
		k := cost()
		if k > low {
			return false
		}
		low, peak = k, b.peak
		offsets = append(offsets[:0], b.offsets...)
		return true
	}
	for range climbDraws {
		if drawn := b.drawnPriority(&g); b.dive(drawn) && cost() < low && keep() {
			order = append(order[:0], drawn...)
		}
	}
	if order == nil {
		return nil, math.MaxInt64
	}
	next := make([]int32, len(order))
	steps := climbWork / len(order)
	for k := range steps {
		if low == 0 || ceil() < goal || k == steps/4 && peak-goal > goal/climbFar {
			break
		}
		copy(next, order)
		for range 1 + g.below(2) {
			from, to := g.below(len(next)), g.below(len(next))
			if g.below(2) == 0 {
				to = min(max(from+g.below(2*climbNear+1)-climbNear, 0), len(next)-1)
			}
			moveTo(next, from, to)
		}
		if b.dive(next) && keep() {
			order, next = next, order
		}
	}
	return offsets, peak
}

// moveTo takes the entry at one place of list to another.
func moveTo(list []int32, from, to int) {
	v := list[from]
	if from < to {
		copy(list[from:to], list[from+1:to+1])
	} else {
		copy(list[to+1:from+1], list[to:from])
	}
	list[to] = v
}
