package solver

import (
	"cmp"
	"slices"
)

// state is what a search changes while it goes down and up: flat arrays, and a log of what
// they were. Nothing is copied; undo goes back through the log.
type state struct {
	p        *part
	on       Switches
	capacity int64 // units

	off    []int64 // by item; free where unplaced
	low    []int64 // by item, unplaced: no placed one that it meets ends above it; of a fixed one its place
	rank   []int32 // by item: position in the current order
	twin   []int32 // by item: the equal one that goes before it; -1
	live   []int32 // section -> its items, one after the other
	liveAt []int32 // where those of a section begin
	total  []int64 // by section: sizes of the unplaced
	floor  []int64 // by section: no unplaced one lies under it; with Unallocated, as of the start
	seam   []int32 // by section k: unplaced pieces in both k-1 and k

	witness []int32 // by section, with Unallocated: an unplaced one that lies low enough for all to fit over it
	vouches []int32 // by item: of how many sections it is the witness

	near   []int32 // item -> the items it meets, one after the other
	nearAt []int32 // where those of an item begin; nil where there are too many

	lower, upper int32 // the flip: upper goes after lower; -1 where unused

	key    key      // of the part that place works on
	order  []int32  // the placed, in the order they were placed
	lows   []logged // what low, floor and rank were
	floors []logged
	ranks  []ranked
	turns  []ranked // what witness was
	mark   []uint32 // by section: == gen where a witness is to be found again
	gen    uint32
	dirty  []int32
}

// logged is what one entry of an array was.
type logged struct {
	at  int32
	was int64
}

type ranked struct{ at, was int32 }

// newState makes the state in which nothing is placed.
func newState(p *part, capacity int64, on Switches) *state {
	n, m := len(p.items), int(p.sections)
	x := &state{
		p: p, on: on, capacity: capacity,
		off: make([]int64, n), low: make([]int64, n), rank: make([]int32, n),
		liveAt: make([]int32, m+1), total: make([]int64, m), floor: make([]int64, m), seam: make([]int32, m+2),
		mark: make([]uint32, m), lower: -1, upper: -1,
		witness: make([]int32, m), vouches: make([]int32, n),
	}
	sum := 0
	for i := range p.items {
		it := &p.items[i]
		x.off[i] = free
		x.low[i] = max(it.fixed, 0)
		sum += int(it.sections())
		x.each(it, func(s, e int32) {
			for k := s; k < e; k++ {
				x.total[k] += it.size
				x.liveAt[k+1]++
			}
			for k := s + 1; k < e; k++ {
				x.seam[k]++
			}
		})
	}
	for k := range m {
		x.liveAt[k+1] += x.liveAt[k]
	}
	x.live = make([]int32, sum)
	next := slices.Clone(x.liveAt)
	order := make([]int32, n) // the short first: they are placed late, and lowest stops at the first that will do
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(p.items[a].life, p.items[b].life) })
	for _, i := range order {
		x.each(&p.items[i], func(s, e int32) {
			for k := s; k < e; k++ {
				x.live[next[k]] = i
				next[k]++
			}
		})
	}
	for k := range x.floor {
		x.witness[k] = -1
		if on.has(Unallocated) {
			if w := x.lowest(int32(k)); w >= 0 {
				x.floor[k], x.witness[k] = x.low[w], w
				x.vouches[w]++
			}
		}
	}
	x.meetings()
	if on.has(Twins) {
		x.twin = twins(p.items)
	}
	return x
}

// each calls f for the pieces of it.
func (x *state) each(it *item, f func(s, e int32)) {
	f(it.s, it.e)
	if it.hs < it.he {
		f(it.hs, it.he)
	}
}

// The unallocated floor of a section is not kept, only tested: the least low of the unplaced
// ones, and all their sizes, are to be within the capacity. One of them with a low of at most
// capacity - total is a witness of that. The test need not be made again until the witness
// is placed or raised above that; then another one is looked for, and where there is none the
// branch is dead. Placing others only makes total less. Witnesses are logged, so each state
// has its own again after undo.

// lowest is the first of the unplaced in section k with the least low; -1 if all are placed.
func (x *state) lowest(k int32) int32 {
	best := int32(-1)
	for _, w := range x.live[x.liveAt[k]:x.liveAt[k+1]] {
		if x.off[w] == free && (best < 0 || x.low[w] < x.low[best]) {
			best = w
		}
	}
	return best
}

// testify finds a witness for section k. It reports whether there is one, or no need for one.
func (x *state) testify(k int32) bool {
	if x.total[k] == 0 {
		return true
	}
	most := x.capacity - x.total[k]
	for _, w := range x.live[x.liveAt[k]:x.liveAt[k+1]] {
		if x.off[w] == free && x.low[w] <= most {
			was := x.witness[k]
			x.turns = append(x.turns, ranked{k, was})
			x.vouches[was]--
			x.vouches[w]++
			x.witness[k] = w
			return true
		}
	}
	return false
}

