package compiler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"stweaver/ir"
)

// What rules make of requests before anything is placed: treat … as. It works on the lowered problem:
//
//	dynamic     the entry loses its buffer
//	static      an entry that varies gets one, of the largest size seen, for the longest life seen
//	persistent  the buffer is held from its start to the end, and through the whole loop if it starts there
//	ignore      the requests are taken out before the iterations are aligned: the plan does not know them
//
// What the runtime is told of an entry's life stays what was seen: it says when the program frees, and that
// does not change.

// ruledOut takes ignored requests out of the trace; false where there are none.
func (c *Compiled) ruledOut() bool {
	ignored := newBitset(len(c.Trace.Requests))
	found := false
	for _, r := range c.options.Rules.List {
		if r.Kind != ir.RuleTreat || r.As != ir.AsIgnored {
			continue
		}
		for _, s := range r.Of {
			for i, w := range c.selected[s] {
				ignored[i] |= w
				found = found || w != 0
			}
		}
	}
	if !found {
		return false
	}
	t := *c.Trace
	t.Requests = slices.Clone(t.Requests)
	for i := range t.Requests {
		if ignored.has(i) {
			t.Requests[i].Flags |= ir.Ignored
		}
	}
	c.Trace = &t
	return true
}

// selectRequests evaluates the selections, once, and lowers again where requests are to be ignored.
func (c *Compiled) selectRequests(ctx context.Context) error {
	rules := &c.options.Rules
	if c.selected != nil || len(rules.Selections) == 0 {
		return nil
	}
	v := c.evaluator()
	for i := range rules.Selections {
		v.selection(i)
	}
	c.selected = v.sets
	c.emptySelections()
	if !c.ruledOut() {
		return nil
	}
	if c.template != nil { // of the same iterations: what they are does not depend on what is ignored
		from, to := c.options.From, c.options.To
		c.options.From, c.options.To = c.template.FirstStep, c.template.LastStep
		err := c.runKinds(ctx)
		c.options.From, c.options.To = from, to
		if err != nil {
			return err
		}
	}
	c.lower()
	return nil
}

// treatments are what rules make of each entry; 0: nothing. The first rule that takes an entry counts; that
// another one takes it for something else is noted.
func (c *Compiled) treatments() []ir.Treatment {
	var out []ir.Treatment
	for i, r := range c.options.Rules.List {
		if r.Kind != ir.RuleTreat || r.As == ir.AsIgnored {
			continue
		}
		if out == nil {
			out = make([]ir.Treatment, len(c.Problem.Entries))
		}
		late := 0
		for _, s := range r.Of {
			for _, k := range c.entriesOf(s) {
				if out[k] == 0 {
					out[k] = r.As
				} else if out[k] != r.As {
					late++
				}
			}
		}
		if late > 0 {
			c.ruleNote(fmt.Sprintf("R052: %s: %d of its entries are treated otherwise by a rule before it, which counts", c.options.Rules.Origin(i), late))
		}
	}
	return out
}

// entriesOf lists the entries of which the selection takes an instance, ascending.
func (c *Compiled) entriesOf(selection int) []int {
	set := c.selected[selection]
	var out []int
	for k, r := range c.mapping.prologue {
		if set.has(int(r)) {
			out = append(out, k)
		}
	}
	if c.mapping.tmpl == nil {
		return out
	}
	n := len(c.mapping.tmpl.Entries)
	taken := make([]bool, n)
	for _, member := range c.mapping.tmpl.Member {
		for k, r := range member {
			taken[k] = taken[k] || r != NoRequest && set.has(int(r))
		}
	}
	for i := range c.mapping.unroll {
		for k := range taken {
			if taken[k] {
				out = append(out, int(c.Problem.L0)+i*n+k)
			}
		}
	}
	return out
}

// ordered reports whether a rule wants something to have an address: a plan that loses does not shrink then.
func (c *Compiled) ordered() bool {
	return slices.ContainsFunc(c.options.Rules.List, func(r ir.Rule) bool {
		return r.Kind == ir.RuleTreat && (r.As == ir.AsStatic || r.As == ir.AsPersistent) && len(c.buffersOf(r.Of...)) > 0
	})
}

// treat applies the treatments to the problem.
func (c *Compiled) treat() {
	as := c.treatments()
	if as == nil {
		return
	}
	p := c.Problem
	dead := make([]bool, len(p.Buffers))
	var refused int
	for k, how := range as {
		e := &p.Entries[k]
		switch how {
		case ir.AsDynamic:
			if e.Buffer != ir.NoBuffer {
				dead[e.Buffer] = true
			}
		case ir.AsStatic, ir.AsPersistent:
			if e.Buffer == ir.NoBuffer {
				if !c.enlarge(k) {
					refused++
					continue
				}
				dead = append(dead, false)
			}
			if how == ir.AsPersistent {
				hold(&p.Buffers[e.Buffer], p)
				e.Kind = ir.Persistent
			}
		}
	}
	if refused > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d entries are to be static, but their instances outlive %d iterations: they stay dynamic", refused, p.Unroll))
	}
	for id := range dead {
		if dead[id] {
			p.Buffers[id].Size = 0
		}
	}
	renumber(p, func(b *ir.Buffer) bool { return b.Size > 0 })
}

// enlarge gives entry k, which is dynamic and the loop's, a buffer; false where loopBuffer has none.
func (c *Compiled) enlarge(k int) bool {
	p, kind := c.Problem, ir.Scoped
	te := &c.template.Entries[(k-int(p.L0))%len(c.template.Entries)]
	switch life := ir.Tick(te.Life); {
	case ir.Tick(k)+life > p.L1:
		kind = ir.Carried
	case life <= transientLife:
		kind = ir.Transient
	}
	b, ok := loopBuffer(p, te, ir.Tick(k), kind)
	if ok {
		p.Entries[k].Buffer, p.Entries[k].Kind = ir.BufferID(len(p.Buffers)), kind
		p.Buffers = append(p.Buffers, b)
	}
	return ok
}

// hold makes b live to the end and, where it starts in the loop, all around it.
func hold(b *ir.Buffer, p *ir.Problem) {
	b.Kind, b.End = ir.Persistent, p.L1
	if b.Start > p.L0 && p.L1 > p.L0 {
		if !b.HasHead() {
			b.HeadStart = p.L0
		}
		b.HeadEnd = b.Start
	}
}

// renumber drops buffers that are not kept and puts the rest into the order of P5. Entries without a
// buffer are dynamic.
func renumber(p *ir.Problem, keep func(*ir.Buffer) bool) {
	order := make([]ir.BufferID, 0, len(p.Buffers))
	number := make([]ir.BufferID, len(p.Buffers))
	for i := range p.Buffers {
		if number[i] = ir.NoBuffer; keep(&p.Buffers[i]) {
			order = append(order, ir.BufferID(i))
		}
	}
	slices.SortStableFunc(order, func(a, b ir.BufferID) int { return cmp.Compare(p.Buffers[a].Start, p.Buffers[b].Start) })
	buffers := make([]ir.Buffer, len(order))
	for n, id := range order {
		number[id], buffers[n] = ir.BufferID(n), p.Buffers[id]
	}
	p.Buffers = buffers
	for k := range p.Entries {
		e := &p.Entries[k]
		if e.Buffer == ir.NoBuffer {
			continue
		}
		if e.Buffer = number[e.Buffer]; e.Buffer == ir.NoBuffer {
			e.Kind = ir.Dynamic
		}
	}
}
