package solver

import (
	"cmp"
	"slices"
)

// filler places items one by one beside those that lie already, each at the lowest place
// that is free: first fit. What is placed and alive with an item is found in a tree over the
// pieces, ordered by where they begin, with the last end of each subtree; pieces that are
// not placed end nowhere. A query costs O(log n) for each piece it finds.
type filler struct {
	p       *part
	offsets []int64
	pieces  []piece
	leaf    [][2]int32 // item -> its pieces; -1 for none
	ends    []int32    // tree of last ends; node k has the children 2k and 2k+1
	size    int
	taken   []span
}

type piece struct {
	s, e int32
	id   int32
}

type span struct{ lo, hi int64 }

func newFiller(p *part, offsets []int64) *filler {
	f := &filler{p: p, offsets: offsets, leaf: make([][2]int32, len(p.items)), size: 1}
	for i := range p.items {
		it := &p.items[i]
		f.pieces = append(f.pieces, piece{it.s, it.e, int32(i)})
		if it.hs < it.he {
			f.pieces = append(f.pieces, piece{it.hs, it.he, int32(i)})
		}
	}
	slices.SortFunc(f.pieces, func(a, b piece) int { return cmp.Or(cmp.Compare(a.s, b.s), cmp.Compare(a.id, b.id)) })
	for f.size < len(f.pieces) {
		f.size *= 2
	}
	f.ends = make([]int32, 2*f.size)
	for i := range f.leaf {
		f.leaf[i] = [2]int32{-1, -1}
	}
	for n, c := range f.pieces {
		l := &f.leaf[c.id]
		if l[0] < 0 {
			l[0] = int32(n)
		} else {
			l[1] = int32(n)
		}
		if offsets[c.id] != free {
			f.ends[f.size+n] = c.e
		}
	}
	for k := f.size - 1; k > 0; k-- {
		f.ends[k] = max(f.ends[2*k], f.ends[2*k+1])
	}
	return f
}

// find appends what is placed and alive in [s, e) to taken.
func (f *filler) find(node int, s, e int32) {
	if f.ends[node] <= s {
		return
	}
	if node >= f.size {
		c := &f.pieces[node-f.size]
		if c.s < e {
			f.taken = append(f.taken, span{f.offsets[c.id], f.offsets[c.id] + f.p.items[c.id].size})
		}
		return
	}
	left := node // the first piece of the right half
	for left = 2*node + 1; left < f.size; left *= 2 {
	}
	f.find(2*node, s, e)
	if n := left - f.size; n < len(f.pieces) && f.pieces[n].s < e {
		f.find(2*node+1, s, e)
	}
}

// fill places item i and returns the end of it.
func (f *filler) fill(i int32) int64 {
	it := &f.p.items[i]
	f.taken = f.taken[:0]
	f.find(1, it.s, it.e)
	if it.hs < it.he {
		f.find(1, it.hs, it.he)
	}
	slices.SortFunc(f.taken, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	at := int64(0)
	for _, t := range f.taken {
		if t.lo >= at+it.size {
			break
		}
		at = max(at, t.hi)
	}
	f.offsets[i] = at
	for _, n := range f.leaf[i] {
		if n < 0 {
			continue
		}
		for k := f.size + int(n); k > 0 && f.ends[k] < f.pieces[n].e; k /= 2 {
			f.ends[k] = f.pieces[n].e
		}
	}
	return at + it.size
}
