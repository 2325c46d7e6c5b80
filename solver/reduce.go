package solver

import (
	"slices"

	"stweaver/ir"
)

// Reductions that hold at any capacity.
//
// R0, GCD. Push a layout down until every free buffer rests on the ground or on another:
// no end rises, and every offset is a sum of sizes, plus at most one fixed offset. So all
// offsets may be multiples of what divides all sizes and fixed offsets.
//
// R1, sections: sections.go.
//
// R3, components. Buffers that are not linked by a chain of shared sections do not see each
// other; the peak of the whole is the largest of the parts. A head ties two stretches of
// time together:
//
//	time   0    1    2    3    4
//	       |-a--|         |-a--|      one component: a, c
//	       |-c-------|    |
//	            (b ends before, d begins after: others)
//
// R2, full span. A buffer that lives in every section of its component meets all others.
// The strip it lies in can be taken out, what was above it lowered, and the strip put back
// under everything: the peak stays. So it may be stacked at the bottom from the start. Not
// where something is fixed, which could not be moved. What is left may fall apart again
// (R4), with the stack as its ground.
//
//	 +--+ +--+                  +--+ +--+
//	 |  | +--+                  |  | +--+
//	 +--+------+   lowered to   |  | |  |
//	 |  full   |  ===========>  +--+-+--+
//	 +--+-+----+                |  full |
//	 +--+ +--+                  +-------+

// part is what is left to search: items that are linked in time, with sections of their
// own from 0 on, above a ground of base bytes.
type part struct {
	items    []item
	sections int32
	load     int64 // in units: the most alive in one section
	unit     int64 // bytes
	base     int64 // bytes under it
	heads    bool  // some item has one
	pinned   bool  // some item is fixed
}

// floorOf is the bytes no layout of p is under, ground included.
func (p *part) floorOf() int64 { return p.base + p.load*p.unit }

// capacity is how many units of p fit under limit bytes; negative if not even the ground.
func (p *part) capacity(limit int64) int64 {
	if limit < p.base {
		return -1
	}
	return (limit - p.base) / p.unit
}

// grounded is a buffer that lies on its base and is done.
type grounded struct {
	id   int32
	base int64 // bytes
}

// reduce splits items, sized in bytes, into parts, and gives places to what needs no search.
// A part larger than the buffer that would fit it is never made: every part has an item.
func reduce(items []item, sections int32, on Switches) (parts []part, placed []grounded) {
	type job struct {
		items    []item
		sections int32
		base     int64
		whole    bool // one component for sure
	}
	jobs := []job{{items: items, sections: sections}}
	for len(jobs) > 0 {
		j := jobs[len(jobs)-1]
		jobs = jobs[:len(jobs)-1]
		if len(j.items) == 0 {
			continue
		}
		if on.has(Components) && !j.whole {
			groups := components(j.items, j.sections)
			for _, g := range slices.Backward(groups) {
				jobs = append(jobs, job{g, renumber(g), j.base, true})
			}
			continue
		}
		pinned := slices.ContainsFunc(j.items, func(it item) bool { return it.fixed != free })
		if on.has(FullSpan) && !pinned {
			live := renumber(j.items)
			rest := j.items[:0:0]
			base := j.base
			for _, it := range j.items {
				if it.sections() == live {
					placed = append(placed, grounded{it.id, base})
					base += it.size
					continue
				}
				rest = append(rest, it)
			}
			if base > j.base {
				jobs = append(jobs, job{items: rest, sections: renumber(rest), base: base})
				continue
			}
			j.sections = live
		}
		parts = append(parts, newPart(j.items, j.sections, j.base, on))
	}
	return parts, placed
}

