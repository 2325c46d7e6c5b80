package solver

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"stweaver/ir"
)

// Options of Solve. The zero value reduces, makes a first layout and stops.
type Options struct {
	// Nodes is the budget of search nodes in all, a count of work.
	Nodes int64
	// Capacity, in bytes: only layouts at most this high are of use; 0: any.
	Capacity ir.Bytes
	// Decide stops at the first layout within Capacity.
	Decide bool
	// Incumbent, if not nil, is a layout of the buffers to start from; the result is not
	// above it. It must be valid, and agree with Fixed.
	Incumbent *ir.Layout
	// Fixed gives some buffers their offsets, ir.NoOffset for those that are free; nil: all
	// are.
	Fixed []ir.Offset
	// Off are the reductions and rules not to use. They change the work, not the optimum.
	Off Switches
	// SAT lets a SAT solver refute capacities and look for layouts where a gap remains. It is
	// limited by time, so what it adds depends on the machine.
	SAT bool
	// Workers is the number of goroutines; 0: one for each processor. It does not change the
	// result.
	Workers int
	// Progress, if not nil, is told now and then how many of the nodes are spent, the best peak and the
	// bound. Calls do not overlap, but come from other goroutines, and when depends on timing.
	Progress func(nodes, of int64, best, bound ir.Bytes)

	coreOnly bool // CoreFirst
}

// Status says what a Result is.
type Status uint8

// The statuses.
const (
	Budget     Status = iota // out of nodes, or cancelled: Layout is the best so far, if any
	Feasible                 // Layout is within Capacity, as asked by Decide; perhaps not the best
	Optimal                  // Layout is as low as the bound
	Infeasible               // no layout within Capacity, or fixed buffers overlap
)

func (s Status) String() string {
	switch s {
	case Feasible:
		return "feasible"
	case Optimal:
		return "optimal"
	case Infeasible:
		return "infeasible"
	}
	return "budget"
}

// The kinds of bound.
const (
	LivePeak = "live peak" // the most bytes alive at once
	Core     = "core"      // some of the buffers alone need it
	Proved   = "proved"    // the search has refuted everything below, and reached it
)

// Result of Solve.
type Result struct {
	Status Status
	// Layout is the best found; Offsets is nil if there is none.
	Layout ir.Layout
	// Bound is a peak in bytes that no layout is below; with fixed buffers, none that keeps
	// them.
	Bound     ir.Bytes
	BoundKind string

	Nodes      int64 // states visited
	Backtracks int64 // of these, left without success
	Components int   // parts there was something to search in
	Peeled     int   // buffers that were left out of the searches, at the last capacities
	Core       int   // buffers that were in them
}

// Solve looks for the lowest layout of the buffers of one arena on the timeline [0, horizon).
// Main and head piece of a buffer share its address. Sizes must be positive multiples of
// what offsets are to be multiples of, and their sum an int64. When ctx ends, the best so
// far is returned. It is safe for concurrent use.
func Solve(ctx context.Context, buffers []ir.Buffer, horizon ir.Tick, o Options) Result {
	on := o.Off.on()
	items, sections := cut(buffers, o.Fixed)
	res := Result{BoundKind: LivePeak}
	if clash(items) {
		res.Status = Infeasible
		return res
	}
	parts, placed := reduce(items, sections, on)
	out := offsetsOf(buffers, items, placed, o.Fixed)
	s := &solving{o: o, climbs: make([]*climb, len(parts))}
	for i := range buffers { // what meets nothing
		if out[i] != ir.NoOffset {
			s.bound = max(s.bound, int64(out[i])+int64(buffers[i].Size))
		}
	}
	for n := range parts {
		s.bound = max(s.bound, parts[n].floorOf())
		s.climbs[n] = newClimb(&parts[n], on)
	}
	res.Components = len(parts)
	s.limit = math.MaxInt64
	if o.Capacity > 0 {
		s.limit = int64(o.Capacity)
	}
	if s.bound > s.limit {
		res.Status, res.Bound = Infeasible, ir.Bytes(s.bound)
		return res
	}
	s.begin(ctx)
	if o.Progress != nil {
		s.watch()
	}
	s.search(ctx)
	if o.SAT && ctx.Err() == nil {
		s.refine()
	}
	s.finish(&res, buffers, out)
	return res
}

// clash reports whether two fixed items share an address.
func clash(items []item) bool {
	var fixed []item
	for _, it := range items {
		if it.fixed != free {
			fixed = append(fixed, it)
		}
	}
	sortBy(fixed, func(a, b *item) bool { return a.fixed < b.fixed })
	for i := range fixed {
		for j := i + 1; j < len(fixed) && fixed[j].fixed < fixed[i].fixed+fixed[i].size; j++ {
			if fixed[i].meets(&fixed[j]) {
				return true
			}
		}
	}
	return false
}

// solving is one call of Solve.
type solving struct {
	o      Options
	climbs []*climb
	bound  int64 // bytes: what no layout of the whole is below
	limit  int64 // bytes: what is above is of no use
}

