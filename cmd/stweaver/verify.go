package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/lang"
)

type verifyOutput struct {
	OK         bool                 `json:"ok"`
	Violations []string             `json:"violations"`
	Buffers    int                  `json:"buffers"`
	Requests   int                  `json:"requests"`
	Rules      *compiler.RuleReport `json:"rules,omitempty"`
}

func verifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify PLAN IN",
		Short: "Prove that a plan is valid for a profile",
		Long: `verify reads the plan as the runtime would and judges it twice: the layout against the
buffers (no two alive at one time share an address, streams apart, within the arena), and
the addresses against the recorded events themselves, over several iterations.`,
		Args: args(2, "a plan and a profile"),
		RunE: func(cmd *cobra.Command, in []string) error {
			plan, _, err := a.readPlan(in[0])
			if err != nil {
				return err
			}
			c, out, err := a.against(cmd, plan, in[0], in[1])
			if err != nil {
				return err
			}
			if c != nil {
				judge(c, plan, out)
			}
			out.OK = len(out.Violations) == 0
			if a.json {
				err = a.printJSON(out)
			} else {
				for _, v := range out.Violations {
					fmt.Fprintln(a.stdout, v)
				}
				if out.OK {
					fmt.Fprintf(a.stdout, "ok: %d buffers, and %d requests executed on the recorded events\n", out.Buffers, out.Requests)
					if out.Rules != nil {
						fmt.Fprintf(a.stdout, "    it obeys %d statements of rules (%.12s)\n", len(out.Rules.Statements), out.Rules.Digest)
					}
				}
			}
			if err == nil && !out.OK {
				return &checkError{fmt.Sprintf("%s is not a valid plan for %s", in[0], in[1])}
			}
			return err
		},
	}
}

// against reads profile in as the plan did. A profile that is not the plan's is a violation,
// and c is nil.
func (a *app) against(cmd *cobra.Command, plan *ir.Plan, planName, in string) (*compiler.Compiled, *verifyOutput, error) {
	rules, err := lang.Restore(plan)
	if err != nil {
		return nil, nil, &inputError{named(planName, err)}
	}
	out := &verifyOutput{Violations: []string{}, Rules: compiler.ReportRules(rules)}
	t, err := a.readFor(in, rules)
	if err != nil {
		return nil, nil, err
	}
	if t.Digest() != plan.Profile {
		out.Violations = append(out.Violations, fmt.Sprintf("%s was made from another profile than %s", planName, in))
		return nil, out, nil
	}
	o, err := compiler.OptionsOf(plan, *rules)
	if err != nil {
		return nil, nil, &inputError{named(planName, err)}
	}
	c, err := compiler.Analyse(cmd.Context(), t, o)
	if err != nil {
		return nil, nil, named(in, err)
	}
	return c, out, nil
}

func judge(c *compiler.Compiled, plan *ir.Plan, out *verifyOutput) {
	layout, err := plan.LayoutOf(c.Problem)
	if err != nil {
		out.Violations = append(out.Violations, err.Error())
		return
	}
	for _, v := range slices.Concat(ir.Verify(c.Problem, &ir.Rules{Capacity: plan.Capacity}, layout), ir.VerifyKept(c.Problem, layout, plan)) {
		out.Violations = append(out.Violations, v.String())
	}
	placed, violations, err := c.VerifyEvents(plan)
	if err != nil {
		out.Violations = append(out.Violations, err.Error())
	}
	for _, v := range violations {
		out.Violations = append(out.Violations, v.String())
	}
	out.Buffers, out.Requests = len(c.Problem.Buffers), placed
}
