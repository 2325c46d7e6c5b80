package heuristics

import (
	"cmp"
	"math"
	"slices"

	"stweaver/ir"
)

// packFlat packs a yard without regions; slabs are its last buffers.
func (y *yard) packFlat(slabs []slab, o Options) (Result, bool) {
	units, ok := y.units()
	if y.impossible || !ok {
		return Result{}, false
	}
	load := y.load(slabs)
	if align, ok := y.ordinary(slabs, units); ok {
		return y.packOrdinary(len(slabs), units, align, 0, load, o)
	}
	var lucky Result
	ok = false
	if top := highest(units); top <= int64(load) {
		if lucky, ok = y.byLuck(slabs, units, load, o); ok && lucky.Layout.Peak <= load+load/nearEnough {
			return lucky, true
		}
	}
	bound := load
	for k := range units {
		if u := &units[k]; int(u.parts[0].ids[0]) < len(y.buffers)-len(slabs) {
			bound = max(bound, ir.Bytes(u.lo+u.size))
		}
	}
	r, found := y.race(units, bound, o)
	if !found && !ok {
		lucky, ok = y.byLuck(slabs, units, load, o)
	}
	if ok && (!found || lucky.Layout.Peak < r.Layout.Peak) {
		return lucky, true
	}
	r.Load = load
	return r, found
}

// highest is the highest end of a fixed unit.
func highest(units []unit) (top int64) {
	for k := range units {
		if u := &units[k]; u.fixed() {
			top = max(top, u.hi)
		}
	}
	return top
}

// load is the live peak, with slabs no larger than they must be, or more where what lies apart takes more: no layout is below.
func (y *yard) load(slabs []slab) ir.Bytes {
	buffers := slices.Clone(y.buffers)
	for k, b := range slabs {
		buffers[len(buffers)-len(slabs)+k].Size = b.bound
	}
	load := newInstance(buffers, y.horizon).bound
	for _, sets := range y.apart { // each has addresses of its own
		sum := ir.Bytes(0)
		for _, set := range sets {
			own := make([]ir.Buffer, len(set))
			for k, id := range set {
				own[k] = buffers[id]
			}
			sum += newInstance(own, y.horizon).bound
		}
		load = max(load, sum)
	}
	return load
}

// ordinary reports whether the race for ordinary problems can pack the yard: nothing is bound to an address, and all
// but the slabs wish for one alignment, which is returned.
func (y *yard) ordinary(slabs []slab, units []unit) (align int64, ok bool) {
	n := int32(len(y.buffers) - len(slabs))
	for k := range units {
		u := &units[k]
		if u.bound() || len(u.parts) > 1 || len(u.parts[0].own) > 0 {
			return 0, false
		}
		if u.parts[0].ids[0] >= n {
			continue
		}
		if align != 0 && u.mod != align || u.rem != 0 || y.base%u.mod != 0 {
			return 0, false
		}
		align = u.mod
	}
	return max(align, int64(ir.Align)), len(y.pieces) == 0
}

// byLuck packs as if windows and apart were not asked for, units were boxes that are all there as long as any of
// their buffers is, and nothing else could lie below the highest fixed one, and reports whether what comes out
// obeys. Where rules bind little it does, and the ordinary race is the better packer.
func (y *yard) byLuck(slabs []slab, units []unit, load ir.Bytes, o Options) (r Result, ok bool) {
	boxes := *y
	boxes.buffers = slices.Clone(y.buffers)
	var fixed []*unit
	var free []unit
	top := highest(units)
	for k := range units {
		u := units[k]
		if u.fixed() {
			fixed = append(fixed, &units[k])
			continue
		}
		box, ok := boxes.box(y, &u)
		if !ok {
			return r, false
		}
		u.lo, u.hi, u.parts = 0, high, []unitPart{box}
		free = append(free, u)
	}
	align, ok := boxes.ordinary(slabs, free)
	if !ok || y.collide(fixed) {
		return r, false
	}
	if r, ok = boxes.packOrdinary(len(slabs), free, align, top, load, o); !ok {
		return r, false
	}
	for _, u := range fixed {
		for _, p := range u.parts {
			at := ir.Offset(u.lo + p.lo)
			for n, id := range p.ids {
				r.Layout.Offsets[id] = at
				at += ir.Offset(p.sizes[n])
			}
		}
	}
	r.Layout.Peak = max(r.Layout.Peak, ir.Bytes(top))
	for k := range units {
		u := &units[k]
		if at := int64(r.Layout.Offsets[u.parts[0].ids[0]]); at < u.lo || at+u.size > u.hi {
			return r, false
		}
	}
	for _, sets := range y.apart {
		if y.mixed(sets, r.Layout.Offsets) {
			return r, false
		}
	}
	r.Bound, r.Load = load, load
	return r, true
}

// box is unit u of from as one part, whose first buffer lives as long as any of them; false where that cannot be said.
func (y *yard) box(from *yard, u *unit) (unitPart, bool) {
	all := unitPart{hi: u.size}
	for n := range u.parts {
		p := &u.parts[n]
		if n > 0 && (p.lo != u.parts[n-1].hi || y.shared && from.buffers[p.ids[0]].Stream != from.buffers[u.parts[0].ids[0]].Stream) {
			return all, false
		}
		all.ids, all.sizes = append(all.ids, p.ids...), append(all.sizes, p.sizes...)
		cover(&y.buffers[all.ids[0]], &from.buffers[p.ids[0]])
	}
	return all, true
}

