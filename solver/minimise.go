package solver

import "context"

// The way down. Between the proved bound low and the best layout the capacities are
// bisected, each with so many nodes; then again with twice as many:
//
//	bytes
//	best |-----------------------------  a layout is there
//	     |   3: fits, and becomes best
//	     |   2: out of nodes
//	     |   1: first of all low itself: a tighter capacity can be easier
//	low  |-----------------------------  none is lower
//
// A capacity where the nodes ran out counts as too low until the next round. The first call
// of all has 4n nodes at the capacity of the bound: it is what finds most layouts without a
// single step back.

// climb is the work on one part; it can be interrupted and taken up again.
type climb struct {
	p       *part
	on      Switches
	offsets []int64 // of the best layout; nil if there is none
	high    int64   // its height in units; without one, what is still of use and one
	low     int64   // units: no layout is lower
	round   int
	least   int // the smallest core to try
	tally
	peeled, core int // of the last question
}

func newClimb(p *part, on Switches) *climb {
	return &climb{p: p, on: on, low: p.load, high: 1<<63 - 1, core: len(p.items), least: leastCore}
}

// take keeps a layout if it is the best.
func (c *climb) take(offsets []int64, peak int64) {
	if peak < c.high {
		c.offsets, c.high = offsets, peak
	}
}

// top is the height of the best layout in bytes, ground included.
func (c *climb) top() int64 { return c.p.base + c.high*c.p.unit }

// bottom is the proved bound in bytes.
func (c *climb) bottom() int64 { return c.p.base + c.low*c.p.unit }

// ask decides one capacity and draws the conclusions. lo is moved above what is not reached.
func (c *climb) ask(ctx context.Context, capacity, nodes int64, lo *int64, flip bool) verdict {
	a := c.p.decide(ctx, question{capacity: capacity, nodes: nodes, on: c.on, flip: flip})
	c.tally.add(a.tally)
	c.peeled, c.core = a.peeled, a.core
	switch a.verdict {
	case fits:
		peak := int64(0)
		for i, off := range a.offsets {
			peak = max(peak, off+c.p.items[i].size)
		}
		if peak > capacity {
			panic("BUG: solver: a layout is higher than the capacity it was searched at")
		}
		c.take(a.offsets, peak)
	case refuted:
		c.low = max(c.low, capacity+1)
		*lo = max(*lo, c.low)
	default:
		*lo = max(*lo, capacity+1)
	}
	return a.verdict
}

// down works with that many nodes towards goal, in units: nothing lower is of use.
func (c *climb) down(ctx context.Context, goal, nodes int64) {
	end := c.nodes + nodes
	n := int64(len(c.p.items))
	goal = max(goal, c.low)
	left := func(limit int64) int64 { return min(limit, end-c.nodes) }
	if c.round == 0 && c.high > goal && n >= 2*int64(c.least) {
		c.coreFirst(ctx, goal, left(2*n))
		goal = max(goal, c.low)
	}
	if c.p.spans() > mostSpans {
		return
	}
	if c.round == 0 && c.high > goal {
		lo := goal
		c.ask(ctx, goal, left(4*n), &lo, false)
		c.round++
	}
	for ; c.high > max(goal, c.low) && c.nodes < end && ctx.Err() == nil; c.round++ {
		limit := 4 * n << min(c.round, 40)
		flip := c.round%3 == 0 // to refute it is better, to find it is not
		lo := max(goal, c.low)
		if c.offsets == nil { // anything is welcome
			c.ask(ctx, c.high-1, left(limit), &lo, flip)
			if c.low >= c.high {
				return
			}
			lo = max(goal, c.low)
		}
		coarse := max((c.high-lo)/64, 1)
		for at := lo; lo < c.high && c.high-lo >= coarse && c.nodes < end && ctx.Err() == nil; at = lo + (c.high-1-lo)/2 {
			c.ask(ctx, at, left(limit), &lo, flip)
			if c.high <= max(goal, c.low) {
				return
			}
		}
	}
}
