package compiler

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"stweaver/ir"
	"stweaver/lang"
)

func (c *Compiled) runSteps(context.Context) error {
	if c.options.OnePass {
		c.Steps = &Steps{Source: SourceOnePass}
		return nil
	}
	for _, n := range c.Trace.Notes {
		if n.Level == ir.Bad {
			return &StepsError{Reason: n.Text, Hint: "record again from the start of the process"}
		}
	}
	find := func() (*Steps, error) { return FindSteps(c.Trace) }
	if c.options.Rules.Step.On() {
		find = c.stepsByRule
	}
	s, err := find()
	if err != nil {
		return err
	}
	c.Steps = s
	c.Notes = append(c.Notes, s.Notes...)
	return nil
}

func (c *Compiled) runKinds(context.Context) error {
	if c.Steps.N() == 0 {
		if c.options.To != 0 {
			return &StepsError{Reason: "the profile has no iterations to choose from", Hint: "leave out --steps"}
		}
		return nil
	}
	from, to := -1, -1
	if c.options.From != 0 || c.options.To != 0 {
		from, to = c.options.From, c.options.To
		if from < 0 || to <= from || to > c.Steps.N() {
			return &StepsError{Reason: fmt.Sprintf("--steps %d:%d: the profile has iterations 0 to %d", from, to, c.Steps.N()-1),
				Hint: "give a range A:B inside them, counted from 0, B excluded"}
		}
	}
	tmpl, err := BuildTemplate(c.Trace, c.Steps, from, to)
	if err != nil {
		return err
	}
	c.template = tmpl
	c.Notes = append(c.Notes, tmpl.Notes...)
	return nil
}

func (c *Compiled) runLower(ctx context.Context) error {
	c.lower()
	if err := c.selectRequests(ctx); err != nil {
		return err
	}
	if keep := c.options.Keep; keep == keepOptional || keep == keepLargest {
		c.enlargeAll(keep == keepLargest)
	}
	c.treat()
	switch c.options.Keep {
	case keepPersistent:
		renumber(c.Problem, func(b *ir.Buffer) bool { return b.Kind == ir.Persistent })
	case keepNothing:
		renumber(c.Problem, func(*ir.Buffer) bool { return false })
	}
	if err := c.Problem.Check(); err != nil {
		panic(fmt.Sprintf("BUG: lower: %v", err))
	}
	return nil
}

func (c *Compiled) lower() {
	c.Problem, c.mapping = lowerProblem(c.Trace, c.template, c.options.Sharing)
}

// runVerify is never skipped. What it finds is our mistake, not the user's.
func (c *Compiled) runVerify(context.Context) error {
	if v := ir.Verify(c.Problem, &c.options.Rules, c.Layout); len(v) > 0 {
		panic(fmt.Sprintf("BUG: the layout is invalid: %v", v[0]))
	}
	c.makePlan()
	if v := ir.VerifyKept(c.Problem, c.Layout, c.Plan); len(v) > 0 {
		panic(fmt.Sprintf("BUG: the plan lends what rules keep: %v", v[0]))
	}
	placed, v, err := c.VerifyEvents(c.Plan)
	if err != nil {
		return err
	}
	if len(v) > 0 {
		panic(fmt.Sprintf("BUG: the plan collides on the recorded events: %v", v[0]))
	}
	c.Verified = Verification{Buffers: len(c.Problem.Buffers), Replayed: placed}
	return nil
}

// makePlan writes the layout as a plan.
func (c *Compiled) makePlan() {
	lists, listOf := future(c.Problem, c.Layout)
	c.Plan = ir.NewPlan(c.Problem, c.Layout, c.Streams, lists, listOf)
	c.Plan.Slots = append(c.Plan.Slots, c.reserveSlots()...)
	c.Plan.Slots = append(c.Plan.Slots, c.keptSlots()...)
	c.Plan.Arena = c.Arena()
	if s := c.options.Sharing; s.On {
		c.Plan.SharedAge = uint32(1 + s.Age)
	}
}

// VerifyEvents executes plan on the recorded events: every steady iteration, and every seam
// between the last and the first, twice.
func (c *Compiled) VerifyEvents(plan *ir.Plan) (placed int, v []ir.Violation, err error) {
	n := 2
	if c.template != nil {
		n = 2*len(c.template.Windows)*c.Problem.Unroll + 1
	}
	w, err := c.Workload(WorkloadOptions{Iterations: n})
	if err != nil {
		return 0, nil, err
	}
	placed, v = VerifyWorkload(w, plan)
	return placed, v, nil
}

