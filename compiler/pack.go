package compiler

import (
	"context"
	"fmt"

	"stweaver/heuristics"
	"stweaver/ir"
	"stweaver/solver"
)

// StreamPack is how the buffers of one stream were packed.
type StreamPack struct {
	Stream  ir.StreamID
	Buffers int
	Bound   ir.Bytes // no layout of the stream's buffers is below
	Kind    string   // of the bound: live peak, core, proved
	Peak    ir.Bytes
	Packer  string // the packer that made the layout kept
	Tries   int
	Nodes   int64 // of the exact search, where one was made
}

// Bound is the least any layout of the planned buffers can need while streams share nothing:
// the sum of the streams' own live peaks.
func (c *Compiled) Bound() ir.Bytes {
	var sum ir.Bytes
	for _, s := range c.Packs {
		sum += s.Bound
	}
	return sum
}

// runPack packs each stream's buffers by themselves and stacks the results: PyTorch never
// shares memory between streams, and without events at run time a plan must not either.
//
//	arena  | stream 0            | stream 1 | stream 2 |
//	       0                     begin      …          peak
func (c *Compiled) runPack(ctx context.Context) error {
	p := c.Problem
	c.Packs = nil
	c.Layout = &ir.Layout{Offsets: make([]ir.Offset, len(p.Buffers))}
	c.Streams = make([]ir.PlanStream, len(p.Streams))
	ids := make([][]ir.BufferID, len(p.Streams))
	for i := range p.Buffers {
		s := p.Buffers[i].Stream
		ids[s] = append(ids[s], ir.BufferID(i))
	}
	var base ir.Bytes
	for s := range p.Streams {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.Streams[s] = ir.PlanStream{Handle: p.Streams[s], Begin: ir.Offset(base), End: ir.Offset(base)}
		if len(ids[s]) == 0 {
			continue
		}
		buffers := make([]ir.Buffer, len(ids[s]))
		for k, id := range ids[s] {
			buffers[k] = p.Buffers[id]
		}
		o := heuristics.Options{Effort: c.options.Effort.tries()}
		if c.options.Progress != nil {
			o.Progress = func(try, tries int, best, bound ir.Bytes) { c.options.Progress("pack", try, tries, best, bound) }
		}
		r := heuristics.Pack(buffers, p.L1, o)
		sp := StreamPack{Stream: ir.StreamID(s), Buffers: len(buffers), Bound: r.Bound, Kind: solver.LivePeak, Packer: r.Packer, Tries: r.Tries}
		layout := r.Layout
		if layout.Peak > r.Bound {
			layout = c.search(ctx, buffers, layout, &sp)
		}
		sp.Peak = layout.Peak
		for k, id := range ids[s] {
			c.Layout.Offsets[id] = ir.Offset(base) + layout.Offsets[k]
		}
		base += layout.Peak
		c.Streams[s].End = ir.Offset(base)
		c.Packs = append(c.Packs, sp)
	}
	c.Layout.Peak = base
	if limit := c.options.Rules.Capacity; limit > 0 && base > limit {
		if bound := c.Bound(); bound > limit {
			return &InfeasibleError{fmt.Sprintf("the plan cannot fit: %d bytes are live at once, the capacity is %d", bound, limit)}
		}
		return &InfeasibleError{fmt.Sprintf("no layout within the capacity of %d bytes was found (best: %d, bound: %d); try --effort max", limit, base, c.Bound())}
	}
	return nil
}

// nodesOf is the budget of the exact search for n buffers whose layout is gap above a bound, in
// nodes. A node costs about as much as n. Even without nodes the layout is let fall as far as it
// goes.
func (e Effort) nodesOf(n int, gap, bound ir.Bytes) int64 {
	if e == Fast || n > exactMost || e == Default && gap <= bound/1000 {
		return 0
	}
	nodes := int64(200_000)
	if n <= exactTiny {
		nodes = 400_000
	}
	if n > exactSmall {
		nodes = min(int64(6*n), exactWork/int64(n))
	}
	if e == Max {
		nodes *= 10
	}
	return nodes
}

const (
	exactTiny  = 500         // buffers up to which a node costs some 10 µs
	exactSmall = 1_000       // buffers up to which nodes are cheap
	exactMost  = 30_000      // buffers up to which the exact search is tried
	exactWork  = 600_000_000 // nodes × buffers
)

// search tries to lower a layout by branch and bound, and to raise its bound.
func (c *Compiled) search(ctx context.Context, buffers []ir.Buffer, best ir.Layout, sp *StreamPack) ir.Layout {
	r := solver.Solve(ctx, buffers, c.Problem.L1, solver.Options{Nodes: c.options.Effort.nodesOf(len(buffers), best.Peak-sp.Bound, sp.Bound), Incumbent: &best})
	sp.Nodes = r.Nodes
	if r.Bound > sp.Bound {
		sp.Bound, sp.Kind = r.Bound, r.BoundKind
	}
	if r.Layout.Offsets != nil && r.Layout.Peak < best.Peak {
		sp.Packer = "branch and bound"
		return r.Layout
	}
	return best
}
