package compiler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
	"stweaver/lang"
)

// drawRules draws a program of selections and rules about them; capacities and windows are generous more
// often than not.
func drawRules(t *rapid.T) string {
	var b strings.Builder
	n := rapid.IntRange(1, 3).Draw(t, "selections")
	for i := range n {
		fmt.Fprintf(&b, "select s%d where %s\n", i, rapid.SampledFrom(append([]string{
			"kind = persistent", "kind in scoped, transient and loop", "kind = dynamic", "kind = carried", "kind != dynamic and size <= 8KiB", "loop", "prologue",
		}, conditions...)).Draw(t, "condition"))
	}
	for range rapid.IntRange(1, 4).Draw(t, "rules") {
		s := fmt.Sprintf("s%d", rapid.IntRange(0, n-1).Draw(t, "of"))
		fmt.Fprintln(&b, rapid.SampledFrom([]string{
			"pin " + s + " at 64KiB", "pin " + s + " within 0B..4MiB", "arena " + s, "arena " + s + " max 1MiB piece 64KiB", "together " + s, "apart " + s, "keep " + s,
			"guard " + s + " 2 ticks", "guard 1 ticks", "treat " + s + " as dynamic", "treat " + s + " as static", "treat " + s + " as persistent", "treat " + s + " as ignore",
			"share streams age 3", "separate streams 1", "expect gap <= 90%", "reserve dynamic quantile 50%", "device { alignment 1KiB }", "device { capacity 8MiB }", "solver { effort fast }",
		}).Draw(t, "rule"))
	}
	return b.String()
}

// UnderRules counts what became of drawn rules.
type UnderRules struct{ Plans, Bound, Refused int }

// Check holds that plans were made and bound, or the test shows nothing.
func (u *UnderRules) Check(t *testing.T) {
	t.Logf("%d plans, %d under constraints, %d refused", u.Plans, u.Bound, u.Refused)
	if !testing.Short() && (u.Plans < 10 || u.Bound < 5) { // a short run draws too few
		t.Error("too few: the test shows nothing")
	}
}

// Compile plans tr under drawn rules. Whatever they ask: the compile ends with a plan that both judges pass, or
// says why there is none; and a plan is judged the same by the rules that are read back from it.
func (u *UnderRules) Compile(t *rapid.T, tr *ir.Trace) {
	p := lang.Parse("x.rules", drawRules(t), nil)
	if p.Err() != nil {
		return // drawn rules may contradict each other, or set something twice
	}
	c, err := Compile(context.Background(), tr, Options{Rules: p.Rules, Effort: Fast})
	var steps *StepsError
	var infeasible *InfeasibleError
	var unmet *ExpectError
	switch {
	case errors.As(err, &infeasible):
		if len(infeasible.Rules) == 0 && !strings.Contains(infeasible.Msg, "no layout") {
			t.Fatalf("nobody is to blame: %v", err)
		}
		u.Refused++
		return
	case errors.As(err, &steps), errors.As(err, &unmet):
		return
	case err != nil:
		t.Fatal(err)
	}
	data, err := ir.EncodePlan(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := ir.DecodePlan(data)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := lang.Restore(plan)
	if err != nil {
		t.Fatal(err)
	}
	o, err := OptionsOf(plan, *rules)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Analyse(context.Background(), tr, o)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := plan.LayoutOf(again.Problem)
	if err != nil {
		t.Fatalf("%v\n%v\n%v", err, p.Rules.Statements, plan.Info)
	}
	if v := ir.Verify(again.Problem, nil, layout); len(v) > 0 {
		t.Fatalf("%v\n%s", v[0], p.Rules.Statements)
	}
	if _, v, err := again.VerifyEvents(plan); err != nil || len(v) > 0 {
		t.Fatal(v, err)
	}
	u.Plans++
	if !again.Problem.Constraints.Empty() {
		u.Bound++
	}
}

// On traces that no program would make.
func TestOddTracesUnderRules(t *testing.T) {
	var u UnderRules
	rapid.Check(t, func(t *rapid.T) { u.Compile(t, randomTrace(t)) })
	u.Check(t)
}

// A plan that says it obeys rules is judged by them: facts of rules that its layout breaks are found out.
func TestRulesOfAPlanAreJudged(t *testing.T) {
	tr := load(t, "torchcpu/gpt2_dense.txt.gz")
	plain, err := Compile(context.Background(), tr, Options{Effort: Fast})
	if err != nil {
		t.Fatal(err)
	}
	const sets = "select weights where kind = persistent\nselect acts where kind = scoped and loop and size >= 1MiB\nselect rest where not kind = persistent and loop\n"
	for broken, rule := range map[string]string{
		"R1": "pin weights at 4GiB", "R2": "arena acts", "R3": "together acts", "R4": "apart acts, (rest and not acts)", "R5": "keep acts",
		"R6": "guard 64 ticks", "R7": "device { alignment 2MiB }", "R8": "device { capacity 64MiB }",
	} {
		rules := parseRules(t, sets+rule)
		plan := *plain.Plan
		plan.Info = append(append([]ir.Fact{}, plan.Info...), lang.Facts(&rules)...)
		restored, err := lang.Restore(&plan)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Analyse(context.Background(), tr, Options{Rules: *restored, Keep: plan.Get("kept")})
		if err != nil {
			t.Fatal(err)
		}
		layout, err := plan.LayoutOf(c.Problem)
		if err != nil {
			t.Fatal(err)
		}
		found := ir.Verify(c.Problem, nil, layout)
		if len(found) == 0 {
			t.Errorf("%s: nobody notices", rule)
		}
		for _, v := range found {
			if v.Rule != broken || restored.List[v.Asked].Statement == ir.NoStatement {
				t.Errorf("%s: %v, asked by rule %d", rule, v, v.Asked)
			}
		}
	}
}

// Of two treatments of one request the first counts, and it is said.
func TestFirstTreatmentCounts(t *testing.T) {
	tr := load(t, "torchcpu/gpt2_dense.txt.gz")
	c, err := Analyse(context.Background(), tr, Options{Rules: parseRules(t, "treat (loop and size >= 1MiB) as dynamic\ntreat (loop) as persistent")})
	if err != nil {
		t.Fatal(err)
	}
	for k := c.Problem.L0; k < c.Problem.L1; k++ {
		e := &c.Problem.Entries[k]
		if want := e.MaxSize >= 1<<20; (e.Kind == ir.Dynamic) != want || !want && e.Kind != ir.Persistent {
			t.Fatalf("entry %d of %d bytes is %v", k, e.MaxSize, e.Kind)
		}
	}
	if len(c.RuleNotes) != 1 || !strings.Contains(c.RuleNotes[0], "R052: x.rules:2:1: treat (loop) as persistent: ") {
		t.Errorf("notes: %q", c.RuleNotes)
	}
}
