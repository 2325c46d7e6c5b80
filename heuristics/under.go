package heuristics

import (
	"math"
	"slices"

	"stweaver/ir"
)

// Packing under rules (ir.Constraints).
//
// What can be said in the words of the ordinary problem is said so, and loses nothing:
//
//	guard   the life is longer by so many ticks
//	keep    the life is the whole timeline
//	region  packed by itself, as an arena of its own; outside, a slab that is always there
//	align   where all wish for the same: sizes are rounded up to it
//	together, pin   fix distances: buffers that are tied move as one unit (units.go)
//
// If no more than lives, sizes and slabs is left, the ordinary race packs, and the slabs lie below. Else it may be
// lucky: packing that leaves out the rest of the rules often obeys them (undereasy.go). Where it does not, or ends above the
// bound, the packers of the table, and drawn ones, place units instead of buffers (underfit.go): what is fixed first, then in
// some of the tries what has a window or many parts, then the packer's own order. The first try is greedy
// by size with best fit, which runs to its end: the result is never above it.
//
//	address
//	   |            +------+        window     rivals (apart) are more spans that are taken
//	   |  [ pin ]   |  u   |  hi
//	   |  |     |   |      |
//	   |            +------+  lo
//	   +-----------------------> time
//
// A region one of whose members has an address or a window begins at the lowest of those. That, and everything
// here, may miss a layout that exists: no is not a proof.

// PackUnder places the buffers of one arena, which begins at address base, under p.Constraints, which are about these
// buffers alone. Addresses in it, and offsets and peak of the result, count from 0, so none is below base; o.Capacity counts from
// base, and the one of the constraints is not looked at. It reports false where it finds no layout. The bound holds for all layouts that
// obey. It is safe for concurrent use, and a function of its arguments unless o.Stop says to stop.
func PackUnder(p *ir.Problem, base ir.Offset, o Options) (Result, bool) {
	y := newYard(p, int64(base))
	y.shared = o.Shared != nil
	res, ok := y.pack(o)
	for i := range res.Layout.Offsets {
		res.Layout.Offsets[i] += base
	}
	if ok {
		res.Layout.Peak = 0
		for i := range p.Buffers {
			res.Layout.Peak = max(res.Layout.Peak, ir.Bytes(res.Layout.Offsets[i])+p.Buffers[i].Size)
		}
	}
	res.Bound += ir.Bytes(base)
	return res, ok
}

// high is above every address.
const high = math.MaxInt64 / 4

// wish is what is asked of the address of one buffer, in bytes from the yard's begin: it begins at lo or
// above, ends at hi or below, at a multiple of align from address 0.
type wish struct{ lo, hi, align int64 }

// link ties two buffers: b begins d bytes after a.
type link struct {
	a, b int32
	d    int64
}

// yard is an arena, or a region of one, with all that is asked of it.
type yard struct {
	base       int64 // address of offset 0
	buffers    []ir.Buffer
	horizon    ir.Tick
	wishes     []wish
	links      []link
	apart      [][][]int32
	pieces     []int64 // nothing lies across a multiple of one of them
	regions    []region
	shared     bool // streams share addresses, on terms that lives alone do not tell
	impossible bool // no layout
}

