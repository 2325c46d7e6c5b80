package heuristics

import (
	"cmp"
	"math"
	"slices"

	"stweaver/ir"
)

// region is a part of a yard that is packed by itself.
type region struct {
	ids    []int32
	size   int64 // at most; 0: any
	pieces []int64
}

// addRegions makes one of those with the same buffers. Others that have a buffer in common exclude each other.
func (y *yard) addRegions(list []ir.Region) {
	in := slices.Repeat([]int{-1}, len(y.buffers))
	for _, x := range list {
		ids := numbers(x.Buffers)
		slices.Sort(ids)
		at := in[ids[0]]
		for _, id := range ids {
			if in[id] != at {
				y.impossible = true
			}
		}
		if at >= 0 && len(y.regions[at].ids) != len(ids) {
			y.impossible = true
		}
		if y.impossible {
			return
		}
		if at < 0 {
			at = len(y.regions)
			y.regions = append(y.regions, region{ids: ids})
			for _, id := range ids {
				in[id] = at
			}
		}
		r := &y.regions[at]
		if n := int64(x.Size); n > 0 && (r.size == 0 || n < r.size) {
			r.size = n
		}
		if x.Piece > 0 {
			r.pieces = append(r.pieces, int64(x.Piece))
		}
	}
}

// slab is a region that has been packed.
type slab struct {
	region
	offsets []ir.Offset // of ids, from the slab's begin
	size    int64
	fixed   bool // it begins at at
	at      int64
	align   int64
	bound   ir.Bytes // its live peak
}

// begins are addresses at which a region may begin, one of whose members has an address or a window: the lowest
// of those, and so far below their highest end as it must be large. None: nothing is bound.
func (y *yard) begins(r *region, load int64) []int64 {
	low, top := int64(high), int64(0)
	for _, id := range r.ids {
		if w := y.wishes[id]; w.lo > 0 || w.hi < high {
			low, top = min(low, w.lo), max(top, w.lo+int64(y.buffers[id].Size))
		}
	}
	if low == high {
		return nil
	}
	if deep := max(top-load, 0); deep < low {
		return []int64{low, deep}
	}
	return []int64{low}
}

// packRegion packs a region by itself, where it begins if that is bound: the least of some tries.
func (y *yard) packRegion(r *region, o Options) (best slab, found bool) {
	load := newInstance(y.sub(r.ids, y.base).buffers, y.horizon).bound
	begins := y.begins(r, int64(load))
	for _, at := range begins {
		if b, ok := y.packRegionAt(r, at, true, load, o); ok && (!found || b.size < best.size) {
			best, found = b, true
		}
	}
	if len(begins) == 0 {
		return y.packRegionAt(r, 0, false, load, o)
	}
	return best, found
}

func (y *yard) packRegionAt(r *region, at int64, fixed bool, load ir.Bytes, o Options) (slab, bool) {
	b := slab{region: *r, align: int64(ir.Align), at: at, fixed: fixed, bound: load}
	for _, id := range r.ids {
		b.align = max(b.align, y.wishes[id].align)
	}
	base := int64(0) // free: it will begin at a multiple of align
	if b.fixed {
		base = y.base + b.at
	}
	s := y.sub(r.ids, base)
	if !b.fixed {
		for k, id := range r.ids {
			s.wishes[k] = y.wishes[id]
		}
	}
	s.pieces = r.pieces
	o.Capacity = ir.Bytes(r.size)
	res, ok := s.pack(o)
	if !ok {
		return b, false
	}
	b.offsets = res.Layout.Offsets
	low := ir.Offset(math.MaxInt64)
	for k, at := range b.offsets {
		b.size = max(b.size, int64(at)+int64(s.buffers[k].Size))
		low = min(low, at)
	}
	if r.size > 0 && b.size-int64(low) > r.size || low > 0 && len(r.pieces) > 0 { // they count from the lowest address
		return b, false
	}
	if b.fixed { // what is below the lowest is not the region's
		b.at, b.size = b.at+int64(low), b.size-int64(low)
		for k := range b.offsets {
			b.offsets[k] -= low
		}
	}
	return b, true
}

// pack places everything; offsets are from the yard's begin.
func (y *yard) pack(o Options) (Result, bool) {
	if y.impossible {
		return Result{}, false
	}
	var slabs []slab
	inside := make([]bool, len(y.buffers))
	for k := range y.regions {
		b, ok := y.packRegion(&y.regions[k], o)
		if !ok {
			return Result{}, false
		}
		slabs = append(slabs, b)
		for _, id := range b.ids {
			inside[id] = true
		}
	}
	// What is outside is renumbered, and the slabs follow it as buffers that are always there.
	var ids []int32
	for i := range y.buffers {
		if !inside[i] {
			ids = append(ids, int32(i))
		}
	}
	out := y.sub(ids, y.base)
	out.pieces = y.pieces
	slices.SortStableFunc(slabs, func(a, b slab) int { return cmp.Compare(b.align, a.align) })
	for _, b := range slabs {
		w := wish{0, high, b.align}
		if b.fixed {
			w.lo, w.hi = b.at, b.at+b.size
		}
		out.buffers = append(out.buffers, ir.Buffer{Size: ir.Bytes(b.size), End: y.horizon})
		out.wishes = append(out.wishes, w)
	}
	res, ok := out.packFlat(slabs, o)
	if !ok {
		return Result{}, false
	}
	offsets := make([]ir.Offset, len(y.buffers))
	for k, id := range ids {
		offsets[id] = res.Layout.Offsets[k]
	}
	for n, b := range slabs {
		at := res.Layout.Offsets[len(ids)+n]
		for k, id := range b.ids {
			offsets[id] = at + b.offsets[k]
		}
	}
	res.Layout.Offsets = offsets
	return res, true
}
