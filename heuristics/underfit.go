package heuristics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"stweaver/ir"
)

// under is what packers of an instance obey: they place units.
type under struct {
	units  []unit
	unitOf []int32 // by buffer
	pieces []int64
	lists  int     // of addresses, for apart
	fixed  []int32 // units with one place
	tight  []int32 // units with a window, narrowest first, and then those of several parts, largest first
}

// newUnderRace is a race whose packers place units.
func (y *yard) newUnderRace(units []unit, bound ir.Bytes, o Options) *race {
	in := newInstance(y.buffers, y.horizon)
	if o.Shared != nil {
		in = newShared(y.buffers, y.horizon, *o.Shared)
	}
	in.bound = bound
	u := &under{units: units, unitOf: make([]int32, len(y.buffers)), pieces: y.pieces, lists: int(y.newLists().n)}
	for k := range units {
		x := &units[k]
		for _, p := range x.parts {
			for _, id := range p.ids {
				u.unitOf[id] = int32(k)
			}
		}
		switch {
		case x.fixed():
			u.fixed = append(u.fixed, int32(k))
		case x.hi < high || len(x.parts) > 1:
			u.tight = append(u.tight, int32(k))
		}
	}
	slices.SortStableFunc(u.tight, func(a, b int32) int {
		x, y := &units[a], &units[b]
		return cmp.Or(cmp.Compare(min(x.hi-x.lo-x.size, high/2), min(y.hi-y.lo-y.size, high/2)), cmp.Compare(y.size, x.size))
	})
	in.under = u
	return newRace(in, o)
}

// race packs units by the packers that place through the index, and by drawn ones.
func (y *yard) race(units []unit, bound ir.Bytes, o Options) (Result, bool) {
	for k := range units { // tied buffers may suit no border of pieces
		if u := &units[k]; u.next(u.lo, u.hi, y.pieces) < 0 {
			return Result{Bound: bound}, false
		}
	}
	r := y.newUnderRace(units, bound, o)
	if o.only > 0 {
		res := r.only(r.underTries(EffortFast), o)
		return res, res.Layout.Offsets != nil
	}
	r.run(r.underTries(EffortFast), bound)
	if !r.near() {
		r.run(r.underTries(o.Effort), bound)
	}
	if goal := o.Capacity; goal >= bound && r.best.offsets != nil && r.best.peak > int64(goal) {
		r.run(r.underTries(EffortMax), goal)
	}
	if r.best.offsets == nil {
		return Result{Bound: bound}, false
	}
	return r.result(), true
}

// underTries lists the tries under rules, the reference first. Those for a lower effort are the beginning.
func (r *race) underTries(effort int) []try {
	n := max(len(r.in.buffers), 1)
	effort = max(effort, 0)
	reference, _ := ByName("size-best")
	tries := []try{{name: "size-best, tight first", run: tightFirst(reference.run), exempt: true}}
	for _, p := range packers {
		if !p.views {
			continue
		}
		if !p.reference {
			tries = append(tries, try{name: p.Name + ", tight first", run: tightFirst(p.run)})
		}
		if len(r.in.under.tight) > 0 {
			tries = append(tries, try{name: p.Name, run: p.run})
		}
	}
	most := max(minTries, (placements+effort*placementsPerTry)/n)
	most = min(most, len(tries)+effort*mostPerEffort)
	for i := 0; len(tries) < most; i += 2 { // every other one is a dive
		tries = append(tries, try{name: fmt.Sprintf("sample-%d", i), run: tightFirst(sample(i))})
	}
	return tries[:most]
}

func tightFirst(run func(*bench) bool) func(*bench) bool {
	return func(w *bench) bool {
		w.tightFirst = true
		defer func() { w.tightFirst = false }()
		return run(w)
	}
}

// restarts is how often a try begins again with the unit that found no place in its window further ahead.
const restarts = 24

// Outcomes of fillUnits, beside the number of the unit that found no place.
const (
	filled = -1
	gaveUp = -2
)

// fillUnder is fill for units. A unit that finds its window full goes before all others in the next attempt:
// those that are hard to place come to the front by themselves.
//
// Source: Joslin, Clements, "Squeaky wheel" optimization (AAAI 1998).
func (w *bench) fillUnder(order []int32, choose func(id int32) fit) bool {
	w.ahead = w.ahead[:0]
	for n := 0; ; n++ {
		stuck := w.fillUnits(order, choose)
		if stuck == filled || stuck == gaveUp || n == restarts {
			return stuck == filled
		}
		if k := slices.Index(w.ahead, stuck); k >= 0 {
			w.ahead = slices.Delete(w.ahead, k, k+1)
		}
		w.ahead = slices.Insert(w.ahead, 0, stuck)
		steps := w.index.steps
		w.start()
		w.index.steps = steps // all attempts together
	}
}