// newYard puts what p asks for in terms of lives, wishes and links.
func newYard(p *ir.Problem, base int64) *yard {
	y := &yard{base: base, buffers: slices.Clone(p.Buffers), horizon: p.L1, wishes: make([]wish, len(p.Buffers))}
	c := p.Constraints
	if c == nil {
		c = &ir.Constraints{}
	}
	for i := range y.wishes {
		y.wishes[i] = wish{0, high, int64(ir.Align)}
	}
	for i := range c.Pins {
		y.pin(&c.Pins[i])
	}
	for i := range c.Together {
		ids := c.Together[i].Buffers
		for k := 1; k < len(ids); k++ {
			y.links = append(y.links, link{int32(ids[k-1]), int32(ids[k]), int64(p.Buffers[ids[k-1]].Size)})
		}
	}
	for _, a := range c.Apart {
		var sets [][]int32
		for _, s := range a.Sets {
			sets = append(sets, numbers(s))
		}
		y.apart = append(y.apart, sets)
	}
	for _, a := range c.Alignments {
		for _, id := range a.Buffers {
			y.wishes[id].align = max(y.wishes[id].align, int64(a.Bytes))
		}
	}
	guard := make([]ir.Tick, len(p.Buffers))
	for _, g := range c.Guards {
		for _, id := range g.Buffers {
			guard[id] = max(guard[id], g.Ticks)
		}
	}
	for i, n := range guard {
		if n > 0 {
			prolong(&y.buffers[i], n, p.L0, p.L1)
		}
	}
	for _, k := range c.Keeps {
		for _, id := range k.Buffers {
			always(&y.buffers[id], p.L1)
		}
	}
	y.addRegions(c.Regions)
	return y
}

func numbers(ids []ir.BufferID) []int32 {
	out := make([]int32, len(ids))
	for k, id := range ids {
		out[k] = int32(id)
	}
	return out
}

func (y *yard) pin(x *ir.Pin) {
	at := int64(x.Lo) - y.base
	for _, id := range x.Buffers {
		w, size := &y.wishes[id], int64(y.buffers[id].Size)
		lo, hi := at, at+size
		if !x.At() {
			lo, hi = int64(x.Lo)-y.base, int64(x.Hi)-y.base
		}
		w.lo, w.hi = max(w.lo, lo), min(w.hi, hi)
		if w.hi-w.lo < size {
			y.impossible = true
		}
		at += size
	}
}

// always makes b live for the whole timeline.
func always(b *ir.Buffer, l1 ir.Tick) {
	b.Start, b.End, b.HeadStart, b.HeadEnd = 0, l1, 0, 0
}

// prolong lets b live n ticks longer, round the loop [l0, l1).
func prolong(b *ir.Buffer, n, l0, l1 ir.Tick) {
	n = min(n, l1)
	switch {
	case b.HasHead():
		if b.HeadEnd += n; b.HeadEnd >= b.Start { // all the way round
			b.Start, b.HeadStart, b.HeadEnd = b.HeadStart, 0, 0
		}
	case b.End+n <= l1:
		b.End += n
	case l0 == l1 || b.Start < l0:
		b.End = l1
	default:
		over := b.End + n - l1
		b.End = l1
		if l0+over >= b.Start {
			b.Start = l0
		} else {
			b.HeadStart, b.HeadEnd = l0, l0+over
		}
	}
}

// sub is the yard of some of the buffers alone, in a place that begins at base. What ties them to others cannot be had.
func (y *yard) sub(ids []int32, base int64) *yard {
	s := &yard{base: base, horizon: y.horizon, shared: y.shared, impossible: y.impossible}
	at := slices.Repeat([]int32{-1}, len(y.buffers))
	for k, id := range ids {
		at[id] = int32(k)
		s.buffers = append(s.buffers, y.buffers[id])
		w := y.wishes[id]
		w.lo = max(w.lo-(base-y.base), 0)
		if w.hi < high {
			w.hi -= base - y.base
		}
		s.wishes = append(s.wishes, w)
	}
	for _, l := range y.links {
		if a, b := at[l.a], at[l.b]; a >= 0 && b >= 0 {
			s.links = append(s.links, link{a, b, l.d})
		} else if a >= 0 || b >= 0 {
			s.impossible = true
		}
	}
	for _, sets := range y.apart {
		var own [][]int32
		for _, set := range sets {
			var in []int32
			for _, id := range set {
				if at[id] >= 0 {
					in = append(in, at[id])
				}
			}
			if len(in) > 0 {
				own = append(own, in)
			}
		}
		if len(own) > 1 {
			s.apart = append(s.apart, own)
		}
	}
	return s
}
