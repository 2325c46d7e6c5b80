package sat

import (
	"slices"
	"time"
)

// Defaults of a Budget.
const (
	defaultClauses = 20_000_000
	defaultSeconds = 10
)

type method uint8

const (
	auto method = iota
	orderOnly
	orientOnly
)

// switches turn parts off, for tests: the answer must not depend on them.
type switches uint8

const (
	offPeel switches = 1 << iota
	offHide
	offStack
	offParts
	offClique
	offMiddle
	offSymmetry
	offTriples // chains of three that orientation forbids beforehand

	allSwitches = 8
)

// session is one call of the package.
type session struct {
	method   method
	off      switches
	clauses  int64 // for one solver
	begin    time.Time
	deadline time.Time
	scratch  *scratch
	answer   Answer
}

// Decide answers whether in has a layout at most capacity high. It picks the encoding
// itself. Safe for concurrent use; panics on conflicts that are not sorted pairs i < j.
func Decide(in Instance, capacity int64, b Budget) Answer { return decide(in, capacity, b, auto) }

// DecideOrder is Decide by the order encoding alone.
func DecideOrder(in Instance, capacity int64, b Budget) Answer {
	return decide(in, capacity, b, orderOnly)
}

// DecideOrientation is Decide by the lazily refined orientation encoding alone.
func DecideOrientation(in Instance, capacity int64, b Budget) Answer {
	return decide(in, capacity, b, orientOnly)
}

func (b Budget) clauses() int64 {
	if b.MaxClauses > 0 {
		return b.MaxClauses
	}
	return defaultClauses
}

func (b Budget) duration() time.Duration {
	if b.Seconds > 0 {
		return time.Duration(b.Seconds * float64(time.Second))
	}
	return defaultSeconds * time.Second
}

func decide(in Instance, capacity int64, b Budget, how method) Answer {
	return newSession(b, how).decide(in, capacity)
}

func newSession(b Budget, how method) *session {
	begin := time.Now()
	return &session{method: how, clauses: b.clauses(), begin: begin, deadline: begin.Add(b.duration())}
}

func (s *session) decide(in Instance, capacity int64) Answer {
	if int64(len(in.Conflicts)) > s.clauses {
		return Answer{}
	}
	g := newGraph(in)
	offsets := make([]int64, len(in.Sizes))
	var verts []int32
	for v, size := range in.Sizes {
		if size > 0 {
			verts = append(verts, int32(v))
			offsets[v] = -1
		} else {
			offsets[v] = max(0, g.fixed[v])
		}
	}
	s.scratch = newScratch(len(in.Sizes))
	a := &s.answer
	if fixedMisfit(in, g, capacity) {
		a.Verdict, a.Encoding = Infeasible, "reduction"
		return *a
	}
	a.Verdict = s.fit(g, verts, 0, capacity, offsets)
	if a.Verdict != Feasible {
		if a.Verdict == Unknown {
			a.Encoding = ""
		}
		return *a
	}
	a.Offsets = offsets
	if Check(in, capacity, offsets) != nil {
		a.Rejected++
		a.Verdict, a.Offsets = Unknown, nil
	}
	return *a
}

// fixedMisfit reports a fixed buffer that ends above the capacity or meets another one.
func fixedMisfit(in Instance, g *graph, capacity int64) bool {
	for v, f := range g.fixed {
		if f >= 0 && in.Sizes[v] > 0 && (in.Sizes[v] > capacity || f > capacity-in.Sizes[v]) {
			return true
		}
	}
	for _, c := range in.Conflicts {
		i, j := c[0], c[1]
		if fi, fj := g.fixed[i], g.fixed[j]; fi >= 0 && fj >= 0 && in.Sizes[i] > 0 && in.Sizes[j] > 0 &&
			fi < fj+in.Sizes[j] && fj < fi+in.Sizes[i] {
			return true
		}
	}
	return false
}

// unitOf is the greatest common divisor of the sizes and fixed offsets of verts.
func unitOf(g *graph, verts []int32) int64 {
	unit := int64(0)
	for _, v := range verts {
		unit = gcd(unit, g.size[v])
		if g.fixed[v] > 0 {
			unit = gcd(unit, g.fixed[v])
		}
	}
	return max(1, unit)
}

