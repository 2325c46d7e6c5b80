package sat

import (
	"slices"
	"time"

	"github.com/go-air/gini/z"
)

// The orientation encoding: one variable for each conflicting pair, which of the two lies below.
// An acyclic choice gives a layout, each buffer on top of the highest one below it, and the
// layout is as high as its tallest chain. So: ask for a choice; if it has a cycle or a
// chain above the capacity, forbid that and ask again.
//
//	C +- - - - - - - - - -
//	  |        +---+            chain a < b < d is too tall: not all three
//	  |  +---+ | d |            again. Upside down it is as tall, so neither
//	  |  | b |-+---+            all three reversed. If a and d conflict and
//	  |  +---+-+                a + d is too tall without b, b is left out.
//	  |    | a |
//	  +----+---+-------> time
//
// In a chordal graph, as that of intervals is, every cycle has a triangle, and triangles are forbidden
// beforehand. Lifetimes that wrap make circular-arc graphs: cycles that slip through
// are forbidden as they appear, shortest first; so are all where triangles are too many.
// The number of units does not matter, and a chain too tall for C is too tall for less.
type orientModel struct {
	c        *core
	e        *engine
	pairs    *pairs
	limit    int64 // clauses
	complete bool  // all triangles are in

	below  []int32 // scratch: of each buffer, the one its chain comes from, or -1
	off    []int64
	degree []int32
	queue  []int32
}

// cutsPerRound and cyclesPerRound bound how many clauses a round adds.
const (
	cutsPerRound   = 50
	cyclesPerRound = 500
)

// newOrient encodes c with at most limit clauses, cuts to come included.
func newOrient(c *core, s *shape, limit int64, deadline time.Time, off switches) *orientModel {
	triangles := int64(0)
	s.triangles(c, func(int32, int32, int32) bool { triangles++; return triangles <= limit })
	eager := 2*triangles <= limit/2
	m := &orientModel{c: c, limit: limit, below: make([]int32, c.n), off: make([]int64, c.n), degree: make([]int32, c.n)}
	room := int64(len(c.edges))
	if eager {
		room += 2 * triangles
	}
	m.e = newEngine(int64(len(c.edges)), room, deadline)
	m.pairs = newPairs(c, m.e)
	if off&offSymmetry == 0 {
		m.pairs.breakSymmetry(m.e)
	}
	for e, x := range c.edges {
		i, j := x[0], x[1]
		// A fixed buffer leaves no choice of side where the other is fixed or too large.
		if m.mustLie(i, j) {
			m.e.add(m.pairs.vars[e])
		}
		if m.mustLie(j, i) {
			m.e.add(m.pairs.vars[e].Not())
		}
	}
	if eager {
		m.complete = s.chordal
		s.triangles(c, func(a, b, d int32) bool {
			ab, bd, da := m.side(a, b), m.side(b, d), m.side(d, a)
			m.e.add(ab.Not(), bd.Not(), da.Not())
			m.e.add(ab, bd, da)
			return true
		})
	}
	if off&offTriples == 0 {
		m.triples()
	}
	return m
}

// mustLie reports whether u must lie below v because v cannot lie below u.
func (m *orientModel) mustLie(u, v int32) bool {
	c := m.c
	lowestTop := c.size[v] // of v
	if c.fixed[v] >= 0 {
		lowestTop += c.fixed[v]
	}
	highest := c.cap - c.size[u]
	if c.fixed[u] >= 0 {
		highest = c.fixed[u]
	}
	return lowestTop > highest
}

// side is true where u lies below v; they must conflict.
func (m *orientModel) side(u, v int32) z.Lit { return m.pairs.lit(m.c.edge(u, v), u, v) }

// triples forbids beforehand each chain of three that is too tall, the middle one in conflict with both
// ends and the ends not with each other, within an eighth of the clauses.
func (m *orientModel) triples() {
	c, stop := m.c, m.e.clauses+m.limit/8
	for v := range int32(c.n) {
		near := slices.Clone(c.adj[v])
		slices.SortStableFunc(near, func(a, b int32) int { return int(min(max(c.size[b]-c.size[a], -1), 1)) })
		for k, a := range near {
			for _, b := range near[:k] {
				if c.size[a]+c.size[b]+c.size[v] <= c.cap {
					break
				}
				if c.edge(a, b) >= 0 {
					continue
				}
				if m.e.clauses >= stop {
					return
				}
				av, vb := m.side(a, v), m.side(v, b)
				m.e.add(av.Not(), vb.Not())
				m.e.add(av, vb)
			}
		}
	}
}

