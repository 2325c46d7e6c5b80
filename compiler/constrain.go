package compiler

import (
	"context"
	"fmt"
	"slices"

	"stweaver/ir"
)

// Constraining turns rules about selections into constraints on buffers. A selection is a set of requests;
// a buffer belongs to it if one of the requests that it stands for does:
//
//	requests     3  17  31 |  45  59  73          17, 45 taken
//	entries      e3 e17 e31 |  template entry t0   e17 (prologue), t0 in every copy of the loop
//	buffers      b2  b9     |  b40                  b9, b40
//
// Rules whose buffers are held in the loop anew in each iteration that it has (unrolled copies) bind each
// copy by itself where order matters (together).

// runConstrain attaches the constraints to the problem.
func (c *Compiled) runConstrain(context.Context) error {
	rules := &c.options.Rules
	cons := &ir.Constraints{}
	for i := range rules.List {
		if err := c.constrain(cons, ir.RuleID(i), &rules.List[i]); err != nil {
			return err
		}
	}
	if cons.Empty() {
		return nil
	}
	c.Problem.Constraints = cons
	if err := c.Problem.Check(); err != nil {
		panic(fmt.Sprintf("BUG: constrain: %v", err))
	}
	return nil
}

// constrain adds what one rule asks for.
func (c *Compiled) constrain(cons *ir.Constraints, id ir.RuleID, r *ir.Rule) error {
	switch r.Kind {
	case ir.RuleCapacity:
		cons.Capacity, cons.CapacityRule = c.wholePages(r.Max), id
		return nil
	case ir.RuleAlign:
		if r.Max > ir.Align && len(c.Problem.Buffers) > 0 {
			cons.Alignments = append(cons.Alignments, ir.Alignment{Rule: id, Bytes: r.Max, Buffers: everyBuffer(c.Problem)})
		}
		return nil
	case ir.RulePin, ir.RuleArena, ir.RuleTogether, ir.RuleApart, ir.RuleKeep, ir.RuleGuard:
	default:
		return nil // settled before, or after
	}
	buffers := c.buffersOf(r.Of...)
	if len(buffers) == 0 {
		c.ruleNote(fmt.Sprintf("%s: takes nothing that is planned", c.options.Rules.Origin(int(id))))
		return nil
	}
	switch r.Kind {
	case ir.RulePin:
		cons.Pins = append(cons.Pins, ir.Pin{Rule: id, Lo: r.From, Hi: max(r.To, 0), Buffers: buffers})
	case ir.RuleArena:
		cons.Regions = append(cons.Regions, ir.Region{Rule: id, Size: r.Max, Piece: r.Piece, Buffers: buffers})
	case ir.RuleTogether:
		for _, list := range c.byCopy(buffers) {
			cons.Together = append(cons.Together, ir.Together{Rule: id, Buffers: list})
		}
	case ir.RuleApart:
		return c.apart(cons, id, r, buffers)
	case ir.RuleKeep:
		cons.Keeps = append(cons.Keeps, ir.Keep{Rule: id, Buffers: buffers})
	case ir.RuleGuard:
		cons.Guards = append(cons.Guards, ir.Guard{Rule: id, Ticks: r.Ticks, Buffers: buffers})
	}
	return nil
}

// apart keeps selections from sharing addresses, or the buffers of one.
func (c *Compiled) apart(cons *ir.Constraints, id ir.RuleID, r *ir.Rule, all []ir.BufferID) error {
	a := ir.Apart{Rule: id}
	if len(r.Of) == 1 {
		for _, b := range all {
			a.Sets = append(a.Sets, []ir.BufferID{b})
		}
		cons.Apart = append(cons.Apart, a)
		return nil
	}
	in := make(map[ir.BufferID]int)
	for n, s := range r.Of {
		set := c.buffersOf(s)
		for _, b := range set {
			if _, twice := in[b]; twice {
				return &InfeasibleError{Msg: fmt.Sprintf("%s: buffer %d (%s) is in two of the selections, and cannot lie apart from itself",
					c.options.Rules.Origin(int(id)), b, Size(c.Problem.Buffers[b].Size))}
			}
			in[b] = n
		}
		if len(set) > 0 {
			a.Sets = append(a.Sets, set)
		}
	}
	cons.Apart = append(cons.Apart, a)
	return nil
}

// buffersOf lists the buffers of selections, ascending, each once.
func (c *Compiled) buffersOf(selections ...int) []ir.BufferID {
	var out []ir.BufferID
	for _, s := range selections {
		for _, k := range c.entriesOf(s) {
			if b := c.Problem.Entries[k].Buffer; b != ir.NoBuffer {
				out = append(out, b)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// byCopy cuts buffers into those that start in the prologue and those of each copy of the loop.
func (c *Compiled) byCopy(buffers []ir.BufferID) [][]ir.BufferID {
	p := c.Problem
	of := func(id ir.BufferID) ir.Tick {
		start := p.Buffers[id].Start
		if start < p.L0 || p.Unroll < 2 {
			return min(start-p.L0, 0)
		}
		return (start - p.L0) / ((p.L1 - p.L0) / ir.Tick(p.Unroll))
	}
	if p.Unroll > 0 {
		prologue := slices.IndexFunc(buffers, func(id ir.BufferID) bool { return p.Buffers[id].Start >= p.L0 })
		if prologue < 0 {
			prologue = len(buffers)
		}
		out := [][]ir.BufferID{}
		if prologue > 0 {
			out = append(out, buffers[:prologue])
		}
		for rest := buffers[prologue:]; len(rest) > 0; {
			n := slices.IndexFunc(rest, func(id ir.BufferID) bool { return of(id) != of(rest[0]) })
			if n < 0 {
				n = len(rest)
			}
			out, rest = append(out, rest[:n]), rest[n:]
		}
		return out
	}
	return [][]ir.BufferID{buffers}
}

func everyBuffer(p *ir.Problem) []ir.BufferID {
	out := make([]ir.BufferID, len(p.Buffers))
	for i := range out {
		out[i] = ir.BufferID(i)
	}
	return out
}

// wholePages is the most of limit that a plan may take, which takes whole pages of the device.
func (c *Compiled) wholePages(limit ir.Bytes) ir.Bytes {
	if g := c.options.Rules.Granularity; g > 0 {
		limit -= limit % g
	}
	return limit
}
