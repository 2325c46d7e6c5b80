package compiler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"stweaver/ir"
	"stweaver/solver"
)

// Proof is what SAT has to say on a plan that is above its bound. SAT can only be limited by time, so
// its verdicts depend on the machine: they are told, and never enter a plan.
type Proof struct {
	Stream  ir.StreamID `json:"stream"`
	Status  string      `json:"status"` // optimal: the peak is proved the least; budget: open
	Peak    ir.Bytes    `json:"peak_bytes"`
	Bound   ir.Bytes    `json:"bound_bytes"`
	Kind    string      `json:"bound_kind"`
	Found   ir.Bytes    `json:"found_bytes,omitempty"` // peak of a lower layout that came up
	Seconds float64     `json:"seconds"`
}

// Prove asks SAT about each stream whose layout is above its bound and in which only lifetimes matter: it tries to refute the capacities
// below the peak, on the largest buffers first, and to find a lower layout. It takes some ten seconds a
// stream at most, less when ctx ends between two.
func (c *Compiled) Prove(ctx context.Context) []Proof {
	var out []Proof
	for i := range c.Packs {
		sp := &c.Packs[i]
		s := &c.shares[sp.Stream]
		if sp.Peak == sp.Bound || ctx.Err() != nil || c.ruled() || c.terms(s.buffers) != nil { // SAT knows lives and sizes only
			continue
		}
		began := time.Now()
		r := solver.Solve(ctx, s.buffers, c.Problem.L1, solver.Options{Incumbent: &s.layout, SAT: true})
		p := Proof{Stream: sp.Stream, Status: solver.Budget.String(), Peak: sp.Peak, Bound: sp.Bound, Kind: sp.Kind, Seconds: time.Since(began).Seconds()}
		if r.Bound > p.Bound {
			p.Bound, p.Kind = r.Bound, r.BoundKind
		}
		if r.Layout.Offsets != nil && r.Layout.Peak < p.Peak {
			if v := violations(s.buffers, &r.Layout); v != "" {
				panic("BUG: prove: " + v)
			}
			p.Found = r.Layout.Peak
		}
		if p.Bound == p.Peak {
			p.Status = solver.Optimal.String()
		}
		out = append(out, p)
	}
	return out
}

// violations judges a layout of the buffers of one arena; "" if it is valid.
func violations(buffers []ir.Buffer, l *ir.Layout) string {
	own := slices.Clone(buffers)
	for i := range own {
		own[i].Stream = 0
	}
	if v := ir.Verify(&ir.Problem{Buffers: own, Streams: []uint64{0}}, nil, l); len(v) > 0 {
		return v[0].String()
	}
	return ""
}

// String is one line for people.
func (p Proof) String() string {
	switch {
	case p.Status == solver.Optimal.String():
		return fmt.Sprintf("no layout is below %s (%s, %.1f s): the plan is the least possible", Size(p.Peak), p.Kind, p.Seconds)
	case p.Found > 0:
		return fmt.Sprintf("a layout of %s exists, %s less than the plan's (%.1f s); it is not in the plan, for time found it: --effort max searches by count",
			Size(p.Found), Size(p.Peak-p.Found), p.Seconds)
	}
	return fmt.Sprintf("open: no layout is below %s (%s), the plan is %s above (%.1f s)", Size(p.Bound), p.Kind, Size(p.Peak-p.Bound), p.Seconds)
}