// mostFixed is the number of fixed units that are compared pair by pair.
const mostFixed = 2_000

// collide reports whether fixed units are in each other's way, or may be.
func (y *yard) collide(fixed []*unit) bool {
	if len(fixed) > mostFixed {
		return true
	}
	slices.SortFunc(fixed, func(a, b *unit) int { return cmp.Compare(a.lo, b.lo) })
	for k, a := range fixed {
		for _, b := range fixed[k+1:] {
			if b.lo >= a.hi {
				break
			}
			for i := range a.parts {
				for n := range b.parts {
					p, q := &a.parts[i], &b.parts[n]
					if a.lo+p.lo < b.lo+q.hi && b.lo+q.lo < a.lo+p.hi && (y.shared || y.buffers[p.ids[0]].Overlaps(&y.buffers[q.ids[0]])) {
						return true
					}
				}
			}
		}
	}
	return false
}

// cover lets b live whenever a does.
func cover(b, a *ir.Buffer) {
	b.Start, b.End, b.Lag = min(b.Start, a.Start), max(b.End, a.End), max(b.Lag, a.Lag)
	switch {
	case a.HasHead() && b.HasHead():
		b.HeadStart, b.HeadEnd = min(b.HeadStart, a.HeadStart), max(b.HeadEnd, a.HeadEnd)
	case a.HasHead():
		b.HeadStart, b.HeadEnd = a.HeadStart, a.HeadEnd
	}
	if b.HasHead() && b.HeadEnd >= b.Start {
		b.Start, b.HeadStart, b.HeadEnd = min(b.Start, b.HeadStart), 0, 0
	}
}

// mixed reports whether members of different sets share addresses: walking upwards, whether one begins below the
// highest end so far of another set.
func (y *yard) mixed(sets [][]int32, offsets []ir.Offset) bool {
	setOf := make(map[int32]int)
	var all []int32
	for s, set := range sets {
		for _, id := range set {
			setOf[id] = s
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b int32) int { return cmp.Or(cmp.Compare(offsets[a], offsets[b]), cmp.Compare(a, b)) })
	ends := make([]ir.Offset, 2) // the highest end, and the highest of the sets other than its
	top := -1
	for _, id := range all {
		s, end := setOf[id], offsets[id]+ir.Offset(y.buffers[id].Size)
		if s != top && ends[0] > offsets[id] || s == top && ends[1] > offsets[id] {
			return true
		}
		switch {
		case s == top:
			ends[0] = max(ends[0], end)
		case end >= ends[0]:
			ends[1], ends[0], top = ends[0], end, s
		default:
			ends[1] = max(ends[1], end)
		}
	}
	return false
}

// packOrdinary puts the slabs below, from top on, and packs the rest in the ordinary way above them. It fails only where
// o.only does.
func (y *yard) packOrdinary(slabs int, units []unit, align, top int64, bound ir.Bytes, o Options) (Result, bool) {
	offsets := make([]ir.Offset, len(y.buffers))
	n := int32(len(y.buffers) - slabs)
	var buffers []ir.Buffer
	var outside []*unit
	for k := range units {
		u := &units[k]
		id := u.parts[0].ids[0]
		if id >= n {
			at := u.next(top, math.MaxInt64, nil)
			offsets[id], top = ir.Offset(at), at+u.size
			continue
		}
		b := y.buffers[id]
		b.Size = ir.Bytes((u.size + align - 1) / align * align)
		buffers = append(buffers, b)
		outside = append(outside, u)
	}
	top = (top + align - 1) / align * align
	if o.Capacity > 0 {
		o.Capacity = max(o.Capacity-ir.Bytes(top), 1)
	}
	var r Result
	if o.only > 0 && len(buffers) > 0 {
		if r = packOnly(buffers, y.horizon, o); r.Layout.Offsets == nil {
			return r, false
		}
	} else {
		r = Pack(buffers, y.horizon, o)
	}
	if o.Lower != nil && o.Shared == nil && o.only == 0 && r.Layout.Peak > r.Bound {
		r.Layout, r.Bound = o.Lower(buffers, r.Layout, r.Bound)
	}
	for k, u := range outside {
		at := ir.Offset(top) + r.Layout.Offsets[k]
		for _, id := range u.parts[0].ids {
			offsets[id] = at
			at += ir.Offset(y.buffers[id].Size)
		}
	}
	if slabs == 0 && len(buffers) == len(y.buffers) { // rounded up, no layout is below r.Bound; the highest buffer need not be
		bound = max(bound, r.Bound-ir.Bytes(align)+ir.Align)
	}
	r.Layout, r.Bound, r.Load = ir.Layout{Offsets: offsets}, bound, bound
	for i := range y.buffers {
		r.Layout.Peak = max(r.Layout.Peak, ir.Bytes(offsets[i])+y.buffers[i].Size)
	}
	return r, true
}
