package compiler_test

import (
	"context"
	"testing"

	"stweaver/compiler"
	"stweaver/internal/testkit"
)

// What varies is planned where it varies together: recordings of programs whose batches differ in length or number give
// plans with which nothing more is reserved than lives, and where sizes vary each for itself (MoE) they stay dynamic. The heap alone
// takes 1.4 to 12 % more than lives.
func TestVarying(t *testing.T) {
	cases := []struct {
		trainer, scenario, holds string
		over                     float64 // most that plan and heap reserve in rehearsal, of what lives
	}{
		{"dense", "short batch", "largest", 1.001},
		{"dense", "half the micro-batches", "optional", 1.001},
		{"dense", "three times the micro-batches", "optional", 1.001},
		{"dense", "sequences vary", "largest", 1.001},
		{"dense", "longer sequences", "largest", 1.001},
		{"dense", "evaluation, longer", "optional", 1.001},
		{"recompute", "short batch", "largest", 1.001},
		{"recompute", "three times the micro-batches", "optional", 1.001},
		{"pipeline", "shorter sequences", "largest", 1.069}, // as its usual steps: two streams, stacked
		{"moe", "half the micro-batches", "optional", 1.006},
		{"moe", "steady", "all", 1.006},
	}
	for _, want := range cases {
		t.Run(want.trainer+", "+want.scenario, func(t *testing.T) {
			for _, sc := range testkit.Scenarios() {
				if sc.Trainer != want.trainer || sc.Name != want.scenario {
					continue
				}
				c, err := compiler.Compile(context.Background(), sc.Play(testkit.Trainers()[sc.Trainer]).Trace(), compiler.Options{Effort: compiler.Fast})
				if err != nil {
					t.Fatal(err)
				}
				r := c.Rehearsal
				if over := float64(r.Kept()) / float64(r.Live); r.Holds != want.holds || over > want.over || r.Kept() > r.Heap {
					t.Errorf("it holds %s, %.4f of what lives, the heap alone %.4f", r.Holds, over, float64(r.Heap)/float64(r.Live))
				}
				var dynamic int
				replayHits(t, c, writtenPlan(t, c), want.trainer != "moe", &dynamic)
				return
			}
			t.Fatal("no such scenario")
		})
	}
}