// place puts item i at off, the lowest place it has. rest are the unplaced it may meet.
// It reports whether the rest still can be placed for all it sees, and whether any of them
// meets i; where it fails at a glance, nothing is changed and it says true.
func (x *state) place(i int32, off int64, rest []int32) (ok, met bool) {
	it := &x.p.items[i]
	top := off + it.size
	if top > x.capacity || x.on.has(Inference) && (!x.fitsOver(it.s, it.e, it.size, top) || !x.fitsOver(it.hs, it.he, it.size, top)) {
		return false, true
	}
	x.off[i] = off
	x.order = append(x.order, i)
	x.gen++
	x.dirty = x.dirty[:0]
	x.take(i, it, top)
	x.key.drop(i, off)
	ok = true
	raise := func(u int32) {
		met = true
		o := &x.p.items[u]
		was := x.low[u]
		if was >= top {
			return
		}
		if o.fixed != free { // it stands where it stands
			ok = false
			return
		}
		x.lows = append(x.lows, logged{u, was})
		x.key.drop(u, was)
		x.key.join(u, top)
		x.low[u] = top
		if top+o.size > x.capacity {
			ok = false
		}
		if ok && x.vouches[u] > 0 {
			x.touch(u, o.s, o.e, top)
			x.touch(u, o.hs, o.he, top)
		}
	}
	if x.nearAt != nil {
		for _, u := range x.near[x.nearAt[i]:x.nearAt[i+1]] {
			if x.off[u] == free {
				raise(u)
			}
		}
	} else {
		for _, u := range rest {
			if x.p.items[u].meets(it) {
				raise(u)
			}
		}
	}
	if !ok || !x.on.has(Inference) {
		return ok, met
	}
	for _, k := range x.dirty {
		if !x.testify(k) {
			return false, met
		}
	}
	return true, met // without Unallocated, fitsOver has looked at all that changed
}

// fitsOver is section inference over [s, e) for an item about to be placed below top: all
// other unplaced ones there go above it.
func (x *state) fitsOver(s, e int32, size, top int64) bool {
	room := x.capacity - top + size
	for k := s; k < e; k++ {
		if x.total[k] > room {
			return false
		}
	}
	return true
}

// fits is the test of section inference over [s, e): what is unplaced there is alive
// together and goes on top of each other from the floor up.
func (x *state) fits(s, e int32) bool {
	for k := s; k < e; k++ {
		if x.total[k] > 0 && x.floor[k]+x.total[k] > x.capacity {
			return false
		}
	}
	return true
}

// take moves item i from the unplaced to the placed in its sections.
func (x *state) take(i int32, it *item, top int64) {
	x.takeIn(i, it.s, it.e, it.size, top)
	if it.hs < it.he {
		x.takeIn(i, it.hs, it.he, it.size, top)
	}
}

func (x *state) takeIn(i, s, e int32, size, top int64) {
	unallocated := x.on.has(Unallocated)
	for k := s; k < e; k++ {
		x.total[k] -= size
		if !unallocated {
			x.floors = append(x.floors, logged{k, x.floor[k]})
			x.floor[k] = top
		} else if x.witness[k] == i {
			x.dismiss(k)
		}
	}
	for k := s + 1; k < e; k++ {
		x.seam[k]--
	}
}

// touch dismisses u, about to be raised to top, where it is the witness and that is too high.
func (x *state) touch(u, s, e int32, top int64) {
	for k := s; k < e; k++ {
		if x.witness[k] == u && top > x.capacity-x.total[k] {
			x.dismiss(k)
		}
	}
}

// dismiss marks section k as one without a witness.
func (x *state) dismiss(k int32) {
	if x.mark[k] != x.gen {
		x.mark[k] = x.gen
		x.dirty = append(x.dirty, k)
	}
}

// point is a place in the log.
type point struct{ order, lows, floors, ranks, turns int }

func (x *state) point() point {
	return point{len(x.order), len(x.lows), len(x.floors), len(x.ranks), len(x.turns)}
}

// undo goes back to a point.
func (x *state) undo(to point) {
	for k := len(x.order) - 1; k >= to.order; k-- {
		i := x.order[k]
		it := &x.p.items[i]
		x.off[i] = free
		x.give(it.s, it.e, it.size)
		if it.hs < it.he {
			x.give(it.hs, it.he, it.size)
		}
	}
	x.order = x.order[:to.order]
	for k := len(x.lows) - 1; k >= to.lows; k-- {
		x.low[x.lows[k].at] = x.lows[k].was
	}
	x.lows = x.lows[:to.lows]
	for k := len(x.floors) - 1; k >= to.floors; k-- {
		x.floor[x.floors[k].at] = x.floors[k].was
	}
	x.floors = x.floors[:to.floors]
	for k := len(x.ranks) - 1; k >= to.ranks; k-- {
		x.rank[x.ranks[k].at] = x.ranks[k].was
	}
	x.ranks = x.ranks[:to.ranks]
	for k := len(x.turns) - 1; k >= to.turns; k-- {
		t := x.turns[k]
		x.vouches[x.witness[t.at]]--
		x.vouches[t.was]++
		x.witness[t.at] = t.was
	}
	x.turns = x.turns[:to.turns]
}

func (x *state) give(s, e int32, size int64) {
	for k := s; k < e; k++ {
		x.total[k] += size
	}
	for k := s + 1; k < e; k++ {
		x.seam[k]++
	}
}
