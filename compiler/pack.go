package compiler

import (
	"context"
	"fmt"

	"stweaver/heuristics"
	"stweaver/ir"
)

// StreamPack is how the buffers of one stream were packed.
type StreamPack struct {
	Stream  ir.StreamID
	Buffers int
	Bound   ir.Bytes // live peak of the stream's buffers
	Peak    ir.Bytes
	Packer  string // the packer that made the layout kept
	Tries   int
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
		for k, id := range ids[s] {
			c.Layout.Offsets[id] = ir.Offset(base) + r.Layout.Offsets[k]
		}
		base += r.Layout.Peak
		c.Streams[s].End = ir.Offset(base)
		c.Packs = append(c.Packs, StreamPack{Stream: ir.StreamID(s), Buffers: len(buffers), Bound: r.Bound,
			Peak: r.Layout.Peak, Packer: r.Packer, Tries: r.Tries})
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
