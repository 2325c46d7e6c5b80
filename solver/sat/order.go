package sat

import (
	"slices"
	"time"

	"github.com/go-air/gini/z"
)

// The order encoding. Each buffer has a list of candidate offsets (patterns.go); p(i,k)
// says "i lies at its k-th candidate or below". For each conflicting pair and each way round:
//
//	i below j, and j at or below o   =>   i at or below o - z_i
//
//	 address      o ------------+----+
//	                            | j  |        p(j,o) and b(i,j) give p(i, o - z_i)
//	      o - z_i ----+----+    +----+
//	                  | i  |
//	                  +----+
//
// With candidates instead of all offsets many of these say the same; of those that imply the
// same p(i,·) only the one with the highest o is kept. A height h is asked for by one
// literal that implies p(i, h - z_i) for all i, so one solver serves all heights, and
// what it learns stays.
type orderModel struct {
	c     *core
	e     *engine
	pairs *pairs
	cand  [][]int64
	vars  [][]z.Lit // one fewer than candidates: the last one is certain
	caps  []heightLit
}

type heightLit struct {
	height int64
	lit    z.Lit
}

// orderSize counts the variables and clauses newOrder would make of c with cand, or
// stops above limit.
func orderSize(c *core, cand [][]int64, limit int64) (vars, clauses int64, ok bool) {
	vars = int64(len(c.edges))
	for _, list := range cand {
		vars += int64(len(list))
		clauses += int64(len(list))
	}
	if vars > limit {
		return vars, clauses, false
	}
	for _, x := range c.edges {
		for pass := range 2 {
			lower, upper := x[pass], x[1-pass]
			eachStep(cand[lower], cand[upper], c.size[lower], func(int, int) { clauses++ })
		}
		if clauses > limit {
			return vars, clauses, false
		}
	}
	return vars, clauses, true
}

// eachStep calls f(k, m) for each clause "upper at its k-th candidate or below implies lower at
// one of its first m": where m changes after k, and m is not all of them.
func eachStep(lower, upper []int64, size int64, f func(k, m int)) {
	m := 0
	for k, o := range upper {
		for m < len(lower) && lower[m] <= o-size {
			m++
		}
		if m == len(lower) {
			return
		}
		if k+1 == len(upper) || lower[m] <= upper[k+1]-size {
			f(k, m)
		}
	}
}

// newOrder encodes c. The clauses have no model exactly if c has no layout at candidates.
func newOrder(c *core, cand [][]int64, vars, clauses int64, deadline time.Time, off switches) *orderModel {
	m := &orderModel{c: c, e: newEngine(vars, clauses, deadline), cand: cand, vars: make([][]z.Lit, c.n)}
	for v, list := range cand {
		if len(list) == 0 {
			m.e.add()
			return m
		}
		m.vars[v] = make([]z.Lit, len(list)-1)
		for k := range m.vars[v] {
			m.vars[v][k] = m.e.lit()
			if k > 0 {
				m.e.add(m.vars[v][k-1].Not(), m.vars[v][k])
			}
		}
	}
	m.pairs = newPairs(c, m.e)
	for e, x := range c.edges {
		for pass := range 2 {
			lower, upper := x[pass], x[1-pass]
			order := m.pairs.lit(e, lower, upper).Not()
			eachStep(cand[lower], cand[upper], c.size[lower], func(k, count int) {
				clause := append(make([]z.Lit, 0, 3), order)
				if k < len(m.vars[upper]) {
					clause = append(clause, m.vars[upper][k].Not())
				}
				if count > 0 {
					clause = append(clause, m.vars[lower][count-1])
				}
				m.e.add(clause...)
			})
		}
	}
	if off&offSymmetry == 0 {
		m.pairs.breakSymmetry(m.e)
	}
	return m
}

// at is a literal for "no higher than height", made once for each height.
func (m *orderModel) at(height int64) z.Lit {
	k, ok := slices.BinarySearchFunc(m.caps, height, func(h heightLit, x int64) int { return int(min(max(h.height-x, -1), 1)) })
	if ok {
		return m.caps[k].lit
	}
	l := m.e.lit()
	for v, list := range m.cand {
		count, exact := slices.BinarySearch(list, height-m.c.size[v])
		if exact {
			count++
		}
		switch {
		case count == 0:
			m.e.add(l.Not())
		case count <= len(m.vars[v]):
			m.e.add(l.Not(), m.vars[v][count-1])
		}
	}
	if k > 0 {
		m.e.add(m.caps[k-1].lit.Not(), l)
	}
	if k < len(m.caps) {
		m.e.add(l.Not(), m.caps[k].lit)
	}
	m.caps = slices.Insert(m.caps, k, heightLit{height, l})
	return l
}

// offsets reads the last model: the first candidate whose variable is true. One that reads
// neither true nor false is in no clause, and the next does as well.
func (m *orderModel) offsets() []int64 {
	out := make([]int64, m.c.n)
	for v, list := range m.cand {
		k := 0
		for k < len(m.vars[v]) && !m.e.holds(m.vars[v][k]) {
			k++
		}
		out[v] = list[k]
	}
	return out
}
