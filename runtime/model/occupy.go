package model

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

// atoms counts the pieces between neighbouring boundaries of the planned slots: what the C
// core has one bit for.
func (p *Plan) atoms() uint64 {
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
	if edges.n == 0 {
		return 0
	}
	return uint64(edges.n - 1)
}
