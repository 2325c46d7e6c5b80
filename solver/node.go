package solver

import (
	"cmp"
	"context"
	"slices"
)

// The search at one capacity. A node places one buffer at its lowest place, on top of what
// is placed and alive with it. The rules, and why no layout is lost:
//
// Canonical order. Push a layout down until everything rests on the ground or on something
// that it meets. Replayed in the order of (offset, rank), each buffer lands on its lowest
// place, for what holds it up has a smaller offset. So one branch for each pushed-down
// layout is enough: the one on which (offset, rank) never falls.
//
// Dominance. Let h be the least top that an unplaced buffer u would have at its lowest
// place. If the next offset is h or more, so are all later ones; then u could drop to its
// lowest place, where nothing will ever be, and the layout is not pushed down.
//
//	      |####|   next: at h or above, then nothing
//	  h - |    |   comes under h any more
//	      | u? |
//	  ----+----+--  placed
//
// Section inference, unallocated floor, monotonic floor: the unplaced of a section are alive
// together, so they stack up from where the lowest of them can lie, and not under the
// last offset (state.go has the first two).
//
// Hatless. If nothing unplaced meets the buffer just placed, it constrains nothing. If its
// subtree fails, then so does every other choice here.
//
// Twins (state.go), flip (minimise.go), memory (memo.go), split (split.go).
//
// A fixed buffer has one place; it takes its turn there, and a place that would cover it is
// none. Where u is fixed, dominance says that u's turn has passed.

// search is one search at one capacity.
type search struct {
	state
	ctx    context.Context
	by     order
	memory *memory // nil: none

	ids   []int32 // the parts, each a range of it
	cands []cand  // children still to be tried, of all nodes of the branch
	runs  []run   // parts still to be searched, of all nodes of the branch
	of    []int32 // scratch of split
	sects []int32 // with heads: the sections of the parts of the branch, one after the other

	nodes, backtracks int64
	limit             int64 // of nodes
	out               bool  // of nodes, or the context is done
}

type cand struct {
	off  int64
	rank int32
	id   int32
}

// run is a range of ids.
type run struct{ lo, hi int }

// last is the point of the canonical order that a branch has come to.
type last struct {
	off   int64
	rank  int32
	epoch uint64 // of the ranks
	s, e  int32  // the sections of the part; with heads, a range of sects
}

// solve searches for places for the unplaced ids[lo:hi], which are linked in time if Split
// is on. key is theirs. It reports success; if not, everything is as it was, unless the
// search is out of nodes.
func (x *search) solve(lo, hi int, from last, k key) bool {
	if lo == hi {
		return true
	}
	if x.memory != nil && x.memory.fails(k.with(from.epoch), from.off, from.rank) {
		return false
	}
	if !x.step() {
		return false
	}
	began := x.nodes
	base := len(x.cands)
	part := x.ids[lo:hi]
	h := x.ceiling(part)
	many := len(part) > manyChildren
	if !many {
		x.children(part, from, h)
	}
	end := len(x.cands)
	here := x.point()
	canonical, hatless := x.on.has(Canonical), x.on.has(Hatless)
	c := cand{-1, -1, -1}
	for n := base; ; n++ {
		if many {
			c = x.following(part, from, c, h)
			if c.id < 0 {
				break
			}
		} else if n == end {
			break
		} else {
			c = x.cands[n]
		}
		at := slices.Index(part, c.id)
		part[0], part[at] = part[at], part[0]
		next := from
		if canonical {
			next.off, next.rank = c.off, c.rank
		}
		x.key = k
		ok, met := x.place(c.id, c.off, part[1:])
		if ok && c.off > from.off && x.on.has(Monotonic) {
			ok = x.above(next)
		}
		if ok && x.rest(lo+1, hi, c.id, next, x.key) {
			return true
		}
		if x.out {
			return false
		}
		x.undo(here)
		x.cands = x.cands[:end]
		if hatless && !met {
			break
		}
	}
	x.backtracks++
	x.cands = x.cands[:base]
	if x.memory != nil {
		x.memory.note(k.with(from.epoch), from.off, from.rank, x.nodes-began)
	}
	return false
}

// manyChildren is from where on children are looked for one by one: most nodes of a large
// part have their first child only.
const manyChildren = 384

// step counts a node; false if there is none left.
func (x *search) step() bool {
	if x.nodes >= x.limit || x.nodes&1023 == 0 && x.ctx.Err() != nil {
		x.out = true
		return false
	}
	x.nodes++
	return true
}

// ceiling is what dominance allows: children begin below it.
func (x *search) ceiling(part []int32) int64 {
	h := int64(1<<63 - 1)
	if x.on.has(Dominance) {
		for _, u := range part {
			if top := x.low[u] + x.p.items[u].size; top < h && !x.waits(u) {
				h = top
			}
		}
	}
	return h
}

// child reports whether u may be placed next.
func (x *search) child(u int32, from last, h int64) bool {
	off := x.low[u]
	return off < h && !x.waits(u) && (x.twin == nil || x.twin[u] < 0 || x.off[x.twin[u]] != free) &&
		(off > from.off || off == from.off && x.rank[u] >= from.rank || !x.on.has(Canonical))
}

// children appends the children of a node, in the order in which to try them.
func (x *search) children(part []int32, from last, h int64) {
	base := len(x.cands)
	for _, u := range part {
		if x.child(u, from, h) {
			x.cands = append(x.cands, cand{x.low[u], x.rank[u], u})
		}
	}
	slices.SortFunc(x.cands[base:], func(a, b cand) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.rank, b.rank))
	})
}

// following is the child after c; its id is -1 if there is none.
func (x *search) following(part []int32, from last, c cand, h int64) cand {
	best := cand{h, 0, -1}
	for _, u := range part {
		off, rank := x.low[u], x.rank[u]
		if off > best.off || off == best.off && rank >= best.rank || off < c.off || off == c.off && rank <= c.rank {
			continue
		}
		if x.child(u, from, h) {
			best = cand{off, rank, u}
		}
	}
	return best
}

// waits reports whether u is the upper one of the flip's pair and the lower is not placed.
func (x *search) waits(u int32) bool { return u == x.upper && x.off[x.lower] == free }

// above is section inference with the floor at from.off: from here on nothing of the part
// goes under it.
func (x *search) above(from last) bool {
	if !x.on.has(Inference) {
		return true
	}
	room := x.capacity - from.off
	if !x.p.heads { // then all that is between the first and the last section is the part's
		for _, t := range x.total[from.s:from.e] {
			if t > room {
				return false
			}
		}
		return true
	}
	for _, k := range x.sects[from.s:from.e] {
		if x.total[k] > room {
			return false
		}
	}
	return true
}