// watch has every climb tell of its steps.
func (s *solving) watch() {
	var mu sync.Mutex
	type state struct{ nodes, top, bottom int64 }
	states := make([]state, len(s.climbs))
	floor := s.bound
	for i, c := range s.climbs {
		look := func() {
			states[i] = state{c.nodes, 0, c.bottom()}
			if c.offsets != nil {
				states[i].top = c.top()
			}
		}
		look()
		c.note = func() {
			mu.Lock()
			defer mu.Unlock()
			look()
			nodes, best, bound := int64(0), int64(0), floor
			for _, st := range states {
				nodes, best, bound = nodes+st.nodes, max(best, st.top), max(bound, st.bottom)
			}
			s.o.Progress(nodes, s.o.Nodes, ir.Bytes(best), ir.Bytes(bound))
		}
	}
}

// each calls f for the climbs of the given numbers, several at a time.
func (s *solving) each(which []int, f func(*climb)) {
	workers := s.o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(workers, len(which)) {
		wait.Go(func() {
			for k := next.Add(1) - 1; k < int64(len(which)); k = next.Add(1) - 1 {
				f(s.climbs[which[k]])
			}
		})
	}
	wait.Wait()
}

// begin gives each part its first layout.
func (s *solving) begin(ctx context.Context) {
	all := make([]int, len(s.climbs))
	for i := range all {
		all[i] = i
	}
	s.each(all, func(c *climb) {
		if in := s.o.Incumbent; in != nil {
			c.take(c.p.drop(c.p.orderOf(in)))
		} else if !s.o.Decide || s.limit == math.MaxInt64 {
			c.take(c.p.first())
		}
		if s.limit == math.MaxInt64 {
			return
		}
		if room := c.p.capacity(s.limit); c.high > room { // of no use
			c.offsets, c.high = nil, room+1
		}
	})
}

// needy are the parts that hold the whole up: those that are above its bound.
func (s *solving) needy() []int {
	var out []int
	for i, c := range s.climbs {
		s.bound = max(s.bound, c.bottom())
		if c.offsets == nil || !s.o.Decide && c.top() > s.bound {
			out = append(out, i)
		}
	}
	if s.bound > s.limit {
		return nil
	}
	// The bound has grown on the way: look again.
	kept := out[:0]
	for _, i := range out {
		if c := s.climbs[i]; c.offsets == nil || c.top() > s.bound {
			kept = append(kept, i)
		}
	}
	return kept
}

// passes is how often what some parts left of their nodes is shared among the others.
const passes = 4

// search shares the nodes among the parts that need them.
func (s *solving) search(ctx context.Context) {
	for range passes {
		spent := int64(0)
		for _, c := range s.climbs {
			spent += c.nodes
		}
		which := s.needy()
		if len(which) == 0 || spent >= s.o.Nodes || ctx.Err() != nil {
			return
		}
		share := (s.o.Nodes - spent) / int64(len(which))
		s.each(which, func(c *climb) {
			if s.o.Decide {
				lo := int64(0)
				c.ask(ctx, c.high-1, share, &lo, false)
				return
			}
			if s.o.coreOnly {
				c.coreFirst(ctx, max(c.low, c.p.capacity(s.bound)), share)
				return
			}
			c.down(ctx, c.p.capacity(s.bound), share)
		})
		if s.o.Decide || s.o.coreOnly {
			return
		}
	}
}

// finish puts the parts together.
func (s *solving) finish(res *Result, buffers []ir.Buffer, out []ir.Offset) {
	whole := true
	peak := int64(0)
	proved := false
	for _, c := range s.climbs {
		proved = proved || c.bottom() > c.p.floorOf() && c.bottom() >= s.bound
		s.bound = max(s.bound, c.bottom())
	}
	for _, c := range s.climbs {
		res.Nodes += c.nodes
		res.Backtracks += c.backtracks
		res.Core += c.core
		res.Peeled += c.peeled
		if c.offsets == nil {
			whole = false
			continue
		}
		for i := range c.p.items {
			out[c.p.items[i].id] = ir.Offset(c.p.base + c.offsets[i]*c.p.unit)
		}
	}
	res.Bound = ir.Bytes(s.bound)
	if s.bound > s.limit {
		res.Status = Infeasible
	}
	if whole && s.bound <= s.limit {
		for i := range buffers {
			peak = max(peak, int64(out[i])+int64(buffers[i].Size))
		}
		res.Layout = ir.Layout{Offsets: out, Peak: ir.Bytes(peak)}
		switch {
		case peak == s.bound:
			res.Status = Optimal
		case s.o.Decide:
			res.Status = Feasible
		}
	}
	if proved {
		res.BoundKind = Core
		if res.Status == Optimal {
			res.BoundKind = Proved
		}
	}
}

// orderOf is the items of p from low to high in a layout of all buffers.
func (p *part) orderOf(l *ir.Layout) []int32 {
	order := make([]int32, len(p.items))
	for i := range order {
		order[i] = int32(i)
	}
	sortBy(order, func(a, b *int32) bool {
		x, y := l.Offsets[p.items[*a].id], l.Offsets[p.items[*b].id]
		return x < y || x == y && *a < *b
	})
	return order
}
