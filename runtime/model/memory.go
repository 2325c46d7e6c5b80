package model

import (
	"math"
	"slices"
)

// Memory is committed in granules when an address is handed out that touches them, in the heaps and
// in the arena alike. What has been committed stays, until it is given back: on request, under
// pressure, or moved.
//
//	arena  |########|....|#####|........|#####|      space 0
//	heap   |####|....|##|                            space 1, …
//	        # something lives there   . committed, idle
//
// Moving is what keeps the sum below the most that was ever reserved: a space that would have to grow
// beyond that takes the place of what idles elsewhere. It costs the device's driver time, so there is
// so much of it to be had for each step of the plan, and none without a plan. From the half of it on, the
// less there is left, the more the total may rise instead.

const (
	moveArenas = 4   // arenas' worth that may be moved at all
	moveLap    = 128 // and that part of one more with each step of the plan
	moveRise   = 24  // the total rises by up to that part of what is needed, as the last half of what may be moved is used up
	moveParts  = 256 // in which that is measured
	asideOff   = 256 // the plan is set aside only where of 257 requests more than one is not where it says
	asidePart  = 16  // and of 16 more than one, or that part of what is needed, and a granule, would be reserved beside it; a lap counts for it again in which all but that part would be
	roomPart   = 16  // beside what is missing, that part of what is reserved goes under pressure
)

// granules rounds bytes up to what is committed at once.
func (a *Allocator) granules(bytes uint64) uint64 {
	return (bytes + a.opts.Granularity - 1) &^ (a.opts.Granularity - 1)
}

// space returns the pages of the arena, 0, or of a heap.
func (a *Allocator) space(n uint32) *pages {
	if n == 0 {
		return &a.occupied.pages
	}
	return &a.heaps[n-1].pages
}

// reserve commits more bytes, a multiple of the granularity, if the capacity allows.
func (a *Allocator) reserve(bytes uint64) bool {
	s := &a.stats
	if a.opts.Capacity != 0 && s.ReservedBytes+bytes > a.opts.Capacity {
		return false
	}
	s.ReservedBytes += bytes
	s.PeakReservedBytes = max(s.PeakReservedBytes, s.ReservedBytes)
	a.most = max(a.most, s.ReservedBytes)
	return true
}

// commit makes what is held usable, if the capacity allows.
func (a *Allocator) commit(held hold) bool {
	p := a.space(held.space)
	more := p.missing(held.from, held.to) * a.opts.Granularity
	a.move(held, more)
	if !a.reserve(more) {
		return false
	}
	p.fill(held.from, held.to)
	return true
}

// commitHeap does that for the place of z bytes in h, if its range has it. Where that fails, the smallest free block in which
// they need nothing, the lowest of these, is a place, too.
func (a *Allocator) commitHeap(h *growing, z uint64) (at uint64, ok bool) {
	at = h.place(z / Unit)
	if a.missing(h, at, z) != never && a.commit(a.heldFor(h, at, z)) {
		return at, true
	}
	var best block
	for b := range h.byOffset.all() {
		if b.size >= z/Unit && (best.size == 0 || b.size < best.size) && a.missing(h, b.off, z) == 0 {
			best = b
		}
	}
	if best.size > 0 {
		return best.off, true
	}
	return at, false
}

// heldFor names the granules that z bytes touch in h from unit at on.
func (a *Allocator) heldFor(h *growing, at, z uint64) hold {
	start, g := at*Unit, a.opts.Granularity
	return hold{h.space, gap{start / g, (start + z + g - 1) / g}}
}

// commitArena does it for z bytes at the begin of r, which is taken, under pressure after others have made room.
func (a *Allocator) commitArena(r interval, z uint64) bool {
	g := a.opts.Granularity
	held := hold{0, gap{r.begin / g, (r.begin + z + g - 1) / g}}
	if a.commit(held) {
		return true
	}
	a.leaveAll(true)
	return a.makeRoom(held)
}

// hold names granules that are about to be committed: they are not idle.
type hold struct {
	space uint32
	gap
}

var nothing = hold{}

// idle lists the granules of a space on which nothing lives and which are not held, ascending.
func (a *Allocator) idle(space uint32, held hold) (out []gap) {
	g := a.opts.Granularity
	add := func(from, to uint64) {
		if space != held.space || to <= held.from || from >= held.to {
			out = append(out, gap{from, to})
			return
		}
		out = append(out, gap{from, held.from}, gap{held.to, to})
	}
	if space == 0 {
		at := uint64(0)
		for r := range a.occupied.set.all() {
			if b, ok := a.live[Addr{0, r.begin}]; ok {
				add(at, r.begin/g)
				at = (r.begin + b.size + g - 1) / g
			}
		}
		add(at, math.MaxInt64)
		return out
	}
	h := a.heaps[space-1]
	for b := range h.byOffset.all() {
		to := (b.off + b.size) * Unit / g
		if b.off+b.size == h.top {
			to = math.MaxInt64
		}
		add((b.off*Unit+g-1)/g, to)
	}
	return out
}

