package heuristics

import (
	"cmp"
	"math/bits"
	"slices"

	"stweaver/ir"
)

// key names a total order of the buffers. Each ends with the buffer's id, so that none
// depends on how the sort treats equals.
type key uint8

const (
	bySize       key = iota // largest first; then longest lived
	byArea                  // size × life, largest first
	byLife                  // longest lived first; then largest
	byStart                 // earliest first; then largest
	byEnd                   // latest end first; then largest
	bySizeStart             // largest first; then earliest
	bySizeEnd               // largest first; then latest end
	byFamStart              // families by their own load; then earliest
	byFamEnd                // … then latest end
	byFamSize               // … then largest, then earliest
	byNeed                  // highest load during the life first; then largest, longest lived
	byCrest                 // by the highest section it touches, one after the other; then largest, longest lived
	byCrestStart            // … then earliest
	byNeedLife              // by need; then longest lived, largest area
	byNeedArea              // by need; then largest area, longest lived
	byGroup                 // the time-memory product of its group, see tmp.go
	numKeys
)

// ids returns the buffers in the order of k. The slice is shared: not to be written to.
func (in *instance) ids(k key) []int32 {
	o := &in.orders[k]
	o.once.Do(func() {
		if k == byGroup {
			o.ids = in.groupOrder()
			return
		}
		o.ids = make([]int32, len(in.buffers))
		for i := range o.ids {
			o.ids[i] = int32(i)
		}
		less := in.comparison(k)
		slices.SortFunc(o.ids, func(a, b int32) int {
			if c := less(a, b); c != 0 {
				return c
			}
			return cmp.Compare(a, b)
		})
	})
	return o.ids
}

func (in *instance) comparison(k key) func(a, b int32) int {
	size := func(a, b int32) int { return cmp.Compare(in.buffers[b].Size, in.buffers[a].Size) }
	life := func(a, b int32) int { return cmp.Compare(in.life(b), in.life(a)) }
	start := func(a, b int32) int { return cmp.Compare(in.first(a), in.first(b)) }
	end := func(a, b int32) int { return cmp.Compare(in.last(b), in.last(a)) }
	then := func(fs ...func(a, b int32) int) func(a, b int32) int {
		return func(a, b int32) int {
			for _, f := range fs {
				if c := f(a, b); c != 0 {
					return c
				}
			}
			return 0
		}
	}
	switch k {
	case bySize:
		return then(size, life)
	case byArea:
		return then(in.compareArea, size)
	case byLife:
		return then(life, size)
	case byStart:
		return then(start, size)
	case byEnd:
		return then(end, size)
	case bySizeStart:
		return then(size, start)
	case bySizeEnd:
		return then(size, end)
	case byFamStart, byFamEnd, byFamSize:
		rank := in.families()
		family := func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) }
		switch k {
		case byFamStart:
			return then(family, start, size)
		case byFamEnd:
			return then(family, end, size)
		}
		return then(family, size, start)
	}
	in.crests.Do(in.rankCrests)
	crest := func(a, b int32) int { return cmp.Compare(in.crest[a], in.crest[b]) }
	need := func(a, b int32) int { return cmp.Compare(in.need[b], in.need[a]) }
	switch k {
	case byNeed:
		return then(need, size, life)
	case byNeedLife:
		return then(need, life, in.compareArea)
	case byNeedArea:
		return then(need, in.compareArea, life)
	case byCrest:
		return then(crest, size, life)
	case byCrestStart:
		return then(crest, start, size)
	}
	panic("BUG: heuristics: no such key")
}

// compareArea puts the larger product of size and life first. The products take 128 bits.
func (in *instance) compareArea(a, b int32) int {
	ah, al := bits.Mul64(uint64(in.buffers[a].Size), uint64(max(in.life(a), 0)))
	bh, bl := bits.Mul64(uint64(in.buffers[b].Size), uint64(max(in.life(b), 0)))
	return cmp.Or(cmp.Compare(bh, ah), cmp.Compare(bl, al))
}

// families returns the rank of each buffer's family. A family is the set of sizes with
// the same odd part (in units of ir.Align): 1, 2 and 4 MiB tile each other without
// residue, 1 and 3 do not. The family with the highest load of its own ranks first.
func (in *instance) families() []int32 {
	odd := make([]uint64, len(in.buffers))
	ids := make([]int32, len(in.buffers))
	for i := range in.buffers {
		n := uint64(in.buffers[i].Size / ir.Align)
		odd[i] = n >> bits.TrailingZeros64(n)
		ids[i] = int32(i)
	}
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(odd[a], odd[b]), cmp.Compare(a, b))
	})
	type family struct {
		from, to int // in ids
		odd      uint64
		load     ir.Bytes
	}
	var fams []family
	for from := 0; from < len(ids); {
		to := from
		for to < len(ids) && odd[ids[to]] == odd[ids[from]] {
			to++
		}
		fams = append(fams, family{from, to, odd[ids[from]], in.loadOf(ids[from:to])})
		from = to
	}
	slices.SortFunc(fams, func(a, b family) int {
		return cmp.Or(cmp.Compare(b.load, a.load), cmp.Compare(a.odd, b.odd))
	})
	rank := make([]int32, len(ids))
	for r, f := range fams {
		for _, id := range ids[f.from:f.to] {
			rank[id] = int32(r)
		}
	}
	return rank
}

// loadOf returns the live peak of some of the buffers.
func (in *instance) loadOf(ids []int32) ir.Bytes {
	type change struct {
		at   int32 // section
		size ir.Bytes
	}
	events := make([]change, 0, 2*len(ids))
	add := func(s, e int32, size ir.Bytes) {
		if s < e {
			events = append(events, change{s, size}, change{e, -size})
		}
	}
	for _, id := range ids {
		p, size := in.pieces[id], in.buffers[id].Size
		add(p.s, p.e, size)
		add(p.hs, p.he, size)
	}
	slices.SortFunc(events, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.size, b.size)) // what ends goes first
	})
	var live, peak ir.Bytes
	for _, e := range events {
		live += e.size
		peak = max(peak, live)
	}
	return peak
}
