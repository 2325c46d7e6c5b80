package solver

import (
	"context"
	"slices"
)

// The way down. The bound itself is asked first, and most; what lies between it and the best
// layout is bisected on the side, each capacity with so many nodes, then again with twice as
// many:
//
//	bytes
//	best |-----------------------------  a layout is there
//	     |   3: fits, and becomes best
//	     |   2: out of nodes
//	low  |-----------------------------  none is lower; 1: asked in every round
//
// Most problems fit their bound exactly, and a tighter capacity can be easier: it leaves less
// to choose. So the bound has two thirds of the nodes, and one third when it has taken so many
// that it must be doubted. A question is not asked anew in the next round but taken up where it
// was: with turns as long as they have come to be, and what it remembers. A capacity where the
// nodes ran out counts as too low until the next round. Round 0 asks for the bound only: 4n
// nodes find most layouts without a single step back.

// climb is the work on one part; it can be interrupted and taken up again.
type climb struct {
	p        *part
	on       Switches
	offsets  []int64 // of the best layout; nil if there is none
	high     int64   // its height in units; without one, what is still of use and one
	low      int64   // units: no layout is lower
	round    int
	least    int        // the smallest core to try
	lowest   *inquiry   // at the bound, taken up again in each round; nil: none
	atLowest int64      // nodes it took
	share    int64      // nodes it takes next
	open     []*inquiry // above the bound, the one asked last at the end
	tally
	peeled, core int    // of the last question
	note         func() // nil, or called after each step
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
	return c.conclude(c.p.decide(ctx, question{capacity: capacity, nodes: nodes, on: c.on, flip: flip}), capacity, lo)
}

// Questions are kept only in parts whose lists are short (spans): each has lists of its own.
const (
	mostOpen  = 6       // above the bound
	keptSpans = 1 << 20 // about 10 MB for each, and memory
)

// again asks a capacity above the bound, or goes on with it. Turns begin until they have taken
// that many nodes, and never take more than most.
func (c *climb) again(ctx context.Context, capacity, nodes, most int64, lo *int64) verdict {
	kept := c.open[:0]
	var in *inquiry
	for _, o := range c.open { // the others that still are of use
		switch {
		case o.capacity == capacity:
			in = o
		case o.capacity < c.high && o.capacity >= c.low:
			kept = append(kept, o)
		}
	}
	clear(c.open[len(kept):])
	if len(kept) >= mostOpen { // the one asked longest ago
		kept = slices.Delete(kept, 0, 1)
	}
	if in == nil {
		in = c.p.inquire(question{capacity: capacity, on: c.on})
	}
	if c.open = kept; c.p.spans() <= keptSpans {
		c.open = append(kept, in)
	}
	return c.conclude(in.goOn(ctx, nodes, most), capacity, lo)
}

// conclude keeps what an answer says.
func (c *climb) conclude(a answer, capacity int64, lo *int64) verdict {
	c.tally.add(a.tally)
	c.peeled, c.core = a.peeled, a.core
	if c.note != nil {
		defer c.note()
	}
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
	}
	if c.p.spans() > mostSpans {
		return
	}
	more := func() bool {
		goal = max(goal, c.low)
		return c.high > goal && c.nodes < end && ctx.Err() == nil
	}
	for ; more(); c.round++ {
		if c.lowest == nil || c.lowest.capacity != goal {
			c.lowest, c.atLowest = c.p.inquire(question{capacity: goal, on: c.on}), 0
		}
		lo := goal
		a := c.lowest.goOn(ctx, max(c.share, 4*n), end-c.nodes)
		c.atLowest += a.nodes
		c.conclude(a, goal, &lo)
		if c.p.spans() > keptSpans {
			c.lowest = nil
		}
		if c.nodes >= end { // it has the same share again
			return
		}
		c.share = 0
		if c.round == 0 || !more() {
			continue
		}
		before := c.nodes
		c.sweep(ctx, goal, left(4*n<<min(c.round, 40)), end)
		c.share = boundShare * (c.nodes - before)
		if c.atLowest >= doubt*n {
			c.share = (c.nodes - before) / boundShare
		}
	}
}

// boundShare is how many nodes go to the bound for each that goes to what is above it.
const boundShare = 2

// doubt is how many nodes for each buffer the bound may take before it is the other way round.
const doubt = 1000

// finest is into how many steps a sweep divides what is above the bound: what is closer to the
// best layout is not worth its nodes.
const finest = 32

// sweep bisects what is above goal, with limit nodes for each capacity, until end.
func (c *climb) sweep(ctx context.Context, goal, limit, end int64) {
	lo := goal + 1
	if c.round%3 == 0 { // of a layout and its mirror image one: to find it is no better, to refute it is
		c.ask(ctx, goal, min(limit, end-c.nodes), &lo, true)
		lo = max(lo, c.low)
	}
	if c.offsets == nil { // anything is welcome
		c.ask(ctx, c.high-1, min(limit, end-c.nodes), &lo, false)
		lo = max(goal, c.low) + 1
	}
	coarse := max((c.high-lo)/finest, 1)
	for lo < c.high && c.high-lo >= coarse && c.nodes < end && ctx.Err() == nil {
		c.again(ctx, lo+(c.high-1-lo)/2, limit, end-c.nodes, &lo)
	}
}
