package sat

import (
	"slices"
	"time"

	"github.com/go-air/gini/z"
)

// Ruled asks which of some rules cannot be obeyed together. Every demand on the addresses is a
// difference of two of them, so the question is SAT over difference logic: which of two buffers lies below
// is a variable, each rule has a selector, and what a choice of them implies is a graph with an edge for
//
//	b begins d bytes after a, or later     a --d--> b
//	a begins at d, or above                0 --d--> a
//	a begins at d, or below                a --(-d)--> 0
//
// The longest paths from 0 are the lowest addresses; a cycle that is longer than nothing, or one through 0, is a
// contradiction: not all of its orders and rules. Forbid it, and ask for another choice. A node may round
// up to its alignment: that only makes paths longer, and whoever asked for it is named, too. Then a path may
// come to a node again without end although no cycle is longer than nothing (b - a in [1, 2], both multiples of 4): a lowest
// address is below n (W + M), with n nodes, lengths of up to W and alignments of up to M, for above a larger
// gap everything could come down by M.
//
//	{pin a at 0} 0 --0--> a --size--> b --(-0)--> 0 {b inside [0, size)}      a below b, and both rules: no
//
// The rules are assumed, so the solver says which of them its refutation used, and those are thinned out by
// leaving out one after the other.
//
// Source: SAT modulo difference logic; cores by assumptions, as in MiniSat.
type Ruled struct {
	Sizes  []int64 // of the buffers
	Rules  int     // rules are 0 … Rules-1
	Orders []Order
	Bounds []RuledBound
	Gaps   []Gap
	Hulls  []Hull
	Aligns []RuledAlign
}

// Always is the rule of what holds in any case.
const Always = -1

// Order wants two buffers to share no address, if all of its rules are obeyed.
type Order struct {
	A, B  int32
	Rules [2]int
}

// RuledBound wants buffer A to begin at At or above; Upper: at At or below.
type RuledBound struct {
	A     int32
	At    int64
	Upper bool
	Rule  int
}

// Gap wants B to begin D bytes after A or later; D may be negative.
type Gap struct {
	A, B int32
	D    int64
	Rule int
}

// Hull wants Outside to lie below all members, or above all of them.
type Hull struct {
	Outside int32
	Members []int32
	Rule    int
}

// RuledAlign wants A at a multiple of Mod, a power of two.
type RuledAlign struct {
	A    int32
	Mod  int64
	Rule int
}

// edge of the graph. Node n is address 0.
type edge struct {
	from, to int32
	d        int64
	why      z.Lit // an order that is chosen; z.LitNull: none
	rule     int   // or a rule, or Always
}

type ruledModel struct {
	r        *Ruled
	e        *engine
	selector []z.Lit
	below    map[[2]int32]z.Lit
	fixed    []edge // of rules
	orders   []edge // those whose why is true hold
	out      [][]int32
	all      []edge

	off   []int64
	steps []step
	last  []int32 // by node: the step that gave it its address, -1: none did
	work  int64   // edges looked at
	queue []int32
	in    []bool
}

// step is an edge that gave a node its address, when that at its beginning was from an earlier step.
type step struct{ edge, before int32 }

const (
	ruledRounds    = 20_000
	ruledCuts      = 50         // contradictions of one choice
	ruledRelaxMost = 64_000     // steps for one choice; beyond, the alignments turn in circles
	ruledWork      = 30_000_000 // edges that one question may look at
)

// Refute asks whether the rules can be obeyed together. Infeasible: core are rules that cannot, ascending, and
// where minimal none of them can be left out. Feasible: offsets obey all rules. Unknown: the budget is spent.
func (r *Ruled) Refute(b Budget) (verdict Verdict, core []int, minimal bool, offsets []int64) {
	m := newRuledModel(r, time.Now().Add(b.duration()))
	all := make([]int, r.Rules)
	for i := range all {
		all[i] = i
	}
	verdict, core = m.ask(all)
	if verdict != Infeasible {
		return verdict, nil, false, m.off[:len(r.Sizes)]
	}
	minimal = true
	for k := len(core) - 1; k >= 0; k-- {
		if k >= len(core) { // it went with another
			continue
		}
		v, less := m.ask(slices.Delete(slices.Clone(core), k, k+1))
		switch v {
		case Infeasible:
			core = less
		case Unknown:
			minimal = false
		}
	}
	return Infeasible, core, minimal, nil
}

