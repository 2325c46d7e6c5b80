package heuristics

import (
	"slices"

	"stweaver/ir"
)

// Expansion: the items of a coarse layout stay where they are, and the rest is fitted into
// what is free. What is left is small against the slack around it, so best fit in one of a
// few orders usually adds nothing to the peak; the orders are tried until one does not.
//
// Melting: a core knows the tight moments only, so members of two of its boxes may meet at
// another time. The one that comes second is not put, and is fitted with the rest. So are
// the members of a congruent block that reaches above the bound.

// expansions are the orders, cheapest success first.
var expansions = [...]key{byNeed, byCrestStart, byCrest, bySize}

// expand completes a coarse layout of the given peak. It reports false if the leash ended
// every order.
func (w *bench) expand(c *coarse, offsets []ir.Offset, peak int64) bool {
	w.start()
	for k, it := range c.items {
		if it.rigid && int64(offsets[k])+int64(c.in.buffers[k].Size) > int64(w.in.bound) {
			continue // melted
		}
		for j, id := range it.ids {
			at := int64(offsets[k]) + it.at[j]
			w.put(id, at)
		}
	}
	w.fixed.copyFrom(&w.index)
	base := w.peak
	placed := slices.Clone(w.offsets)
	var best []ir.Offset
	low := int64(0)
	ceil := w.leash.ceil
	defer func() { w.leash.ceil = ceil }()
	w.leash.ceil = func() int64 {
		top := low - 1
		if best == nil {
			top = int64(1<<63 - 1)
		}
		if ceil != nil {
			top = min(top, ceil())
		}
		return top
	}
	for n, k := range expansions {
		if n > 0 {
			w.index.copyFrom(&w.fixed)
			copy(w.offsets, placed)
			w.peak = base
		}
		w.order = w.order[:0]
		for _, id := range w.in.ids(k) {
			if w.offsets[id] == ir.NoOffset {
				w.order = append(w.order, id)
			}
		}
		if w.fill(w.order, func(int32) fit { return bestFit }) {
			low = w.peak
			best = append(best[:0], w.offsets...)
			if low <= peak {
				break
			}
		}
	}
	if best == nil {
		return false
	}
	copy(w.offsets, best)
	w.peak = low
	return true
}

// put places a buffer at an address, if that is free for all of its life; else it stays
// unplaced, and belongs to the rest.
func (w *bench) put(id int32, at int64) {
	size := int64(w.in.buffers[id].Size)
	if p := w.in.pieces[id]; size > 0 && !p.empty() {
		w.index.locate(p)
		if !w.index.vacant(at, at+size) {
			return
		}
		w.index.take(at, at+size)
	}
	w.offsets[id] = ir.Offset(at)
	w.peak = max(w.peak, at+size)
}

// vacant reports whether [lo, hi) is free for the located buffer.
func (x *index) vacant(lo, hi int64) bool {
	for _, v := range x.above {
		if x.meets(&x.nodes[v].own, lo, hi) {
			return false
		}
	}
	for _, v := range x.covered {
		if x.meets(&x.nodes[v].sub, lo, hi) {
			return false
		}
	}
	return true
}

// meets reports whether a span of l shares a byte with [lo, hi).
func (x *index) meets(l *list, lo, hi int64) bool {
	s := x.pool[l.at : l.at+l.n]
	i, j := 0, len(s) // the first span that ends above lo
	for i < j {
		if m := int(uint(i+j) / 2); s[m].hi <= lo {
			i = m + 1
		} else {
			j = m
		}
	}
	return i < len(s) && s[i].lo < hi
}

// copyFrom makes x equal to y.
func (x *index) copyFrom(y *index) {
	x.leaves, x.steps = y.leaves, y.steps
	x.nodes = append(x.nodes[:0], y.nodes...)
	x.pool = append(x.pool[:0], y.pool...)
	for c := range x.free {
		x.free[c] = append(x.free[c][:0], y.free[c]...)
	}
}
