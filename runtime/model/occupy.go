package model

import "slices"

// The safety rule: a planned address is handed out only if no live block overlaps it. The
// occupied part of the arena is a set of disjoint intervals ordered by where they begin, so
// a range is free exactly if its two neighbours in that order keep clear of it:
//
//	address   |----prev----|   [ begin ... end )   |---next---|
//
// The C core answers the same question with a bitmap over atoms.

// interval is a byte range [begin, end).
type interval struct{ begin, end uint64 }

// occupancy is the set of arena ranges in use.
type occupancy struct{ set *ordered[interval] }

func newOccupancy() occupancy {
	return occupancy{newOrdered(func(a, b interval) bool { return a.begin < b.begin })}
}

// free reports whether nothing in use overlaps r.
func (o occupancy) free(r interval) bool {
	if next, ok := o.set.ceiling(r); ok && next.begin < r.end {
		return false
	}
	prev, ok := o.set.below(r)
	return !ok || prev.end <= r.begin
}

// take marks r, which must be free, as in use.
func (o occupancy) take(r interval) { o.set.insert(r) }

// drop gives r back, exactly as it was taken.
func (o occupancy) drop(r interval) {
	if !o.set.remove(r) {
		panic("BUG: model: arena range given back that is not in use")
	}
}

// edges returns the boundaries of the planned slots, ascending. The pieces between neighbouring
// ones are the atoms: what the C core has one bit for.
func (p *Plan) edges() []uint64 {
	edges := newOrdered(func(a, b uint64) bool { return a < b })
	add := func(x uint64) {
		if at, ok := edges.ceiling(x); !ok || at != x {
			edges.insert(x)
		}
	}
	for _, s := range p.Slots {
		if s.Flags&Planned != 0 {
			begin, end := s.span()
			add(begin)
			add(end)
		}
	}
	var out []uint64
	for at, ok := edges.ceiling(0); ok; at, ok = edges.ceiling(at + 1) {
		out = append(out, at)
	}
	return out
}

// arena is the occupancy with what the search for idle space needs beside it: which atoms are
// in use, and which each list of needs touches.
type arena struct {
	occupancy
	edges []uint64 // boundaries of the atoms, ascending
	busy  []bool   // by atom
	needs [][]bool // by list, by atom; what is kept is in each
	kept  []bool   // by atom
	pages pages    // what is committed
}

func newArena(p *Plan) *arena {
	a := &arena{occupancy: newOccupancy(), edges: p.edges()}
	a.busy = make([]bool, max(len(a.edges)-1, 0))
	a.kept = make([]bool, len(a.busy))
	for _, s := range p.Slots {
		if s.Flags&Kept != 0 {
			a.mark(spanOf(s), a.kept)
		}
	}
	for _, list := range p.Needs {
		touched := slices.Clone(a.kept)
		i := 0
		for _, r := range list { // both ascending
			begin, end := uint64(r[0])*Unit, uint64(r[1])*Unit
			for i < len(touched) && a.edges[i+1] <= begin {
				i++
			}
			for k := i; k < len(touched) && a.edges[k] < end; k++ {
				touched[k] = true
			}
		}
		a.needs = append(a.needs, touched)
	}
	return a
}

// use notes the use of the atoms of r, which begins and ends at boundaries.
func (a *arena) use(r interval, busy bool) {
	i, _ := slices.BinarySearch(a.edges, r.begin)
	for ; a.edges[i] < r.end; i++ {
		a.busy[i] = busy
	}
}

// mark sets the atoms of r.
func (a *arena) mark(r interval, atoms []bool) {
	i, _ := slices.BinarySearch(a.edges, r.begin)
	for ; a.edges[i] < r.end; i++ {
		atoms[i] = true
	}
}

func spanOf(s Slot) interval {
	begin, end := s.span()
	return interval{begin, end}
}

func (a *arena) take(r interval) {
	a.occupancy.take(r)
	a.use(r, true)
}

func (a *arena) drop(r interval) {
	a.occupancy.drop(r)
	a.use(r, false)
}

// lacking returns the atoms that are named and those that are not committed, all of them.
func (a *arena) lacking(named []bool, granule uint64) []bool {
	named = slices.Clone(named)
	for i := range named {
		if a.pages.missing(a.edges[i]/granule, (a.edges[i+1]+granule-1)/granule) > 0 {
			named[i] = true
		}
	}
	return named
}

const (
	lentRanges = 12 // ranges that the search of a dynamic request looks into, of those that are large enough
	searchFits = 7  // runs that are large enough, of which it takes the smallest
	searchNear = 8  // or the first that has no more than that part too much
)

// run looks from the lowest address on into the maximal ranges of atoms inside s's range that are not needed, the
// first `most` of those that have z bytes, for runs of free ones. It takes the smallest of the first searchFits with
// z bytes, or of those up to the first that is hardly larger, the lowest among equals, and returns the atoms that a guest touches there.
func (a *arena) run(s Stream, needed []bool, z uint64, most int) (interval, bool) {
	from, _ := slices.BinarySearch(a.edges, s.Begin)
	to, exact := slices.BinarySearch(a.edges, s.End)
	if !exact {
		to-- // the last edge inside
	}
	best, fits := interval{}, searchFits
	for i := from; most > 0; {
		lent, end, ok := outside(needed, i, to)
		if !ok {
			break
		}
		i = end
		if a.edges[end]-a.edges[lent] < z {
			continue
		}
		most--
		for k := lent; fits > 0; {
			begin, stop, ok := outside(a.busy, k, end)
			if !ok {
				break
			}
			k = stop
			if run := (interval{a.edges[begin], a.edges[stop]}); run.end-run.begin >= z {
				fits--
				if best.end == 0 || run.end-run.begin < best.end-best.begin {
					best = run
				}
				if (run.end-run.begin-z)/Unit <= z/Unit/searchNear {
					fits = 0
				}
			}
		}
	}
	if best.end == 0 {
		return interval{}, false
	}
	i, _ := slices.BinarySearch(a.edges, best.begin+z)
	return interval{best.begin, a.edges[i]}, true
}

// outside returns the first maximal range of atoms in [from, to) of which none is in the set.
func outside(set []bool, from, to int) (begin, end int, ok bool) {
	for from < to && set[from] {
		from++
	}
	for end = from; end < to && !set[end]; {
		end++
	}
	return from, end, from < end
}
