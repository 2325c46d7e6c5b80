package compiler

import (
	"fmt"
	"slices"

	"stweaver/ir"
)

// stepsByRule cuts the trace where a rule says that iterations begin. A rule is taken at its word: it stands
// above marks, labels and what repeats.
func (c *Compiled) stepsByRule() (*Steps, error) {
	rules := &c.options.Rules
	step, n := &rules.Step, int64(len(c.Trace.Requests))
	origin := rules.StatementOf(step.Statement)
	fail := func(format string, args ...any) error {
		return &StepsError{Reason: fmt.Sprintf("%v: %s: %s", origin.At, origin.Text, fmt.Sprintf(format, args...)),
			Hint: "requests are numbered from 0 in the order of the recording (stweaver dump)"}
	}
	var b bounds
	cut := func(request int64) {
		tick := ir.Tick(c.Trace.Events)
		if request < n {
			tick = max(c.Trace.Requests[request].Alloc, 0)
		}
		b.cuts = append(b.cuts, tick)
	}
	switch {
	case step.Where != nil:
		v := &evaluator{t: c.Trace, rules: rules}
		set := v.expr(step.Where)
		for i := range c.Trace.Requests {
			if set.has(i) && c.Trace.Requests[i].Alloc != ir.Before {
				cut(int64(i))
			}
		}
		cut(n)
		b.openEnd = true
	case step.Every > 0:
		for at := step.From; at <= n; at += step.Every {
			cut(at)
		}
	default:
		if last := step.At[len(step.At)-1]; last > n {
			return nil, fail("the profile has %d requests", n)
		}
		for _, at := range step.At {
			cut(at)
		}
	}
	b.cuts = slices.Compact(b.cuts)
	if len(b.cuts) > 1 {
		if st := b.settle(newSequence(c.Trace), "rule: "+origin.Text); st != nil {
			return st, nil
		}
	}
	return nil, fail("there is no whole iteration in the profile's %d requests", n)
}
