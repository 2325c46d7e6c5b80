package compiler

import (
	"fmt"

	"stweaver/ir"
)

// ExpectError says that a plan is not what the rules expect. CLI exit code 5.
type ExpectError struct{ Failures []string } // a sentence each; at least one

func (e *ExpectError) Error() string {
	return fmt.Sprintf("compiler: the plan is not what the rules expect: %s", e.Failures[0])
}

// expect compares the plan with what rules expect of it. Hits are for a replay to judge.
func (c *Compiled) expect() error {
	var failed []string
	for i := range c.options.Rules.List {
		r := &c.options.Rules.List[i]
		if r.Kind != ir.RuleExpect || r.Measure == ir.MeasureHits {
			continue
		}
		if msg := Unmet(&c.options.Rules, i, c.measure(r.Measure)); msg != "" {
			failed = append(failed, msg)
		}
	}
	if len(failed) > 0 {
		return &ExpectError{failed}
	}
	return nil
}

// Unmet says how a measured value misses what rule i, a RuleExpect, says of it; "" where it does not.
func Unmet(rules *ir.Rules, i int, got float64) string {
	r := &rules.List[i]
	if r.AtLeast && got >= r.Limit || !r.AtLeast && got <= r.Limit {
		return ""
	}
	text := fmt.Sprintf("%.4g %%", 100*got)
	if r.Measure == ir.MeasurePeak {
		text = Size(ir.Bytes(got))
	}
	return fmt.Sprintf("%s: it is %s", rules.Origin(i), text)
}

// measure is what a rule can expect of a plan.
func (c *Compiled) measure(m ir.Measure) float64 {
	switch m {
	case ir.MeasurePeak:
		return float64(c.Arena())
	case ir.MeasureGap:
		if bound := c.Bound(); bound > 0 {
			return float64(c.Arena())/float64(bound) - 1
		}
		return 0
	}
	var dynamic, all ir.Bytes
	from := c.Problem.L0
	if from == c.Problem.L1 {
		from = 0 // one pass
	}
	for k := from; k < c.Problem.L1; k++ {
		e := &c.Problem.Entries[k]
		if all += e.MaxSize; e.Buffer == ir.NoBuffer {
			dynamic += e.MaxSize
		}
	}
	return float64(dynamic) / float64(max(all, 1))
}
