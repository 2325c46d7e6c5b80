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
// Where order matters (together, pin at) the prologue and each copy of an unrolled loop are bound by themselves.

// runConstrain attaches the constraints to the problem.
func (c *Compiled) runConstrain(context.Context) error {
	cons, err := c.constraints()
	if err != nil || cons.Empty() {
		return err
	}
	c.Problem.Constraints = cons
	if err := c.Problem.Check(); err != nil {
		panic(fmt.Sprintf("BUG: constrain: %v", err))
	}
	return nil
}

// constraints is what the rules ask of the buffers of the problem. The error is an *InfeasibleError: a rule
// asks for what cannot be, whatever the layout.
func (c *Compiled) constraints() (*ir.Constraints, error) {
	rules := &c.options.Rules
	cons := &ir.Constraints{}
	for i := range rules.List {
		if err := c.constrain(cons, ir.RuleID(i), &rules.List[i]); err != nil {
			return nil, err
		}
	}
	c.keepStreamsApart(cons)
	return cons, nil
}

// sharedByRule is how streams share where a rule says so; else as asked.
func sharedByRule(rules *ir.Rules, asked ir.Sharing) ir.Sharing {
	for i := range rules.List {
		if r := &rules.List[i]; r.Kind == ir.RuleShare {
			age := r.Age
			if age < 0 {
				age = DefaultAge
			}
			asked = ir.Sharing{On: true, Age: max(asked.Age, age)}
		}
	}
	return asked
}

// keepStreamsApart adds what holds streams apart that rules do not let share, where others share: the arena is
// one then, and each group of streams that share has addresses of its own.
//
//	share streams 0, 1        groups {0, 1} {2} {3}: no address is used by two of them
func (c *Compiled) keepStreamsApart(cons *ir.Constraints) {
	if !c.options.Sharing.On {
		return
	}
	group := make([]int, len(c.Problem.Streams)) // by stream: the least of those that it shares with
	for s := range group {
		group[s] = s
	}
	id, said := ir.NoRule, false
	for i, r := range c.options.Rules.List {
		switch {
		case r.Kind == ir.RuleShare:
			said = true
			if len(r.Streams) == 0 {
				for s := range group {
					group[s] = 0
				}
				continue
			}
			id = ir.RuleID(i)
			least := slices.Min(r.Streams)
			for _, s := range r.Streams {
				if int(s) < len(group) {
					group[s] = int(least)
				}
			}
		case r.Kind == ir.RuleSeparate:
			said = true
		}
	}
	for i, r := range c.options.Rules.List {
		if r.Kind == ir.RuleSeparate {
			id = ir.RuleID(i)
			for s := range group {
				if len(r.Streams) == 0 || slices.Contains(r.Streams, ir.StreamID(s)) {
					group[s] = s
				}
			}
		}
	}
	if !said {
		return
	}
	sets := make([][]ir.BufferID, len(group))
	for i := range c.Problem.Buffers {
		g := group[c.Problem.Buffers[i].Stream]
		sets[g] = append(sets[g], ir.BufferID(i))
	}
	sets = slices.DeleteFunc(sets, func(s []ir.BufferID) bool { return len(s) == 0 })
	if len(sets) > 1 {
		cons.Apart = append(cons.Apart, ir.Apart{Rule: id, Sets: sets})
	}
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
		lists := [][]ir.BufferID{buffers}
		if r.To == ir.NoOffset {
			lists = c.byCopy(buffers)
		}
		for _, list := range lists {
			cons.Pins = append(cons.Pins, ir.Pin{Rule: id, Lo: r.From, Hi: max(r.To, 0), Buffers: list})
		}
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
				return &InfeasibleError{Msg: fmt.Sprintf("a buffer of %s is in two of the selections that are to lie apart", Size(c.Problem.Buffers[b].Size)),
					Rules: []ir.RuleID{id}}
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

// byCopy cuts buffers, ascending, into those that start in the prologue and those of each copy of the loop.
func (c *Compiled) byCopy(buffers []ir.BufferID) [][]ir.BufferID {
	p := c.Problem
	of := func(id ir.BufferID) ir.Tick {
		start := p.Buffers[id].Start
		if start < p.L0 || p.Unroll == 0 {
			return -1
		}
		return (start - p.L0) / ((p.L1 - p.L0) / ir.Tick(p.Unroll))
	}
	var out [][]ir.BufferID
	for i, id := range buffers {
		if i == 0 || of(id) != of(buffers[i-1]) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], id)
	}
	return out
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
