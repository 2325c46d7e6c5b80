package compiler_test

import (
	"context"
	"fmt"
	"testing"

	"stweaver/compiler"
	"stweaver/internal/testkit"
)

// TestScenariosAsProfiles records every scenario, odd steps and all, and plans from that: the compiler takes it,
// the plan verifies (Compile does that), and its program, played with it, gets no memory that is in use and
// reserves no more than with the heap alone.
func TestScenariosAsProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles some forty programs")
	}
	for _, sc := range testkit.Scenarios() {
		if sc.Spec != "" {
			continue
		}
		p := sc.Play(testkit.Trainers()[sc.Trainer])
		c, err := compiler.Compile(context.Background(), p.Trace(), compiler.Options{Effort: compiler.Fast})
		if err != nil {
			t.Errorf("%s, %s: %v", sc.Trainer, sc.Name, err)
			continue
		}
		s := scriptOf(t, &sc, p, true)
		o, err := play(s, compiler.ModelPlan(c.Plan), memories[0], nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		h, err := play(s, nil, memories[0], nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if o.overlaps > 0 {
			t.Errorf("%s, %s: %d overlaps", sc.Trainer, sc.Name, o.overlaps)
		}
		if over := 100 * (float64(o.stats.PeakReservedBytes)/float64(h.stats.PeakReservedBytes) - 1); over > tolerance {
			t.Errorf("%s, %s: with the plan made from it the program reserves %.1f %% more than the heap alone", sc.Trainer, sc.Name, over)
		}
		t.Logf("%s, %s: %d steps from %q; holds %v; hits %d conflicts %d dynamic %d unknown %d of %d; over heap %.1f %%", sc.Trainer, sc.Name, c.Steps.N(), c.Steps.Source, holds(c),
			o.stats.Hits, o.stats.Conflicts, o.stats.Dynamic, o.stats.Unknown, o.stats.Requests, 100*(float64(o.stats.PeakReservedBytes)/float64(h.stats.PeakReservedBytes)-1))
	}
}

func holds(c *compiler.Compiled) string {
	if c.Rehearsal == nil {
		return "all, unrehearsed"
	}
	return fmt.Sprintf("%s, rehearsed %.1f %% over", c.Rehearsal.Holds, 100*(float64(c.Rehearsal.Kept())/float64(c.Rehearsal.Heap)-1))
}