// fit places verts in [base, base+capacity), in offsets where it can.
func (s *session) fit(g *graph, verts []int32, base, capacity int64, offsets []int64) Verdict {
	for _, v := range verts {
		if g.size[v] > capacity {
			s.answer.Encoding = "reduction"
			return Infeasible
		}
	}
	unit := unitOf(g, verts)
	r := reduce(g, verts, base, capacity-capacity%unit, unit, s.scratch, s.off)
	if !r.fits {
		s.answer.Encoding = "reduction"
		return Infeasible
	}
	if s.answer.Encoding == "" {
		s.answer.Encoding = "reduction"
	}
	verdict := Feasible
	split := parts(g, r.rest, s.scratch)
	switch {
	case len(split) == 0:
	case len(split) == 1 || s.off&offParts != 0:
		unit = unitOf(g, r.rest)
		c := newCore(g, r.rest, r.base, r.cap, unit, s.scratch)
		var local []int64
		verdict, local = s.core(c)
		for k, v := range r.rest {
			if verdict == Feasible {
				offsets[v] = r.base + local[k]*unit
			}
		}
	default:
		for _, part := range split {
			switch s.fit(g, part, r.base, r.cap, offsets) {
			case Infeasible:
				return Infeasible
			case Unknown:
				verdict = Unknown
			}
		}
	}
	if verdict == Feasible && !r.undo(offsets) {
		s.answer.Rejected++
		return Unknown
	}
	return verdict
}

// core decides what the reductions left, in its own units.
func (s *session) core(c *core) (Verdict, []int64) {
	shape := shapeOf(c)
	if s.off&offClique == 0 && shape.clique(c) > c.cap {
		return s.decided(Infeasible, "clique"), nil
	}
	if s.method != orientOnly {
		if verdict, offsets, fits := s.order(c, s.deadline); fits || s.method == orderOnly {
			return s.decided(verdict, "order"), offsets
		}
	}
	m := newOrient(c, &shape, s.clauses, s.deadline, s.off)
	defer func() { s.spent(m.e) }()
	if s.method == orientOnly {
		verdict, offsets := m.run(1 << 40)
		return s.decided(verdict, "orientation"), offsets
	}
	// Too many units for the order encoding as they are: it takes turns with orientation, coarse first.
	// The last turn has whatever time is left.
	budget := s.deadline.Sub(s.begin)
	for _, turn := range []struct{ units, share int64 }{{0, 8}, {128, 16}, {512, 8}, {0, 0}} {
		stop := s.deadline
		if turn.share > 0 {
			if t := time.Now().Add(budget / time.Duration(turn.share)); t.Before(stop) {
				stop = t
			}
		}
		if turn.units == 0 {
			m.e.deadline = stop
			if verdict, offsets := m.run(1 << 40); verdict != Unknown {
				return s.decided(verdict, "orientation"), offsets
			}
		} else if f := (c.cap + turn.units - 1) / turn.units; f > 1 {
			if verdict, offsets := s.rounded(c, f, stop); verdict != Unknown {
				return verdict, offsets
			}
		}
	}
	return Unknown, nil
}

// order runs the order encoding; fits is false where it has too many clauses for the budget.
func (s *session) order(c *core, deadline time.Time) (verdict Verdict, offsets []int64, fits bool) {
	cand := candidates(c, s.clauses, s.off&offMiddle == 0)
	if cand == nil {
		return Unknown, nil, false
	}
	vars, clauses, ok := orderSize(c, cand, s.clauses)
	if !ok {
		return Unknown, nil, false
	}
	m := newOrder(c, cand, vars, clauses, deadline, s.off)
	defer func() { s.spent(m.e) }()
	switch m.e.try(time.Hour) {
	case yes:
		offsets = m.offsets()
		c.settle(offsets)
		return Feasible, offsets, true
	case no:
		return Infeasible, nil, true
	}
	return Unknown, nil, true
}

// rounded refutes c with sizes rounded down to multiples of f, or fits it with sizes rounded up.
func (s *session) rounded(c *core, f int64, deadline time.Time) (Verdict, []int64) {
	half := time.Now().Add(time.Until(deadline) / 2)
	if verdict, _, _ := s.order(c.scaled(f, false), half); verdict == Infeasible {
		return s.decided(Infeasible, "order, rounded down"), nil
	}
	if c.pinned {
		return Unknown, nil
	}
	up := c.scaled(f, true)
	if shape := shapeOf(up); shape.clique(up) > up.cap {
		return Unknown, nil
	}
	verdict, offsets, _ := s.order(up, deadline)
	if verdict != Feasible {
		return Unknown, nil
	}
	for v := range offsets {
		offsets[v] *= f
	}
	c.settle(offsets)
	return s.decided(Feasible, "order, rounded up"), slices.Clip(offsets)
}

func (s *session) decided(v Verdict, by string) Verdict {
	if v != Unknown {
		s.answer.Encoding = by
	}
	return v
}

func (s *session) spent(e *engine) {
	s.answer.Vars += e.vars
	s.answer.Clauses += e.clauses
	s.answer.Rounds += e.tries
}
