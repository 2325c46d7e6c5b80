package sat

import (
	"slices"

	"github.com/go-air/gini/z"
)

// core is what the reductions leave of a part, in units of the greatest common divisor
// of its sizes and fixed offsets: what an encoding works on.
type core struct {
	n      int
	verts  []int32 // the caller's names, ascending
	size   []int64 // at least 1
	fixed  []int64 // -1 where free
	cap    int64
	edges  [][2]int32 // i < j, sorted
	adj    [][]int32  // sorted
	eids   [][]int32  // eids[v][k] is the edge between v and adj[v][k]
	base   int64      // where the floor is, in the caller's units
	unit   int64
	pinned bool // something is fixed
}

// newCore cuts verts out of g. base is not 0 only where nothing is fixed.
func newCore(g *graph, verts []int32, base, capacity, unit int64, s *scratch) *core {
	c := &core{n: len(verts), verts: verts, cap: capacity / unit, base: base, unit: unit}
	c.size, c.fixed = make([]int64, c.n), make([]int64, c.n)
	for k, v := range verts {
		s.local[v] = int32(k)
		c.size[k], c.fixed[k] = g.size[v]/unit, -1
		if g.fixed[v] >= 0 {
			c.fixed[k] = g.fixed[v] / unit
			c.pinned = true
		}
	}
	for k, v := range verts {
		for _, u := range g.adj[v] {
			if j := s.local[u]; j > int32(k) {
				c.edges = append(c.edges, [2]int32{int32(k), j})
			}
		}
	}
	for _, v := range verts {
		s.local[v] = -1
	}
	c.link()
	return c
}

// link builds the adjacency from the edges.
func (c *core) link() {
	c.adj, c.eids = make([][]int32, c.n), make([][]int32, c.n)
	// The edges are sorted: first come, in each list, the smaller neighbours in order, then the larger.
	for pass := range 2 {
		for e, x := range c.edges {
			v, u := x[1-pass], x[pass]
			c.adj[v] = append(c.adj[v], u)
			c.eids[v] = append(c.eids[v], int32(e))
		}
	}
}

// edge is the index of the edge between u and v, or -1.
func (c *core) edge(u, v int32) int {
	if len(c.adj[u]) > len(c.adj[v]) {
		u, v = v, u
	}
	k, ok := slices.BinarySearch(c.adj[u], v)
	if !ok {
		return -1
	}
	return int(c.eids[u][k])
}

// scaled is c with sizes divided by f, rounded up or down, and the capacity rounded down.
//
// Down, a refutation holds for c: divide the offsets of a layout of c and order each pair
// as it was; a chain of buffers under C has Σ ⌊z/f⌋ <= ⌊Σ z/f⌋ <= ⌊C/f⌋, and the same between
// fixed ones. What becomes 0 is left out. Up, a layout stretched by f is one of c; fixed
// offsets do not stretch, so there must be none.
func (c *core) scaled(f int64, up bool) *core {
	s := &core{cap: c.cap / f, pinned: c.pinned, base: c.base, unit: c.unit * f}
	local := make([]int32, c.n)
	for v := range c.n {
		size := c.size[v] / f
		if up {
			size = (c.size[v] + f - 1) / f
		}
		local[v] = -1
		if size > 0 {
			local[v] = int32(s.n)
			s.n++
			s.verts = append(s.verts, int32(v))
			s.size = append(s.size, size)
			s.fixed = append(s.fixed, -1)
			if c.fixed[v] >= 0 {
				s.fixed[local[v]] = c.fixed[v] / f
			}
		}
	}
	for _, e := range c.edges {
		if i, j := local[e[0]], local[e[1]]; i >= 0 && j >= 0 {
			s.edges = append(s.edges, [2]int32{i, j})
		}
	}
	s.link()
	return s
}

// settle pushes a layout of c down: each pair keeps its order, each free buffer ends on
// the floor, on a fixed one or on another, which makes its offset a sum of sizes.
func (c *core) settle(offsets []int64) {
	order := make([]int32, c.n)
	for v := range order {
		order[v] = int32(v)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return slices.Compare([]int64{offsets[a], int64(a)}, []int64{offsets[b], int64(b)})
	})
	done := make([]bool, c.n)
	for _, v := range order {
		if c.fixed[v] < 0 {
			offsets[v] = 0
			for _, u := range c.adj[v] {
				if done[u] {
					offsets[v] = max(offsets[v], offsets[u]+c.size[u])
				}
			}
		}
		done[v] = true
	}
}

// pairs is a variable for each edge: true where the smaller index lies below the larger.
// Shared by both encodings, with what symmetry allows to be fixed beforehand.
type pairs struct {
	c    *core
	vars []z.Lit
}

func newPairs(c *core, e *engine) *pairs {
	p := &pairs{c: c, vars: make([]z.Lit, len(c.edges))}
	for k := range p.vars {
		p.vars[k] = e.lit()
	}
	return p
}

// lit is true where u lies below v, given their edge.
func (p *pairs) lit(edge int, u, v int32) z.Lit {
	if u < v {
		return p.vars[edge]
	}
	return p.vars[edge].Not()
}

// breakSymmetry adds what may be assumed of some layout if there is one at all.
//
// Twins: free, equal in size, in conflict, and in conflict with the same others. They can
// change places, so they lie in order of their index.
// Flip: offset -> C - offset - size turns a layout upside down, if nothing is fixed. So one pair
// may be given an order; it must not contain a twin, for sorting the twins again
// after a flip could undo that. Both hold at every height up to C.
func (p *pairs) breakSymmetry(e *engine) {
	c := p.c
	twin := make([]bool, c.n)
	for k, x := range c.edges {
		i, j := x[0], x[1]
		if c.size[i] == c.size[j] && c.fixed[i] < 0 && c.fixed[j] < 0 && c.twins(i, j) {
			twin[i], twin[j] = true, true
			e.add(p.vars[k])
		}
	}
	if c.pinned {
		return
	}
	best := -1
	for k, x := range c.edges {
		if !twin[x[0]] && !twin[x[1]] &&
			(best < 0 || c.size[x[0]]+c.size[x[1]] > c.size[c.edges[best][0]]+c.size[c.edges[best][1]]) {
			best = k
		}
	}
	if best >= 0 {
		e.add(p.vars[best])
	}
}

// twins reports whether the neighbours i and j have the same other neighbours.
func (c *core) twins(i, j int32) bool {
	a, b := c.adj[i], c.adj[j]
	if len(a) != len(b) {
		return false
	}
	for x, y := 0, 0; x < len(a) || y < len(b); {
		switch {
		case x < len(a) && a[x] == j:
			x++
		case y < len(b) && b[y] == i:
			y++
		case x == len(a) || y == len(b) || a[x] != b[y]:
			return false
		default:
			x++
			y++
		}
	}
	return true
}
