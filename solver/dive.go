package solver

import (
	"cmp"
	"slices"
)

// First layouts, to have something to be better than: no search, any size of problem.
//
// drop takes the items in a given order and lets each fall onto the skyline of those before
// it. In the order of the offsets of a layout, nothing ends up higher than it was there; so
// a layout made elsewhere, with other ground under it, becomes one of the part.
//
// dive always takes what can lie lowest next, ties by rank: the first branch of the search
// at a capacity without end.

// skyline is the height of what is placed, by section, with the highest of each block of
// sections beside it.
type skyline struct {
	high  []int64
	block []int64
}

const blockBits = 6

func newSkyline(n int32) *skyline {
	return &skyline{make([]int64, n), make([]int64, n>>blockBits+1)}
}

// over is the highest point of [s, e); 0 where that is empty.
func (y *skyline) over(s, e int32) int64 {
	top := int64(0)
	for s < e {
		if s&(1<<blockBits-1) == 0 && s+1<<blockBits <= e {
			top = max(top, y.block[s>>blockBits])
			s += 1 << blockBits
			continue
		}
		top = max(top, y.high[s])
		s++
	}
	return top
}

// raise lifts [s, e) to at least top.
func (y *skyline) raise(s, e int32, top int64) {
	for k := s; k < e; k++ {
		y.high[k] = max(y.high[k], top)
	}
	for b := s >> blockBits; s < e && b <= (e-1)>>blockBits; b++ {
		y.block[b] = max(y.block[b], top)
	}
}

func (y *skyline) under(it *item) int64 { return max(y.over(it.s, it.e), y.over(it.hs, it.he)) }

func (y *skyline) put(it *item, top int64) {
	y.raise(it.s, it.e, top)
	y.raise(it.hs, it.he, top)
}

// drop places the items in the given order. A fixed one stays where it is. It returns the
// offsets and the highest end.
func (p *part) drop(order []int32) (offsets []int64, peak int64) {
	y := newSkyline(p.sections)
	offsets = make([]int64, len(p.items))
	for _, i := range order {
		it := &p.items[i]
		off := max(y.under(it), it.fixed)
		if it.fixed == free {
			off = y.under(it)
		}
		offsets[i] = off
		y.put(it, off+it.size)
		peak = max(peak, off+it.size)
	}
	return offsets, peak
}

// dive places all items, the lowest place first. Nothing may be fixed.
func (p *part) dive(by func(a, b int32) int) (offsets []int64, peak int64) {
	type diver struct {
		off  int64
		rank int32
	}
	order := make([]int32, len(p.items))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, by)
	heap := make([]diver, len(order))
	for n := range heap {
		heap[n] = diver{0, int32(n)}
	}
	before := func(a, b diver) bool { return a.off < b.off || a.off == b.off && a.rank < b.rank }
	sink := func() {
		for i := 0; ; {
			c := 2*i + 1
			if c >= len(heap) {
				return
			}
			if c+1 < len(heap) && before(heap[c+1], heap[c]) {
				c++
			}
			if !before(heap[c], heap[i]) {
				return
			}
			heap[i], heap[c] = heap[c], heap[i]
			i = c
		}
	}
	y := newSkyline(p.sections)
	offsets = make([]int64, len(p.items))
	for len(heap) > 0 {
		i := order[heap[0].rank]
		it := &p.items[i]
		if off := y.under(it); off > heap[0].off {
			heap[0].off = off
			sink()
			continue
		}
		offsets[i] = heap[0].off
		top := heap[0].off + it.size
		y.put(it, top)
		peak = max(peak, top)
		heap[0] = heap[len(heap)-1]
		heap = heap[:len(heap)-1]
		sink()
	}
	return offsets, peak
}

// mostDivers is up to how many items dives are tried; they look at the skyline of the long
// ones again and again.
const mostDivers = 16 << 10

// first makes the best of a few cheap layouts.
func (p *part) first() (offsets []int64, peak int64) {
	if p.pinned || len(p.items) > mostDivers {
		return p.around()
	}
	load := loads(p.items, p.sections)
	need := make([]int64, len(p.items))
	for i := range p.items {
		it := &p.items[i]
		for k := it.s; k < it.e; k++ {
			need[i] = max(need[i], load[k])
		}
		for k := it.hs; k < it.he; k++ {
			need[i] = max(need[i], load[k])
		}
	}
	area := func(i int32) float64 { return float64(p.items[i].size) * float64(p.items[i].life) }
	bySize := func(a, b int32) int { return cmp.Compare(p.items[b].size, p.items[a].size) }
	byLife := func(a, b int32) int { return cmp.Compare(p.items[b].life, p.items[a].life) }
	byArea := func(a, b int32) int { return cmp.Compare(area(b), area(a)) }
	byNeed := func(a, b int32) int { return cmp.Compare(need[b], need[a]) }
	byStart := func(a, b int32) int { return cmp.Compare(p.items[a].first(), p.items[b].first()) }
	peak = 1<<63 - 1
	for _, by := range []func(a, b int32) int{
		func(a, b int32) int { return cmp.Or(byNeed(a, b), byLife(a, b), byArea(a, b)) },
		func(a, b int32) int { return cmp.Or(byNeed(a, b), byArea(a, b), byLife(a, b)) },
		func(a, b int32) int { return cmp.Or(byStart(a, b), byArea(a, b)) },
		byArea,
		func(a, b int32) int { return cmp.Or(bySize(a, b), byLife(a, b)) },
	} {
		if o, h := p.dive(by); h < peak {
			offsets, peak = o, h
		}
		if peak <= p.load {
			break
		}
	}
	return offsets, peak
}

// around places what is free by size, the largest first, at the lowest place that is free
// beside what is fixed.
func (p *part) around() (offsets []int64, peak int64) {
	offsets = make([]int64, len(p.items))
	var order []int32
	for i := range p.items {
		offsets[i] = p.items[i].fixed
		if p.items[i].fixed == free {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(p.items[a].size, p.items[b].size) })
	p.unpeel(order, offsets) // takes the last first
	for i := range p.items {
		peak = max(peak, offsets[i]+p.items[i].size)
	}
	return offsets, peak
}