func (c *Compiled) runEmit(context.Context) error {
	if err := c.expect(); err != nil {
		return err
	}
	c.Plan.Profile = c.digest
	c.Plan.Capacity = c.options.Rules.Capacity
	c.Plan.Bound = c.Bound()
	var method []string
	for _, s := range c.Packs {
		method = append(method, s.Packer)
	}
	c.Plan.Info = []ir.Fact{
		{Key: "version", Value: Version},
		{Key: "profile-format", Value: c.Trace.Format},
		{Key: "steps-source", Value: c.Steps.Source},
		{Key: "steps", Value: fmt.Sprintf("%d:%d", c.Problem.FirstStep, c.Problem.LastStep)},
		{Key: "one-pass", Value: fmt.Sprint(c.options.OnePass)},
		{Key: "kept", Value: cmp.Or(c.options.Keep, keepAll)},
		{Key: "unroll", Value: fmt.Sprint(c.Problem.Unroll)},
		{Key: "streams", Value: SharingText(c.options.Sharing)},
		{Key: "effort", Value: string(c.options.Effort)},
		{Key: "method", Value: strings.Join(method, ", ")},
		{Key: "proved", Value: fmt.Sprint(c.Arena() == c.Bound())},
	}
	if n := c.options.Rules.Headroom; n > 0 {
		c.Plan.Info = append(c.Plan.Info, ir.Fact{Key: "headroom", Value: fmt.Sprint(n)})
	}
	if r := c.options.Rules.Reserve; r.On() {
		c.Plan.Info = append(c.Plan.Info, ir.Fact{Key: "reserve", Value: fmt.Sprintf("%d bytes: quantile %g, headroom %g, cap %d", c.reserved(), r.Quantile, r.Headroom, r.Cap)})
	}
	if rules := &c.options.Rules; len(rules.Statements) > 0 {
		c.Plan.Info = append(c.Plan.Info, ir.Fact{Key: "rules-digest", Value: fmt.Sprintf("%x", rules.Digest())})
		c.Plan.Info = append(c.Plan.Info, lang.Facts(rules)...)
	}
	if c.ruled() {
		for _, r := range c.regionParts() {
			c.Plan.Info = append(c.Plan.Info, ir.Fact{Key: "region", Value: fmt.Sprintf("[%d, %d): %s", r.Begin, r.End, r.Text)})
		}
	}
	if c.Interrupted {
		c.Plan.Info = append(c.Plan.Info, ir.Fact{Key: "interrupted", Value: "true"})
		c.Notes = append(c.Notes, "the search was interrupted: the plan holds the best layout found until then")
	}
	return nil
}

func (c *Compiled) dumpSteps(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "steps n=%d first=%d source=%q\n", c.Steps.N(), c.Steps.First, c.Steps.Source)
	for i := range c.Steps.N() {
		fmt.Fprintf(b, "step %d [%d,%d)\n", i, c.Steps.Cuts[i], c.Steps.Cuts[i+1])
	}
	for _, n := range c.Steps.Notes {
		fmt.Fprintf(b, "note %q\n", n)
	}
	fmt.Fprintln(b, "end steps")
	return b.Flush()
}

func (c *Compiled) dumpKinds(w io.Writer) error {
	b := bufio.NewWriter(w)
	if c.template == nil {
		fmt.Fprintln(b, "template none\nend template")
		return b.Flush()
	}
	fmt.Fprintf(b, "template entries=%d steps=%d:%d\n", len(c.template.Entries), c.template.FirstStep, c.template.LastStep)
	for k, e := range c.template.Entries {
		fmt.Fprintf(b, "entry %d sizes=%d..%d life=%d nf=%d..%d stream=%d kind=%v optional=%t firm=%t members=", k,
			e.MinSize, e.MaxSize, e.Life, e.NfMin, e.NfMax, e.Stream, e.Kind, e.Optional, e.Firm)
		for w := range c.template.Member {
			if w > 0 {
				fmt.Fprint(b, ",")
			}
			if r := c.template.Member[w][k]; r == NoRequest {
				fmt.Fprint(b, "-")
			} else {
				fmt.Fprint(b, r)
			}
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b, "end template")
	return b.Flush()
}

func (c *Compiled) dumpProblem(w io.Writer) error { return c.Problem.WriteText(w, c.Layout) }
func (c *Compiled) dumpPlan(w io.Writer) error    { return c.Plan.WriteText(w) }