// giveBack gives back up to most idle granules of a space, the highest first, of the arena those that the plan needs last, and returns how many.
func (a *Allocator) giveBack(space uint32, held hold, most uint64) (n uint64) {
	idle := a.idle(space, held)
	if space == 0 && a.aside == 0 {
		idle = a.neededLast(idle, most)
	}
	for _, r := range slices.Backward(idle) {
		n += a.space(space).dropLast(r.from, r.to, most-n)
	}
	return n
}

// giveBackHeaps does that with all heaps, in the order of their streams.
func (a *Allocator) giveBackHeaps(held hold, most uint64) (n uint64) {
	for _, handle := range a.handles {
		if h := a.byStream[handle]; h != nil {
			n += a.giveBack(h.space, held, most-n)
		}
	}
	return n
}

// needed is the most that ever lived, or the arena.
func (a *Allocator) needed() uint64 { return max(a.stats.PeakLiveBytes, a.granules(a.plan.Arena)) }

// mayRise is what may be reserved before anything is moved: of what is needed a part more, the
// larger the less is left of the last half of what may be moved.
func (a *Allocator) mayRise() uint64 {
	last := moveArenas * a.granules(a.plan.Arena) / 2
	used := moveParts * (last - min(a.movable, last)) / last
	return a.needed() + a.needed()/moveRise*used*used/(moveParts*moveParts)
}

// move gives back idle granules where bytes more would be the most ever reserved, and more than the arena:
// as much as is above that. The arena takes from the heaps first, a heap from the arena. Once the plan is set aside
// what idles in the arena is nobody's, and goes first.
func (a *Allocator) move(held hold, bytes uint64) {
	g, s := a.opts.Granularity, &a.stats
	total, limit := s.ReservedBytes+bytes, max(a.most, a.granules(a.plan.Arena))
	if bytes == 0 || a.movableLap == 0 || total <= limit || a.aside == 0 && total <= a.mayRise() {
		return
	}
	if a.aside == 0 && total-limit > a.movable {
		a.setAside(total)
	}
	if total-limit > a.movable {
		return
	}
	need := (total - limit) / g
	var n uint64
	if held.space != 0 || a.aside > 0 {
		n = a.giveBack(0, held, need)
	}
	n += a.giveBackHeaps(held, need-n)
	if held.space == 0 && a.aside == 0 {
		n += a.giveBack(0, held, need-n)
	}
	if n > 0 {
		s.Moves++
		s.MovedBytes += n * g
		s.ReservedBytes -= n * g
		a.movable -= n * g
	}
}

// Trim gives back every granule of arena and heaps on which nothing lives, and returns the bytes. Blocks that
// wait for streams are freed before, if those are done.
func (a *Allocator) Trim() uint64 {
	a.leaveAll(false)
	return a.trim(nothing, true, math.MaxInt64)
}

// makeRoom commits what is held, for which the capacity had no room, if idle granules make some: as many as
// are missing, and a part of all that are reserved.
func (a *Allocator) makeRoom(held hold) bool {
	g := a.opts.Granularity
	above := a.stats.ReservedBytes + a.space(held.space).missing(held.from, held.to)*g - a.opts.Capacity
	return a.trim(held, true, (above+g-1)/g+a.stats.ReservedBytes/g/roomPart) > 0 && a.commit(held)
}

// trim gives back up to most idle granules of the heaps and, if it may, of the arena.
func (a *Allocator) trim(held hold, arena bool, most uint64) uint64 {
	n := a.giveBackHeaps(held, most)
	if arena {
		n += a.giveBack(0, held, most-n)
	}
	bytes := n * a.opts.Granularity
	if bytes > 0 {
		a.stats.Trims++
		a.stats.ReturnedBytes += bytes
		a.stats.ReservedBytes -= bytes
	}
	return bytes
}

// since is what has been counted since then.
func (a *Allocator) since(then lap) lap {
	s := &a.stats
	return lap{s.Hits - then.hits, s.Conflicts - then.conflicts, s.Dynamic - then.dynamic, s.TooLarge + a.strays - then.off}
}

// setAside, where total would be reserved and no more may be moved, gives the heaps all that the plan would serve, if it serves badly.
// One that serves well may cost more, and where memory is short it is worth that.
func (a *Allocator) setAside(total uint64) {
	n := a.since(a.laps[0])
	off, needed := n.conflicts+n.off, a.needed()
	cheap := total <= needed+needed/asidePart+a.opts.Granularity || a.opts.Capacity != 0 && total > a.opts.Capacity
	if a.movable >= a.granules(a.plan.Arena) || asideOff*off <= n.hits || cheap && (asidePart-1)*off <= n.hits {
		return
	}
	a.stats.SetAside++
	a.aside = moveLap * a.stats.SetAside
	a.movable += moveArenas * a.granules(a.plan.Arena)
}

// endLap follows a request for the plan's last entry: more may be moved, and the plan may come back.
func (a *Allocator) endLap() {
	n := a.since(a.laps[1])
	on := n.hits + n.conflicts + n.dynamic
	a.movable += a.movableLap
	if a.aside > 0 && asidePart*on >= (asidePart-1)*max(on+n.off, uint64(len(a.plan.Entries)-a.match.loop)) {
		a.aside--
	}
	a.laps = [2]lap{a.laps[1], a.since(lap{})}
}
