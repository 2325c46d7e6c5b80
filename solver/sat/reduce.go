package sat

import (
	"math/bits"
	"slices"
)

// Reductions at a capacity C. Each keeps the answer to "is there a layout at most C high?".
// Sizes and fixed offsets are multiples of a unit g, and so is C after rounding down: pushed
// down, every buffer rests on the floor, on a fixed one or on another, at a multiple of g.
//
//	peel      i is free, and its remaining neighbours can block at most
//	          Σ (z_j + z_i)/g - 1 of its (C - z_i)/g + 1 places: one is left whatever the
//	          rest does. Put aside, placed last by first fit.
//	hide      i is free, does not conflict with h, is no larger, and conflicts only with
//	          what h conflicts with: where h is, i may be too.
//	stack     i conflicts with everything left and nothing left is fixed: its strip holds
//	          nothing else, so what lies under it can move up by z_i and i go to the floor.
//	part      what has no conflict in common is decided apart.
//
//	  address
//	    C |-----------------------------
//	      |  +----+  h  and  i           i hides in h: same
//	      |  | h  |..+--+                neighbours or fewer,
//	      |  +----+..|i |                never alive together
//	      |  +------------------------+
//	    0 |  |  stacked: meets them all |
//	      +-------------------------------> time
//
// They undo in the reverse of the order in which they were done.
type reduction struct {
	g         *graph
	base, cap int64 // what is left goes to [base, base+cap)
	unit      int64
	rest      []int32 // ascending
	log       []removal
	fits      bool // false: a stacked buffer is higher than the capacity
}

type removal struct {
	v, host   int32 // host: the buffer it hides in, or -1
	base, cap int64 // the room it had
	stacked   bool
}

// scratch is room for reduce, parts and newCore, one entry for each buffer; between calls
// alive is all false and local all -1.
type scratch struct {
	alive []bool
	state []peelState
	local []int32
}

func newScratch(n int) *scratch {
	return &scratch{make([]bool, n), make([]peelState, n), slices.Repeat([]int32{-1}, n)}
}

// reduce removes what it can from verts. Conflicts with other buffers are not its business.
func reduce(g *graph, verts []int32, base, capacity, unit int64, s *scratch, off switches) *reduction {
	r := &reduction{g: g, base: base, cap: capacity, unit: unit, fits: true}
	count, anyFixed := len(verts), false
	for _, v := range verts {
		s.alive[v] = true
		s.state[v] = peelState{}
		anyFixed = anyFixed || g.fixed[v] >= 0
	}
	for _, v := range verts {
		for _, u := range g.adj[v] {
			if s.alive[u] {
				s.state[v].degree++
				s.state[v].blocked += g.size[u] + g.size[v] - unit
			}
		}
	}
	var queue []int32
	remove := func(m removal) {
		r.log = append(r.log, m)
		s.alive[m.v] = false
		count--
		for _, u := range g.adj[m.v] {
			if s.alive[u] {
				s.state[u].degree--
				s.state[u].blocked -= g.size[u] + g.size[m.v] - unit
				queue = append(queue, u)
			}
		}
	}
	for before := -1; before != count && r.fits; {
		before = count
		queue = append(queue[:0], verts...)
		for len(queue) > 0 && r.fits {
			v := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			if !s.alive[v] || g.fixed[v] >= 0 {
				continue
			}
			m := removal{v: v, host: -1, base: r.base, cap: r.cap}
			switch d := &s.state[v]; {
			case g.size[v] > r.cap:
				r.fits = false
			case off&offPeel == 0 && d.blocked < r.cap-g.size[v]+unit:
				remove(m)
			case off&offStack == 0 && d.degree == count-1 && !anyFixed:
				m.stacked = true
				r.base += g.size[v]
				r.cap -= g.size[v]
				remove(m)
			}
		}
		if g.bits == nil || !r.fits || off&offHide != 0 {
			continue
		}
		for _, v := range verts {
			if !s.alive[v] || g.fixed[v] >= 0 {
				continue
			}
			if h := hideout(g, v, s); h >= 0 {
				remove(removal{v: v, host: h, base: r.base, cap: r.cap})
			}
		}
	}
	for _, v := range verts {
		if s.alive[v] {
			r.rest = append(r.rest, v)
		}
		s.alive[v] = false
	}
	return r
}

// peelState is what reduce keeps of a buffer: conflicts left, and how much of the address
// space they can block.
type peelState struct {
	degree  int
	blocked int64
}

// hideout finds a buffer that v can hide in, or -1. One in conflict with v is never it: v conflicts
// with it, and it does not conflict with itself.
func hideout(g *graph, v int32, s *scratch) int32 {
	alive, degree := s.alive, s.state
	via := int32(-1) // v's neighbour with the fewest neighbours: all candidates are among those
	for _, u := range g.adj[v] {
		if alive[u] && (via < 0 || degree[u].degree < degree[via].degree) {
			via = u
		}
	}
	if via < 0 {
		return -1
	}
	mine := g.row(v)
	for _, h := range g.adj[via] {
		if h == v || !alive[h] || g.size[h] < g.size[v] || degree[h].degree < degree[v].degree {
			continue
		}
		theirs, inside := g.row(h), true
		for w, m := range mine {
			for m &^= theirs[w]; m != 0; m &= m - 1 {
				if alive[w*64+bits.TrailingZeros64(m)] {
					inside = false
					break
				}
			}
			if !inside {
				break
			}
		}
		if inside {
			return h
		}
	}
	return -1
}

// undo places what was removed, given offsets of the rest; -1 marks what is not placed yet.
// It reports whether there was room, which the reductions promise.
func (r *reduction) undo(offsets []int64) bool {
	for _, m := range slices.Backward(r.log) {
		switch {
		case m.stacked:
			offsets[m.v] = m.base
		case m.host >= 0:
			offsets[m.v] = offsets[m.host]
		default:
			o := firstFit(r.g, m.v, m.base, offsets)
			if o+r.g.size[m.v] > m.base+m.cap {
				return false
			}
			offsets[m.v] = o
		}
	}
	return true
}

// firstFit is the lowest offset from base up at which v meets none of its placed neighbours.
func firstFit(g *graph, v int32, base int64, offsets []int64) int64 {
	var near [][2]int64
	for _, u := range g.adj[v] {
		if o := offsets[u]; o >= 0 && o+g.size[u] > base {
			near = append(near, [2]int64{o, o + g.size[u]})
		}
	}
	slices.SortFunc(near, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	at := base
	for _, x := range near {
		if at+g.size[v] <= x[0] {
			break
		}
		at = max(at, x[1])
	}
	return at
}

// parts splits verts into connected components, each ascending, in order of their first
// buffer.
func parts(g *graph, verts []int32, s *scratch) [][]int32 {
	alive := s.alive
	for _, v := range verts {
		alive[v] = true
	}
	var out [][]int32
	for _, v := range verts {
		if !alive[v] {
			continue
		}
		alive[v] = false
		part := []int32{v}
		for k := 0; k < len(part); k++ {
			for _, u := range g.adj[part[k]] {
				if alive[u] {
					alive[u] = false
					part = append(part, u)
				}
			}
		}
		slices.Sort(part)
		out = append(out, part)
	}
	return out
}
