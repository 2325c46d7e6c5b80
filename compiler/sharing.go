package compiler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"stweaver/heuristics"
	"stweaver/ir"
)

// Streams that share memory (ir.Sharing). What changes where they do:
//
//   - a request ends where its free was asked for: the runtime makes the next owner wait for the
//     streams that were marked, instead of the memory (ir.Trace.Asked)
//   - all streams are packed together, into one arena that each of them may use from end to end
//   - AGE requests lie between an end and a reuse on another stream, so that the wait costs nothing
//
// Streams stacked apart are a layout as well, and a large AGE can leave nothing better: then the plan is that one.

// DefaultAge is the AGE of --streams shared: two or three layers of a transformer, by which time what
// the old stream had queued is done.
const DefaultAge ir.Tick = 500

// boundHeld is the kind of a bound that counts the requests for which deferred frees keep their own stream away.
const boundHeld = "live peak with deferred frees held"

// SharingText is the value of --streams that asks for s.
func SharingText(s ir.Sharing) string {
	if !s.On {
		return "apart"
	}
	return fmt.Sprintf("shared:%d", s.Age)
}

// SharingOf is what a plan was made with.
func SharingOf(p *ir.Plan) ir.Sharing {
	if p.SharedAge == 0 {
		return ir.Sharing{}
	}
	return ir.Sharing{On: true, Age: ir.Tick(p.SharedAge - 1)}
}

// together is the one share of all streams.
func together(p *ir.Problem) share {
	s := share{buffers: p.Buffers, ids: make([]ir.BufferID, len(p.Buffers)), streams: make([]ir.StreamID, len(p.Streams))}
	for i := range s.ids {
		s.ids[i] = ir.BufferID(i)
	}
	for i := range s.streams {
		s.streams[i] = ir.StreamID(i)
	}
	return s
}

// terms are those on which buffers share addresses; nil where only lifetimes matter.
func (c *Compiled) terms(buffers []ir.Buffer) *heuristics.Shared {
	s := c.options.Sharing
	if !s.On || len(buffers) == 0 || !slices.ContainsFunc(buffers, func(b ir.Buffer) bool { return b.Waits(buffers[0].Stream) }) {
		return nil
	}
	return &heuristics.Shared{Age: s.Age, Loop: c.Problem.L0}
}

// orApart stacks the streams' own layouts and keeps that where it is lower. Rules may tie what lies on different
// streams, so it is not tried under them.
func (c *Compiled) orApart(search context.Context, sp *StreamPack) error {
	least := ir.Bytes(0)
	for _, peak := range c.Problem.StreamPeaks() {
		least += peak
	}
	if len(c.Problem.Streams) < 2 || sp.Peak <= least || search.Err() != nil || c.ruled() {
		return nil
	}
	one := &c.shares[0]
	l := ir.Layout{Offsets: make([]ir.Offset, len(one.ids))}
	var methods []string
	parts := shares(c.Problem)
	for k := range parts {
		if len(parts[k].ids) == 0 {
			continue
		}
		own, err := c.packShare(search, &parts[k])
		if err != nil {
			return err
		}
		methods = append(methods, own.Packer)
		for i, id := range parts[k].ids {
			l.Offsets[id] = ir.Offset(l.Peak) + parts[k].layout.Offsets[i]
		}
		l.Peak += own.Peak
	}
	if l.Peak < sp.Peak {
		one.layout, sp.Peak, sp.Packer = l, l.Peak, "apart: "+strings.Join(methods, ", ")
	}
	return nil
}
