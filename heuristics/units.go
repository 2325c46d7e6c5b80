package heuristics

import (
	"cmp"
	"slices"

	"stweaver/ir"
)

// unit is what moves as a whole: buffers at fixed distances from each other.
type unit struct {
	parts    []unitPart
	size     int64
	lo, hi   int64 // it begins at lo or above, ends at hi or below
	mod, rem int64 // it begins at rem and a multiple of mod
}

// unitPart is a buffer of a unit, or several that lie on each other and live alike.
type unitPart struct {
	ids    []int32
	lo, hi int64   // from the unit's begin
	rivals []int32 // lists of addresses that are not for it
	own    []int32 // lists that its addresses go to
	sizes  []int64 // pieces are asked of each buffer
}

func (u *unit) fixed() bool { return u.hi-u.lo == u.size }

// bound reports whether u has an address or a window.
func (u *unit) bound() bool { return u.lo > 0 || u.hi < high }

// units makes units of what is linked; false where links, addresses or alignments contradict each other.
//
// Links are a forest in which each buffer knows its distance to the root; a link between two of one tree must
// agree with what the tree says.
func (y *yard) units() ([]unit, bool) {
	root := make([]int32, len(y.buffers))
	dist := make([]int64, len(y.buffers)) // from the parent
	for i := range root {
		root[i] = int32(i)
	}
	var find func(i int32) (int32, int64)
	find = func(i int32) (int32, int64) {
		if root[i] == i {
			return i, 0
		}
		r, d := find(root[i])
		root[i], dist[i] = r, dist[i]+d
		return r, dist[i]
	}
	for _, l := range y.links {
		a, da := find(l.a)
		b, db := find(l.b)
		if a == b {
			if db-da != l.d {
				return nil, false
			}
			continue
		}
		root[b], dist[b] = a, da+l.d-db
	}
	members := make([][]int32, len(y.buffers))
	for i := range y.buffers {
		r, _ := find(int32(i))
		members[r] = append(members[r], int32(i))
	}
	lists := y.newLists()
	var out []unit
	for _, m := range members {
		if len(m) == 0 {
			continue
		}
		slices.SortFunc(m, func(a, b int32) int { return cmp.Or(cmp.Compare(dist[a], dist[b]), cmp.Compare(a, b)) })
		u, ok := y.unit(m, dist, lists)
		if !ok {
			return nil, false
		}
		out = append(out, u)
	}
	return out, true
}

// unit makes one of buffers m, ascending by their distance.
func (y *yard) unit(m []int32, dist []int64, lists *apartLists) (unit, bool) {
	u := unit{hi: high, mod: int64(ir.Align)}
	low := dist[m[0]]
	for _, id := range m {
		at, w := dist[id]-low, y.wishes[id]
		size := int64(y.buffers[id].Size)
		u.size = max(u.size, at+size)
		u.lo = max(u.lo, w.lo-at)
		if w.align > u.mod { // the largest decides; the others must agree, below
			u.mod = w.align
			u.rem = ((-at-y.base)%w.align + w.align) % w.align
		}
		u.append(id, at, size, y, lists)
	}
	for _, id := range m {
		at, w := dist[id]-low, y.wishes[id]
		if w.hi < high {
			u.hi = min(u.hi, w.hi-at-int64(y.buffers[id].Size)+u.size)
		}
		if (u.rem+at+y.base)%w.align != 0 {
			return u, false
		}
	}
	return u, u.hi-u.lo >= u.size && !y.clash(&u)
}

// clash reports whether members of u are in each other's way.
func (y *yard) clash(u *unit) bool {
	highest := make([]int64, len(u.parts)+1) // of the parts before
	for k := range u.parts {
		a := &u.parts[k]
		for n := k - 1; n >= 0 && highest[n+1] > a.lo; n-- {
			b := &u.parts[n]
			rival := func(l int32) bool { return slices.Contains(b.own, l) }
			if b.hi > a.lo && (y.shared || y.buffers[a.ids[0]].Overlaps(&y.buffers[b.ids[0]]) || slices.ContainsFunc(a.rivals, rival)) {
				return true
			}
		}
		highest[k+1] = max(highest[k], a.hi)
	}
	return false
}

// append adds a buffer above the others, to the last part if that ends where it begins and lives alike.
func (u *unit) append(id int32, at, size int64, y *yard, lists *apartLists) {
	b := &y.buffers[id]
	if n := len(u.parts); n > 0 {
		last := &u.parts[n-1]
		o := &y.buffers[last.ids[0]]
		alike := b.Start == o.Start && b.End == o.End && b.HeadStart == o.HeadStart && b.HeadEnd == o.HeadEnd && b.Stream == o.Stream && b.Lag == o.Lag
		if last.hi == at && alike && len(lists.of[id])+len(lists.of[last.ids[0]]) == 0 {
			last.ids, last.sizes, last.hi = append(last.ids, id), append(last.sizes, size), at+size
			return
		}
	}
	p := unitPart{ids: []int32{id}, lo: at, hi: at + size, sizes: []int64{size}}
	for _, r := range lists.of[id] {
		p.own = append(p.own, r.own)
		p.rivals = append(p.rivals, r.rivals...)
	}
	u.parts = append(u.parts, p)
}

// apartLists numbers the lists of addresses that apart needs: one for each set, or one for all where each set is
// a single buffer.
type apartLists struct {
	n  int32
	of [][]apartRef // by buffer
}

type apartRef struct {
	own    int32
	rivals []int32
}

func (y *yard) newLists() *apartLists {
	l := &apartLists{of: make([][]apartRef, len(y.buffers))}
	for _, sets := range y.apart {
		first := l.n
		single := !slices.ContainsFunc(sets, func(s []int32) bool { return len(s) > 1 })
		for k, set := range sets {
			ref := apartRef{own: first + int32(k)}
			for r := range sets {
				if r != k {
					ref.rivals = append(ref.rivals, first+int32(r))
				}
			}
			if single { // its own address is not in the list while it is sought
				ref = apartRef{first, []int32{first}}
			}
			for _, id := range set {
				l.of[id] = append(l.of[id], ref)
			}
		}
		l.n += int32(len(sets))
	}
	return l
}

// next is the lowest place for u at addr or above by alignment and pieces alone, or -1 if it ends above hi or there
// is none.
func (u *unit) next(addr, hi int64, pieces []int64) int64 {
	for range 1 + mostSteps*len(pieces) {
		addr += ((u.rem-addr)%u.mod + u.mod) % u.mod
		if addr+u.size > hi {
			return -1
		}
		at := addr
		for _, piece := range pieces {
			at = u.within(at, piece)
		}
		if at == addr {
			return at
		}
		addr = at
	}
	return -1
}

// mostSteps is how many places next looks at: tied buffers may suit no place, and a period of alignment and
// pieces may be long.
const mostSteps = 4096

// within moves u up from at to where the first of its buffers that lay across a multiple of piece does not, and so on
// for the rest.
func (u *unit) within(at, piece int64) int64 {
	for k := range u.parts {
		lo := at + u.parts[k].lo
		for _, size := range u.parts[k].sizes {
			if border := (lo/piece + 1) * piece; lo+size > border {
				if size > piece {
					return high
				}
				at, lo = at+border-lo, border
			}
			lo += size
		}
	}
	return at
}