// newPart turns items sized in bytes into a part, which owns them.
func newPart(items []item, sections int32, base int64, on Switches) part {
	p := part{items: items, sections: sections, unit: 1, base: base}
	if on.has(GCD) {
		g := int64(0)
		for i := range items {
			g = gcd(gcd(g, items[i].size), max(items[i].fixed, 0))
		}
		p.unit = g
	}
	for i := range items {
		it := &items[i]
		it.size /= p.unit
		if it.fixed != free {
			it.fixed /= p.unit
			p.pinned = true
		}
		p.heads = p.heads || it.hs < it.he
	}
	for _, l := range loads(items, sections) {
		p.load = max(p.load, l)
	}
	for i := range items { // a fixed buffer has its top
		if it := &items[i]; it.fixed != free {
			p.load = max(p.load, it.fixed+it.size)
		}
	}
	return p
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// components groups items linked by shared sections, in the order of their first item. It
// walks over the sections that are crossed and joins what a head joins.
func components(items []item, sections int32) [][]item {
	// seam[k] counts the pieces that are in both section k-1 and k.
	seam := make([]int32, sections+2)
	for i := range items {
		it := &items[i]
		seam[it.s+1]++
		seam[it.e]--
		if it.hs < it.he {
			seam[it.hs+1]++
			seam[it.he]--
		}
	}
	// stretch[k] is the run of crossed seams that section k is in.
	stretch := make([]int32, sections)
	n, crossed := int32(-1), int32(0)
	for k := range sections {
		crossed += seam[k]
		if k == 0 || crossed == 0 {
			n++
		}
		stretch[k] = n
	}
	join := newJoin(int(n) + 1)
	for i := range items {
		if it := &items[i]; it.hs < it.he {
			join.link(stretch[it.s], stretch[it.hs])
		}
	}
	group := make(map[int32]int)
	var out [][]item
	for _, it := range items {
		root := join.root(stretch[it.s])
		g, ok := group[root]
		if !ok {
			g = len(out)
			group[root] = g
			out = append(out, nil)
		}
		out[g] = append(out[g], it)
	}
	return out
}

// join is a union-find over small integers.
type join []int32

func newJoin(n int) join {
	j := make(join, n)
	for i := range j {
		j[i] = int32(i)
	}
	return j
}

func (j join) root(a int32) int32 {
	for j[a] != a {
		j[a] = j[j[a]]
		a = j[a]
	}
	return a
}

func (j join) link(a, b int32) {
	a, b = j.root(a), j.root(b)
	j[max(a, b)] = min(a, b)
}

// renumber makes the sections of items consecutive from 0: it drops those where nothing
// lives, and joins those that hold the same items or some of a neighbour's, since only the
// largest sets bind. It returns how many are left.
func renumber(items []item) int32 {
	high := int32(0)
	for i := range items {
		high = max(high, items[i].last())
	}
	const starts, ends = 1, 2
	seen := make([]uint8, high+1)
	each := func(f func(s, e *int32)) {
		for i := range items {
			it := &items[i]
			f(&it.s, &it.e)
			if it.hs < it.he {
				f(&it.hs, &it.he)
			}
		}
	}
	each(func(s, e *int32) { seen[*s] |= starts; seen[*e] |= ends })
	number := make([]int32, high+1)
	n, ended := int32(-1), true
	for k := range seen {
		ended = ended || seen[k]&ends != 0
		if seen[k]&starts != 0 && ended {
			n++
			ended = false
		}
		number[k] = n
	}
	// The last section a piece touches is that of the one before its end.
	each(func(s, e *int32) { *s, *e = number[*s], number[*e-1]+1 })
	return n + 1
}

// offsetsOf starts a layout: what is grounded has its place, what meets nothing is at 0,
// the rest has none.
func offsetsOf(buffers []ir.Buffer, items []item, placed []grounded, fixed []ir.Offset) []ir.Offset {
	out := make([]ir.Offset, len(buffers))
	for i, f := range fixed {
		out[i] = max(f, 0)
	}
	for i := range items {
		out[items[i].id] = ir.NoOffset
	}
	for _, g := range placed {
		out[g.id] = ir.Offset(g.base)
	}
	return out
}
