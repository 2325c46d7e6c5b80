package solver

import (
	"cmp"
	"slices"

	"stweaver/ir"
)

// Time as sections (R1). A section begins at a start that follows an end, so all that touch
// a section are alive together at its last start, and buffers that meet in time meet in a
// section:
//
//	buffers  |--a--|     |---c---
//	          |---b---|   |--d---
//	section  |   0       |   1
//
// The sections are the maximal sets of buffers alive at once; which buffers meet, and how
// many bytes are alive at most, is all a layout depends on. So the optimum stays.

// item is one buffer to be placed: its size in units and its time in sections, [s, e) for
// the main piece and [hs, he) for the head. A range with equal ends is empty; the two do
// not meet, and only the head may be empty.
type item struct {
	size         int64
	s, e, hs, he int32
	life         int64 // ticks it occupies
	fixed        int64 // its offset in units; free (-1) if it has none yet
	id           int32 // of the caller
}

const free = -1

func (a *item) meets(b *item) bool {
	return a.s < b.e && b.s < a.e ||
		a.hs < b.e && b.s < a.he ||
		a.s < b.he && b.hs < a.e ||
		a.hs < b.he && b.hs < a.he
}

func (a *item) sections() int32 { return a.e - a.s + a.he - a.hs }

func (a *item) first() int32 {
	if a.hs < a.he {
		return min(a.hs, a.s)
	}
	return a.s
}

func (a *item) last() int32 { return max(a.e, a.he) } // of an empty head, he is 0

// cut turns buffers into items and time into sections. Buffers without time or size are
// left out: they meet nothing and lie at 0. It returns the number of sections.
func cut(buffers []ir.Buffer, fixed []ir.Offset) ([]item, int32) {
	type edge struct {
		at    ir.Tick
		start bool
	}
	var edges []edge
	for i := range buffers {
		b := &buffers[i]
		if b.Size <= 0 {
			continue
		}
		if b.Start < b.End {
			edges = append(edges, edge{b.Start, true}, edge{b.End, false})
		}
		if b.HasHead() {
			edges = append(edges, edge{b.HeadStart, true}, edge{b.HeadEnd, false})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := cmp.Compare(a.at, b.at); c != 0 || a.start == b.start {
			return c
		}
		if b.start { // ends first
			return -1
		}
		return 1
	})
	var begins []ir.Tick
	ended := true
	for _, e := range edges {
		if e.start && ended {
			begins = append(begins, e.at)
		}
		ended = !e.start
	}
	touched := func(from, to ir.Tick) (int32, int32) {
		s, exact := slices.BinarySearch(begins, from)
		if !exact {
			s--
		}
		e, _ := slices.BinarySearch(begins, to)
		return int32(s), int32(e)
	}
	var items []item
	for i := range buffers {
		b := &buffers[i]
		it := item{size: int64(b.Size), id: int32(i), life: int64(b.End - b.Start), fixed: free}
		main, head := b.Start < b.End, b.HasHead()
		if b.Size <= 0 || !main && !head {
			continue
		}
		if fixed != nil && fixed[i] != ir.NoOffset {
			it.fixed = int64(fixed[i])
		}
		if main {
			it.s, it.e = touched(b.Start, b.End)
		}
		if head {
			it.hs, it.he = touched(b.HeadStart, b.HeadEnd)
			it.life += int64(b.HeadEnd - b.HeadStart)
		}
		if !main {
			it.s, it.e, it.hs, it.he = it.hs, it.he, 0, 0
			it.life = int64(b.HeadEnd - b.HeadStart)
		} else if head && it.hs <= it.e && it.s <= it.he { // they touch: one range
			it.s, it.e, it.hs, it.he = min(it.s, it.hs), max(it.e, it.he), 0, 0
		}
		items = append(items, it)
	}
	return items, int32(len(begins))
}

// loads sums the sizes alive in each of n sections.
func loads(items []item, n int32) []int64 {
	load := make([]int64, n+1)
	for i := range items {
		it := &items[i]
		load[it.s] += it.size
		load[it.e] -= it.size
		load[it.hs] += it.size
		load[it.he] -= it.size
	}
	for k := int32(1); k <= n; k++ {
		load[k] += load[k-1]
	}
	return load[:n]
}