// run refines until there is an answer, the rounds are used up, or time or clauses are.
func (m *orientModel) run(rounds int64) (Verdict, []int64) {
	for range rounds {
		switch m.e.try(time.Hour) {
		case no:
			return Infeasible, nil
		case unknown:
			return Unknown, nil
		}
		if !m.chains() {
			if m.complete {
				panic("BUG: sat: a cycle in a chordal graph without cyclic triangles")
			}
			m.cutCycles()
		} else if m.cutChains() == 0 {
			return Feasible, slices.Clone(m.off)
		}
		if m.e.clauses > m.limit {
			return Unknown, nil
		}
	}
	return Unknown, nil
}

// up reports whether the last model has u below its neighbour v.
func (m *orientModel) up(edge int32, u, v int32) bool {
	return m.e.holds(m.pairs.vars[edge]) == (u < v)
}

// chains computes the offsets of the model as tallest chains, bottom up. It returns false where a
// cycle leaves some without. A fixed buffer begins a chain at its own offset.
func (m *orientModel) chains() bool {
	c := m.c
	m.queue = m.queue[:0]
	for v := range int32(c.n) {
		m.below[v], m.off[v], m.degree[v] = -1, 0, 0
		for k, u := range c.adj[v] {
			if m.up(c.eids[v][k], u, v) {
				m.degree[v]++
			}
		}
		if m.degree[v] == 0 {
			m.queue = append(m.queue, v)
		}
	}
	for k := 0; k < len(m.queue); k++ {
		v := m.queue[k]
		top := m.start(v) + c.size[v]
		for k, u := range c.adj[v] {
			if !m.up(c.eids[v][k], v, u) {
				continue
			}
			if top > m.off[u] || m.below[u] < 0 {
				m.off[u], m.below[u] = top, v
			}
			if m.degree[u]--; m.degree[u] == 0 {
				m.queue = append(m.queue, u)
			}
		}
	}
	return len(m.queue) == c.n
}

// start is where v lies in the layout being built: its chain's offset, or its own.
func (m *orientModel) start(v int32) int64 {
	if m.c.fixed[v] >= 0 {
		return m.c.fixed[v]
	}
	return m.off[v]
}

// cutChains forbids chains of the model that are too tall; 0 means the model is a layout, and
// leaves it in m.off.
func (m *orientModel) cutChains() int {
	c, cuts := m.c, 0
	for _, v := range m.queue { // bottom up
		reach, limit := m.off[v]+c.size[v], c.cap
		if c.fixed[v] >= 0 {
			reach, limit = m.off[v], c.fixed[v]
		}
		if reach <= limit {
			continue
		}
		// Above a chain that is too tall by itself there is nothing to learn.
		if b := m.below[v]; b >= 0 && c.fixed[b] < 0 && m.off[b]+c.size[b] > c.cap {
			continue
		}
		m.cut(v, reach-limit)
		if cuts++; cuts == cutsPerRound {
			return cuts
		}
	}
	if cuts == 0 {
		for v, f := range c.fixed {
			if f >= 0 {
				m.off[v] = f
			}
		}
	}
	return cuts
}

// cut forbids the chain that ends in v, too tall by excess, shortened as far as it stays so.
func (m *orientModel) cut(v int32, excess int64) {
	c := m.c
	chain := []int32{v}
	for u := v; c.fixed[u] < 0 || u == v; {
		b := m.below[u]
		if b < 0 {
			break
		}
		chain = append(chain, b)
		u = b
	}
	slices.Reverse(chain)
	for len(chain) > 2 { // from the bottom
		lost := c.size[chain[0]] + max(c.fixed[chain[0]], 0)
		if lost >= excess {
			break
		}
		excess -= lost
		chain = chain[1:]
	}
	for k := 1; k+1 < len(chain); { // from the middle
		u, w := chain[k-1], chain[k+1]
		e := c.edge(u, w)
		if c.size[chain[k]] < excess && e >= 0 && m.up(int32(e), u, w) {
			excess -= c.size[chain[k]]
			chain = slices.Delete(chain, k, k+1)
			k = max(1, k-1)
			continue
		}
		k++
	}
	m.forbid(chain, c.fixed[chain[0]] < 0 && c.fixed[v] < 0)
}

// forbid adds that not all of chain lie as they do and, if turned, not all the other way round.
func (m *orientModel) forbid(chain []int32, turned bool) {
	clause := make([]z.Lit, 0, len(chain))
	for k := 1; k < len(chain); k++ {
		clause = append(clause, m.side(chain[k-1], chain[k]).Not())
	}
	m.e.add(clause...)
	if turned {
		for k := range clause {
			clause[k] = clause[k].Not()
		}
		m.e.add(clause...)
	}
}
