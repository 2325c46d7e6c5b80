package compiler_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"stweaver/compiler"
	"stweaver/ir"
)

// Where dynamic requests leave a choice, the layout kept reserves no more in rehearsal than any other
// that was compared, and is as low as without the choice.
func TestChoiceOfLayouts(t *testing.T) {
	compared, mattered := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		tr := drawProgram(t)
		var peak [2]ir.Bytes
		var plan [2]ir.Bytes
		for i, effort := range []compiler.Effort{compiler.Fast, compiler.Default} {
			c, err := compiler.Compile(context.Background(), tr, compiler.Options{Effort: effort})
			if err != nil {
				t.Fatal(err)
			}
			r := c.Rehearsal
			if r == nil {
				return
			}
			if r.Plan > r.Worst || r.Plan < r.Live || r.Layouts < 1 || effort == compiler.Fast && r.Layouts != 1 {
				t.Fatalf("%s: %+v", effort, *r)
			}
			peak[i], plan[i] = c.Layout.Peak, r.Plan
			if r.Layouts > 1 {
				compared++
			}
			if r.Worst > r.Plan {
				mattered++
			}
		}
		if peak[0] == peak[1] && plan[1] > plan[0] {
			t.Fatalf("with a choice the plan reserves %d, without %d", plan[1], plan[0])
		}
	})
	if compared == 0 || mattered == 0 {
		t.Errorf("of the programs drawn %d had a choice, and for %d it mattered", compared, mattered)
	}
}

// A compile that is told to stop before it searches still makes a plan, and says what happened.
func TestStopKeepsAPlan(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	interrupted := 0
	rapid.Check(t, func(t *rapid.T) {
		tr := drawProgram(t)
		c, err := compiler.Compile(context.Background(), tr, compiler.Options{Effort: compiler.Max, Stop: stop})
		if err != nil {
			t.Fatal(err)
		}
		if v := ir.Verify(c.Problem, nil, c.Layout); len(v) > 0 {
			t.Fatal(v)
		}
		if c.Interrupted != (c.Plan.Get("interrupted") == "true") {
			t.Fatalf("interrupted %v, and the plan says %q", c.Interrupted, c.Plan.Get("interrupted"))
		}
		if c.Layout.Peak == c.Bound() && c.Interrupted {
			t.Fatal("interrupted, but there was nothing left to search")
		}
		if c.Interrupted {
			interrupted++
		}
	})
	t.Logf("%d interrupted", interrupted)
}