// Decide is Refute without the thinning out.
func (r *Ruled) Decide(b Budget) Verdict {
	all := make([]int, r.Rules)
	for i := range all {
		all[i] = i
	}
	verdict, _ := newRuledModel(r, time.Now().Add(b.duration())).ask(all)
	return verdict
}

func newRuledModel(r *Ruled, deadline time.Time) *ruledModel {
	n := len(r.Sizes)
	m := &ruledModel{r: r, e: newEngine(int64(len(r.Orders)), int64(len(r.Orders)), deadline), below: make(map[[2]int32]z.Lit),
		off: make([]int64, n+1), last: make([]int32, n+1), in: make([]bool, n+1)}
	for range r.Rules {
		m.selector = append(m.selector, m.e.lit())
	}
	for _, o := range r.Orders {
		clause := []z.Lit{m.lies(o.A, o.B), m.lies(o.B, o.A)}
		for _, rule := range o.Rules {
			if rule != Always {
				clause = append(clause, m.selector[rule].Not())
			}
		}
		m.e.add(clause...)
	}
	for _, h := range r.Hulls {
		side := m.e.lit() // true: outside lies below
		for _, k := range h.Members {
			for _, c := range [2][2]z.Lit{{side.Not(), m.lies(h.Outside, k)}, {side, m.lies(k, h.Outside)}} {
				if h.Rule == Always {
					m.e.add(c[0], c[1])
				} else {
					m.e.add(m.selector[h.Rule].Not(), c[0], c[1])
				}
			}
		}
	}
	for _, x := range r.Bounds {
		if x.Upper {
			m.fixed = append(m.fixed, edge{x.A, int32(n), -x.At, z.LitNull, x.Rule})
		} else {
			m.fixed = append(m.fixed, edge{int32(n), x.A, x.At, z.LitNull, x.Rule})
		}
	}
	for _, x := range r.Gaps {
		m.fixed = append(m.fixed, edge{x.A, x.B, x.D, z.LitNull, x.Rule})
	}
	return m
}

// lies is true only where a lies below b.
func (m *ruledModel) lies(a, b int32) z.Lit {
	l, ok := m.below[[2]int32{a, b}]
	if !ok {
		l = m.e.lit()
		m.below[[2]int32{a, b}] = l
		m.orders = append(m.orders, edge{a, b, m.r.Sizes[a], l, Always})
		if other, ok := m.below[[2]int32{b, a}]; ok {
			m.e.add(l.Not(), other.Not())
		}
	}
	return l
}

// ask decides some of the rules.
func (m *ruledModel) ask(rules []int) (Verdict, []int) {
	m.work = 0
	assume := make([]z.Lit, len(rules))
	on := make([]bool, m.r.Rules)
	for k, r := range rules {
		assume[k] = m.selector[r]
		on[r] = true
	}
	for range ruledRounds {
		switch m.e.try(time.Hour, assume...) {
		case no:
			var core []int
			for _, r := range rules {
				if slices.Contains(m.e.why, m.selector[r]) {
					core = append(core, r)
				}
			}
			return Infeasible, core
		case unknown:
			return Unknown, nil
		}
		m.graph(on)
		cuts := 0
		for ; cuts < ruledCuts; cuts++ {
			clause, last, ok := m.relax(on)
			if !ok {
				return Unknown, nil
			}
			if clause == nil {
				break
			}
			m.e.add(clause...)
			if last < 0 { // no order is to blame
				cuts++
				break
			}
			m.all[last].d = impossible // look for others
		}
		if cuts == 0 {
			return Feasible, nil
		}
	}
	return Unknown, nil
}

// impossible is the length of an edge that is left out.
const impossible = -1 << 62

// graph collects the edges of the last model.
func (m *ruledModel) graph(on []bool) {
	m.all = m.all[:0]
	for _, e := range m.fixed {
		if e.rule == Always || on[e.rule] {
			m.all = append(m.all, e)
		}
	}
	for _, e := range m.orders {
		if m.e.holds(e.why) {
			m.all = append(m.all, e)
		}
	}
	m.out = slices.Grow(m.out[:0], len(m.off))[:len(m.off)]
	for k := range m.out {
		m.out[k] = m.out[k][:0]
	}
	for k, e := range m.all {
		m.out[e.from] = append(m.out[e.from], int32(k))
	}
}

