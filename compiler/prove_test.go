package compiler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"stweaver/compiler"
	"stweaver/internal/testkit"
	"stweaver/profile"
	"stweaver/solver"
)

// TestProve: what SAT says of small plans that are above their live peak agrees with the exhaustive
// search, and leaves the plan alone.
func TestProve(t *testing.T) {
	ctx := context.Background()
	optimal, lower := 0, 0
	for seed := range 60 {
		r := testkit.Rand(seed)
		var csv strings.Builder
		csv.WriteString("id,lower,upper,size\n")
		buffers, _ := testkit.ConstantLoad(&r, 24, 30)
		for i, b := range buffers {
			fmt.Fprintf(&csv, "%d,%d,%d,%d\n", i, b.Start, b.End, b.Size)
		}
		trace, err := profile.Read("small.csv", strings.NewReader(csv.String()), profile.Options{Device: -1})
		if err != nil {
			t.Fatal(err)
		}
		c, err := compiler.Compile(ctx, trace, compiler.Options{Effort: compiler.Fast})
		if err != nil {
			t.Fatal(err)
		}
		peak := c.Layout.Peak
		proofs := c.Prove(ctx)
		if c.Layout.Peak != peak {
			t.Fatalf("seed %d: the plan has changed", seed)
		}
		if peak == c.Bound() {
			if len(proofs) > 0 {
				t.Fatalf("seed %d: nothing was left to prove: %v", seed, proofs)
			}
			continue
		}
		exact := solver.Solve(ctx, c.Problem.Buffers, c.Problem.L1, solver.Options{Nodes: 1 << 22})
		if exact.Status != solver.Optimal || len(proofs) != 1 {
			t.Fatalf("seed %d: %v, %v", seed, exact.Status, proofs)
		}
		p, best := proofs[0], exact.Layout.Peak
		if p.Bound > best || p.Found > 0 && p.Found < best || p.Status == "optimal" && peak != best {
			t.Fatalf("seed %d: %v, the optimum is %d", seed, p, best)
		}
		if p.Status == "optimal" {
			optimal++
		}
		if p.Found > 0 {
			lower++
		}
	}
	if optimal == 0 || lower == 0 {
		t.Errorf("%d proved, %d lower layouts found: neither may be 0", optimal, lower)
	}
	t.Logf("%d proved, %d lower layouts found", optimal, lower)
}
