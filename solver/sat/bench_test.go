package sat

import (
	"fmt"
	"testing"

	"stweaver/internal/testkit"
)

// BenchmarkConstantLoad refutes the capacity below the optimum and meets the optimum, by encoding and size.
func BenchmarkConstantLoad(b *testing.B) {
	for _, n := range []int{40, 80, 160, 240} {
		d := testkit.Rand(n)
		arcs, length := constantLoad(&d, n, 60)
		in, base := fromArcs(arcs, length), load(arcs, length)
		_, peak, bound, _ := Minimise(in, base, 2*base, Budget{Seconds: 60})
		if peak != bound {
			b.Fatalf("%d buffers: not closed", n)
		}
		for _, by := range deciders[1:] {
			for _, capacity := range []int64{peak - 1, peak} {
				b.Run(fmt.Sprintf("n=%d/%s/%+d", n, by.name, capacity-peak), func(b *testing.B) {
					var clauses, rounds, open int64
					for b.Loop() {
						a := by.decide(in, capacity, Budget{Seconds: 5})
						clauses, rounds = a.Clauses, a.Rounds
						if a.Verdict == Unknown {
							open++
						}
					}
					b.ReportMetric(float64(clauses), "clauses")
					b.ReportMetric(float64(rounds), "rounds")
					b.ReportMetric(float64(open)/float64(b.N), "unknown")
				})
			}
		}
	}
}

// BenchmarkMinimise closes instances from load to optimum.
func BenchmarkMinimise(b *testing.B) {
	run := func(name string, arcs []arc, length int) {
		in, base := fromArcs(arcs, length), load(arcs, length)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var steps, clauses, gap int64
			for b.Loop() {
				_, peak, bound, verdicts := Minimise(in, base, 2*base, Budget{Seconds: 10})
				steps, gap = int64(len(verdicts)), peak-bound
				clauses = verdicts[len(verdicts)-1].Clauses
			}
			b.ReportMetric(float64(steps), "steps")
			b.ReportMetric(float64(clauses), "clauses")
			b.ReportMetric(float64(gap), "gap")
		})
	}
	for _, n := range []int{60, 120, 240} {
		d := testkit.Rand(n)
		arcs, length := constantLoad(&d, n, 60)
		run(fmt.Sprintf("constant-load/n=%d", n), arcs, length)
	}
	arcs, length := data(b, "pytorch/octree_infer_small.csv")
	run("octree_infer_small", arcs, length)
}

// BenchmarkLowerBound finds the core that proves the optimum of the sliding chain.
func BenchmarkLowerBound(b *testing.B) {
	arcs, length := data(b, "pytorch/octree_infer_small.csv")
	in, base := fromArcs(arcs, length), load(arcs, length)
	_, peak, _, _ := Minimise(in, base, 2*base, Budget{Seconds: 30})
	var core int
	for b.Loop() {
		low := LowerBound(in, base, peak, Budget{Seconds: 30})
		if low.Value != peak {
			b.Fatalf("bound %d, optimum %d", low.Value, peak)
		}
		core = len(low.Core)
	}
	b.ReportMetric(float64(core), "core")
}