// relax computes the lowest addresses. Where there are none, clause says what contradicts itself, and last is one
// of the orders in it, -1 if there is none; ok is false if it takes too long.
func (m *ruledModel) relax(on []bool) (clause []z.Lit, last int, ok bool) {
	zero := int32(len(m.off) - 1)
	mod := slices.Repeat([]int64{1}, len(m.off))
	for _, a := range m.r.Aligns {
		if a.Rule == Always || on[a.Rule] {
			mod[a.A] = max(mod[a.A], a.Mod)
		}
	}
	longest := int64(0)
	for _, e := range m.all {
		if e.d != impossible {
			longest = max(longest, e.d, -e.d)
		}
	}
	most := int64(len(m.off)) * (longest + slices.Max(mod))
	m.queue, m.steps = m.queue[:0], m.steps[:0]
	for v := range m.off {
		m.off[v], m.last[v], m.in[v] = 0, -1, true
		m.queue = append(m.queue, int32(v))
	}
	for n := 0; len(m.queue) > 0; n++ {
		if n > ruledRelaxMost || m.work > ruledWork {
			return nil, 0, false
		}
		v := m.queue[0]
		m.queue = m.queue[1:]
		m.in[v] = false
		m.work += int64(len(m.out[v]))
		for _, k := range m.out[v] {
			e := &m.all[k]
			if e.d == impossible {
				continue
			}
			at := m.off[v] + e.d
			at = (at + mod[e.to] - 1) &^ (mod[e.to] - 1)
			if at <= m.off[e.to] {
				continue
			}
			m.steps = append(m.steps, step{k, m.last[v]})
			now := int32(len(m.steps) - 1)
			if e.to == zero || at > most {
				clause, last = m.blame(now, -1, true, on)
				return clause, last, true
			}
			if from, ok := m.circle(now); ok {
				clause, last = m.blame(now, from, false, on)
				return clause, last, true
			}
			m.off[e.to], m.last[e.to] = at, now
			if !m.in[e.to] {
				m.in[e.to] = true
				m.queue = append(m.queue, e.to)
			}
		}
	}
	return nil, -1, true
}

// circle reports whether the steps up to k come back to where they were by a cycle longer than nothing, alignments
// aside; from is the step before it.
func (m *ruledModel) circle(k int32) (from int32, ok bool) {
	v, d := m.all[m.steps[k].edge].to, int64(0)
	for k >= 0 {
		e := &m.all[m.steps[k].edge]
		d += e.d
		if k = m.steps[k].before; e.from == v {
			return k, d > 0
		}
	}
	return -1, false
}

// blame explains the steps from `from`, which is not among them, to k: they contradict each other, or what is
// always so. The alignments on the way count if rounded.
func (m *ruledModel) blame(k, from int32, rounded bool, on []bool) (clause []z.Lit, last int) {
	clause, last = []z.Lit{}, -1
	rules, orders := make([]bool, m.r.Rules), make(map[int32]bool)
	for ; k != from; k = m.steps[k].before {
		e := &m.all[m.steps[k].edge]
		switch {
		case e.why == z.LitNull && e.rule != Always:
			rules[e.rule] = true
		case e.why != z.LitNull && !orders[m.steps[k].edge]:
			orders[m.steps[k].edge] = true
			clause = append(clause, e.why.Not())
			last = int(m.steps[k].edge)
		}
		if rounded {
			m.blameAlign(e.to, on, rules)
		}
	}
	for r, used := range rules {
		if used {
			clause = append(clause, m.selector[r].Not())
		}
	}
	return clause, last
}

// blameAlign notes the rule that v's alignment is from: of several the one with the largest.
func (m *ruledModel) blameAlign(v int32, on, rules []bool) {
	mod, rule := int64(1), Always
	for _, a := range m.r.Aligns {
		if a.A == v && (a.Rule == Always || on[a.Rule]) && a.Mod > mod {
			mod, rule = a.Mod, a.Rule
		}
	}
	if rule != Always {
		rules[rule] = true
	}
}
