package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/lang"
	"stweaver/profile"
)

// loadRules reads rules files as one program. What is wrong with them goes to standard error.
func (a *app) loadRules(files []string) (ir.Rules, error) {
	if len(files) == 0 {
		return ir.Rules{}, nil
	}
	p := lang.Load(a.openRules, files...)
	fmt.Fprint(a.stderr, p.Diagnostics.String())
	return p.Rules, p.Err()
}

// flagsOver lets a flag of the command line stand above what a file says, and says so.
func (a *app) flagsOver(cmd *cobra.Command, f *compileFlags, r *ir.Rules) error {
	over := func(flag string, id ir.StatementID) {
		if id != ir.NoStatement {
			s := r.StatementOf(id)
			fmt.Fprintf(a.stderr, "stweaver: --%s stands above %v: %s\n", flag, s.At, s.Text)
			r.Forget(id)
		}
	}
	if f.capacity != "" || f.headroom != "" {
		gross, headroom := r.Capacity+r.Headroom, r.Headroom
		var err error
		if f.capacity != "" {
			if gross, err = parseSize(f.capacity); err != nil {
				return usagef("--capacity %s: %v", f.capacity, err)
			}
		}
		if f.headroom != "" {
			if headroom, err = parseSize(f.headroom); err != nil {
				return usagef("--headroom %s: %v", f.headroom, err)
			}
		}
		if headroom >= gross {
			return usagef("--headroom %s: it is taken off --capacity, which must be larger", compiler.Size(headroom))
		}
		if i := r.Find(ir.RuleCapacity); i >= 0 {
			flag := "capacity"
			if f.capacity == "" {
				flag = "headroom"
			}
			over(flag, r.List[i].Statement)
		}
		r.Capacity, r.Headroom = gross-headroom, headroom
	}
	if f.reserve != "" {
		over("reserve", r.Reserve.Statement)
		var err error
		if r.Reserve, err = parseReserve(f.reserve); err != nil {
			return usagef("--reserve %s: %v", f.reserve, err)
		}
	}
	if cmd.Flags().Changed("effort") {
		over("effort", r.EffortFrom)
	}
	if cmd.Flags().Changed("streams") {
		for _, kind := range []ir.RuleKind{ir.RuleShare, ir.RuleSeparate} {
			for i := r.Find(kind); i >= 0; i = r.Find(kind) {
				over("streams", r.List[i].Statement)
			}
		}
	}
	if f.onePass {
		over("one-pass", r.Step.Statement)
	}
	return nil
}

// readFor reads a profile with what the rules ask of it.
func (a *app) readFor(path string, r *ir.Rules) (*ir.Trace, error) {
	return a.readWith(path, profile.Options{Stacks: r.Asks(ir.FieldFrame)})
}

// rulesRow shows rules in a table for people.
func rulesRow(w *table, r *compiler.RuleReport) {
	if r == nil {
		return
	}
	w.row("rules", fmt.Sprintf("%d statements (%.12s)", len(r.Statements), r.Digest))
	for _, s := range r.Statements {
		w.row("", s)
	}
}

// blame prints which rules are the reason for an error.
func (a *app) blame(err error, r *ir.Rules) {
	var infeasible *compiler.InfeasibleError
	var unmet *compiler.ExpectError
	switch {
	case errors.As(err, &infeasible):
		for _, id := range infeasible.Rules {
			if int(id) < len(r.List) {
				fmt.Fprintf(a.stderr, "%s\n", r.Origin(int(id)))
			}
		}
	case errors.As(err, &unmet):
		for _, f := range unmet.Failures {
			fmt.Fprintf(a.stderr, "%s\n", f)
		}
	}
}
