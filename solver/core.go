package solver

import (
	"cmp"
	"context"
	"slices"

	"stweaver/ir"
)

// Core first. Where a packer is some percent off on a large problem, it is the largest
// buffers that lie badly: a few of them must tile the peak exactly, and no order of size or
// time says how. Alone they are few, and the search finds their tiling without a step back;
// the small ones then fit around it.
//
//	size  | ############               core: searched at the capacity of the bound
//	      | ####################       the next core, if the rest did not fit around it
//	      | ........................   rest: first fit, the largest first
//
// Cores are the largest 2^k buffers, with all of the smallest size among them. The whole is
// bounded by the live peak of all, not by that of the core: so the core has room that the
// rest will need, and the capacity is that of the whole.

const (
	leastCore = 256
	mostCore  = 32 << 10
	leastTurn = 4096 // nodes of one order: enough to refute a small core
)

// coreFirst tries cores of growing size, until a layout is no higher than goal units or
// the nodes, of which it may take that many, are used up.
func (c *climb) coreFirst(ctx context.Context, goal, nodes int64) {
	p := c.p
	if p.pinned {
		return
	}
	end := c.nodes + nodes
	order := make([]int32, len(p.items))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(p.items[b].size, p.items[a].size) })
	done := 0
	for k := c.least; k <= mostCore && k <= len(order)*3/4; k *= 2 {
		n := k
		for n < len(order) && p.items[order[n]].size == p.items[order[n-1]].size {
			n++
		}
		if n == done || n > len(order)*7/8 {
			continue
		}
		done = n
		spans := int64(0)
		for _, i := range order[:n] {
			spans += int64(p.items[i].sections())
		}
		if spans > mostSpans {
			return
		}
		core := slices.Clone(order[:n])
		slices.Sort(core)
		a := newAttack(p, question{capacity: goal, on: c.on}, core, nil)
		for _, by := range orders {
			limit := min(max(2*int64(a.n), leastTurn), end-c.nodes)
			if limit <= 0 && a.n > 0 || ctx.Err() != nil {
				return
			}
			v, t := a.turn(ctx, by, limit)
			c.tally.add(t)
			if v == refuted { // and so is the whole
				c.low = max(c.low, goal+1)
				return
			}
			if v != fits {
				continue
			}
			offsets, peak := p.roundCore(a.layout(), order[n:], min(c.high-1, 1<<62))
			c.take(offsets, peak)
			if c.high <= goal {
				return
			}
			break
		}
	}
}

// roundCore places the rest around the core, in the given order. It gives up above most.
func (p *part) roundCore(offsets []int64, rest []int32, most int64) ([]int64, int64) {
	peak := int64(0)
	for i, off := range offsets {
		if off != free {
			peak = max(peak, off+p.items[i].size)
		}
	}
	f := newFiller(p, offsets)
	for _, i := range rest {
		if peak = max(peak, f.fill(i)); peak > most {
			return nil, 1<<63 - 1
		}
	}
	return offsets, peak
}

// CoreFirst searches for places of the largest buffers under the bound, and packs the rest
// around them; within o.Nodes, for each part of the problem as Solve finds them. It reports
// whether that gave a layout, lower than o.Incumbent if there is one.
func CoreFirst(ctx context.Context, buffers []ir.Buffer, horizon ir.Tick, o Options) (ir.Layout, bool) {
	o.SAT, o.Decide = false, false
	before := ir.Bytes(1<<63 - 1)
	if o.Incumbent != nil {
		before = o.Incumbent.Peak
	}
	o.coreOnly = true
	r := Solve(ctx, buffers, horizon, o)
	return r.Layout, r.Layout.Offsets != nil && r.Layout.Peak < before
}