func (w *bench) fillUnits(order []int32, choose func(id int32) fit) int32 {
	u := w.in.under
	w.used = w.used[:0]
	for range u.lists {
		w.used = append(w.used, list{class: noRoom})
	}
	ceil, placed := int64(math.MaxInt64), 0
	place := func(k int32) int32 {
		x := &u.units[k]
		if w.offsets[x.parts[0].ids[0]] != ir.NoOffset {
			return filled
		}
		if placed%asking == 0 {
			if w.leash.ceil != nil {
				ceil = w.leash.ceil()
			}
			if w.peak > ceil || w.leash.steps > 0 && w.index.steps > w.leash.steps {
				return gaveUp
			}
		}
		placed++
		at := w.findUnit(x, min(x.hi, ceil), choose(x.parts[0].ids[0]))
		switch {
		case at < 0 && ceil < x.hi:
			return gaveUp
		case at < 0:
			return k
		}
		w.takeUnit(x, at)
		return filled
	}
	for _, units := range [][]int32{u.fixed, w.ahead} {
		for _, k := range units {
			if stuck := place(k); stuck != filled {
				return stuck
			}
		}
	}
	if w.tightFirst {
		for _, k := range u.tight {
			if stuck := place(k); stuck != filled {
				return stuck
			}
		}
	}
	for _, id := range order {
		if stuck := place(u.unitOf[id]); stuck != filled {
			return stuck
		}
	}
	return filled
}

// findUnit returns where x goes, or -1 if there is no place below hi.
func (w *bench) findUnit(x *unit, hi int64, f fit) int64 {
	addr := x.next(x.lo, hi, w.in.under.pieces)
	if len(x.parts) == 1 {
		return w.findSingle(x, addr, hi, f)
	}
	for addr >= 0 {
		moved := addr
		for k := range x.parts {
			p := &x.parts[k]
			if !w.lineUp(p) {
				continue
			}
			at, gap := w.index.settle(moved+p.lo, p.hi-p.lo, hi-x.size+p.hi)
			if gap == 0 {
				return -1
			}
			moved = at - p.lo
		}
		if moved == addr {
			return addr
		}
		addr = x.next(moved, hi, w.in.under.pieces)
	}
	return -1
}

// lineUp opens the lists that a part must avoid; false if it meets nothing.
func (w *bench) lineUp(p *unitPart) bool {
	x := &w.index
	if p.hi == p.lo {
		return false
	}
	if w.in.pieces[p.ids[0]].empty() {
		x.walk = x.walk[:0]
	} else {
		w.locate(p.ids[0])
		x.open()
	}
	for _, r := range p.rivals {
		if l := &w.used[r]; l.n > 0 {
			s := x.pool[l.at]
			x.walk = append(x.walk, cursor{s.lo, s.hi, l.at, l.at + l.n})
		}
	}
	return len(x.walk) > 0
}

// findSingle is find for a unit of one part, from addr on.
func (w *bench) findSingle(x *unit, addr, hi int64, f fit) int64 {
	if addr < 0 || !w.lineUp(&x.parts[0]) {
		return addr
	}
	best, bestGap := int64(-1), int64(math.MaxInt64)
	for addr >= 0 {
		at, gap := w.index.settle(addr, x.size, hi)
		if gap == 0 {
			break
		}
		open := gap == math.MaxInt64
		to := x.next(at, hi, w.in.under.pieces)
		if to < 0 {
			break
		}
		if !open && to+x.size > at+gap { // alignment or a border of pieces moves it out of the gap
			addr = max(to, at+gap)
			continue
		}
		switch {
		case f == firstFit || gap == x.size:
			return to
		case open:
			if best < 0 {
				best = to
			}
			return best
		case gap < bestGap:
			best, bestGap = to, gap
		}
		addr = at + gap
	}
	return best
}

// takeUnit puts x at an address where it fits.
func (w *bench) takeUnit(x *unit, at int64) {
	for k := range x.parts {
		p := &x.parts[k]
		to := at + p.lo
		if p.hi > p.lo && !w.in.pieces[p.ids[0]].empty() {
			w.locateTaken(p.ids[0])
			w.index.take(to, at+p.hi)
		}
		if p.hi > p.lo {
			for _, l := range p.own {
				w.index.add(&w.used[l], to, at+p.hi)
			}
		}
		for i, id := range p.ids {
			w.offsets[id] = ir.Offset(to)
			to += p.sizes[i]
		}
		w.peak = max(w.peak, to)
	}
}
