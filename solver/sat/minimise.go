package sat

import "time"

// Minimise looks for the least height between load, a height known to be needed, and upper,
// one known to be reached; the result is a layout lower than upper (nil where none was
// found), the least height known to be reached, the greatest known to be needed, and each answer on the
// way, in order. peak == bound proves the optimum.
//
// Load is tried first, then the middle of what is left; a layout moves the upper end to its
// real height. Where the order encoding fits, one solver serves all steps: the height is an
// assumption, and what was learned at one height holds at the others. A step that stalls in
// it is asked again of a fresh solver, which is often quicker. One that stalls there too is left
// behind, and the search goes on below and above it.
func Minimise(in Instance, load, upper int64, b Budget) (offsets []int64, peak, bound int64, verdicts []Answer) {
	begin := time.Now()
	deadline := begin.Add(b.duration())
	if int64(len(in.Conflicts)) > b.clauses() {
		return nil, upper, load, nil
	}
	var verts []int32
	bound = max(load, 0)
	for v, size := range in.Sizes {
		if size <= 0 {
			continue
		}
		verts = append(verts, int32(v))
		bound = max(bound, size)
		if in.Fixed != nil && in.Fixed[v] >= 0 {
			bound = max(bound, in.Fixed[v]+size)
		}
	}
	g := newGraph(in)
	unit := unitOf(g, verts)
	peak, bound = upper, roundUp(bound, unit)
	var st *stepper
	if !fixedMisfit(in, g, upper) && bound < peak {
		st, bound = newStepper(g, verts, bound, upper-1, unit, b.clauses(), deadline)
	}
	h := hunt{bound: bound, peak: peak, unit: unit}
	for h.bound < h.peak {
		height, ok := h.next()
		left := time.Until(deadline)
		if !ok || left < time.Millisecond {
			break
		}
		slice := max(left/4, min(left, 50*time.Millisecond))
		answer, ok := Answer{}, false
		if st != nil {
			answer, ok = st.ask(in, height, slice)
		}
		if !ok {
			answer = Decide(in, height, Budget{b.MaxClauses, slice.Seconds()})
		}
		verdicts = append(verdicts, answer)
		switch answer.Verdict {
		case Feasible:
			offsets = answer.Offsets
			h.reached(top(in, offsets))
		case Infeasible:
			h.refuted(height)
		case Unknown:
			h.stalled(height)
		}
	}
	return offsets, h.peak, h.bound, verdicts
}

// hunt is a bisection that can leave a stretch of heights behind.
//
//	bound ... stuckLow ...... stuckHigh ... peak
//	  refute? |    no answer here     | reach?
type hunt struct {
	bound, peak, unit   int64
	asked               int64
	stuck               bool
	stuckLow, stuckHigh int64
}

// next is a height to ask for in [bound, peak), or false where only stuck ones are left.
func (h *hunt) next() (int64, bool) {
	low, high := h.bound, (h.peak-1)/h.unit*h.unit
	h.asked++
	if h.asked == 1 {
		return low, true
	}
	if h.stuck {
		below, above := h.stuckLow > low, h.stuckHigh < high
		switch {
		case !below && !above:
			return 0, false
		case below && (!above || h.asked%2 == 0):
			high = h.stuckLow - h.unit
		default:
			low = h.stuckHigh + h.unit
		}
	}
	return low + (high-low)/2/h.unit*h.unit, true
}

func (h *hunt) reached(height int64) {
	h.peak = max(h.bound, min(h.peak, height))
	h.stuck = h.stuck && h.stuckLow < h.peak
}

func (h *hunt) refuted(height int64) {
	h.bound = min(h.peak, max(h.bound, height+h.unit))
	h.stuck = h.stuck && h.stuckHigh >= h.bound
}

func (h *hunt) stalled(height int64) {
	if !h.stuck {
		h.stuck, h.stuckLow, h.stuckHigh = true, height, height
	}
	h.stuckLow, h.stuckHigh = min(h.stuckLow, height), max(h.stuckHigh, height)
}

func roundUp(x, unit int64) int64 { return (x + unit - 1) / unit * unit }

// top is the height of a layout.
func top(in Instance, offsets []int64) int64 {
	var h int64
	for v, o := range offsets {
		if in.Sizes[v] > 0 {
			h = max(h, o+in.Sizes[v])
		}
	}
	return h
}

// stepper answers for many heights of one instance with one solver. Its reductions are done at the least
// height, so they hold at all: what is peeled there has a place under that height wherever the rest is.
type stepper struct {
	r *reduction
	c *core
	m *orderModel
}

// newStepper encodes in for heights from bound to most. It returns nil where the order encoding
// does not fit, and the bound raised to the heaviest clique found.
func newStepper(g *graph, verts []int32, bound, most, unit, clauses int64, deadline time.Time) (*stepper, int64) {
	s := newScratch(len(g.size))
	whole := newCore(g, verts, 0, most, unit, s)
	shape := shapeOf(whole)
	bound = max(bound, shape.clique(whole)*unit)
	if bound > most {
		return nil, bound
	}
	r := reduce(g, verts, 0, bound, unit, s, 0)
	if !r.fits {
		return nil, bound
	}
	c := newCore(g, r.rest, r.base, most-r.base, unit, s)
	cand := candidates(c, clauses, false)
	if cand == nil {
		return nil, bound
	}
	vars, size, ok := orderSize(c, cand, clauses)
	if !ok {
		return nil, bound
	}
	return &stepper{r, c, newOrder(c, cand, vars, size, deadline, 0)}, bound
}

// ask decides one height; false means it stalled.
func (st *stepper) ask(in Instance, height int64, limit time.Duration) (Answer, bool) {
	c, m := st.c, st.m
	verdict := m.e.try(limit, m.at((height-c.base)/c.unit))
	a := Answer{Vars: m.e.vars, Clauses: m.e.clauses, Rounds: 1, Encoding: "order"}
	switch verdict {
	case no:
		a.Verdict = Infeasible
		return a, true
	case unknown:
		return a, false
	}
	local := m.offsets()
	c.settle(local)
	a.Offsets = make([]int64, len(in.Sizes))
	for v, size := range in.Sizes {
		switch {
		case size > 0:
			a.Offsets[v] = -1
		case in.Fixed != nil:
			a.Offsets[v] = max(0, in.Fixed[v])
		}
	}
	for k, v := range c.verts {
		a.Offsets[v] = c.base + local[k]*c.unit
	}
	if !st.r.undo(a.Offsets) || Check(in, height, a.Offsets) != nil {
		return Answer{Rejected: 1}, false
	}
	a.Verdict = Feasible
	return a, true
}
