package solver

import (
	"fmt"
	"testing"
	"time"

	"stweaver/internal/testkit"
	"stweaver/ir"
	"stweaver/solver/sat"
)

// The search and SAT fail on opposite inputs. BenchmarkOpposites shows it on two families:
//
//	constant load  no slack, and most need more than their live peak: who refutes one unit less than
//	               the optimum, who finds the optimum
//	windows        cut from the MiniMalloc instances, at their live peak, all feasible: who finds
//
// It reports the instances solved by each, and the seconds for all of a row.
//
//	go test -run - -bench Opposites -benchtime 1x ./solver
func BenchmarkOpposites(b *testing.B) {
	for _, n := range []int{30, 40, 60, 80, 120, 160, 240} {
		b.Run(fmt.Sprintf("constant-load/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				r := testkit.Rand(n)
				const sets = 8
				below, at := contest{}, contest{}
				gaps := 0
				for range sets {
					buffers, h := testkit.ConstantLoad(&r, n, 30+int64(r.Below(71)))
					in, load := satInstance(buffers)
					_, peak, bound, _ := sat.Minimise(in, load, 2*load, sat.Budget{Seconds: 60})
					if peak != bound {
						b.Fatal("the family is not closed")
					}
					if peak > load {
						gaps++
						below.run(b, buffers, h, in, peak-1, sat.Infeasible)
					}
					at.run(b, buffers, h, in, peak, sat.Feasible)
				}
				b.ReportMetric(sets, "sets")
				b.ReportMetric(float64(gaps), "above-load")
				below.report(b, "refuted")
				at.report(b, "found")
			}
		})
	}
	for _, n := range []int{20, 40, 60, 80, 100, 140} {
		b.Run(fmt.Sprintf("windows/n=%d", n), func(b *testing.B) {
			for b.Loop() {
				found := contest{}
				for _, c := range hard {
					buffers, h := readCSV(b, "minimalloc/"+c.name+".1048576.csv")
					buffers = window(buffers, h/3, n)
					in, load := satInstance(buffers)
					found.run(b, buffers, h, in, load, sat.Feasible)
				}
				b.ReportMetric(float64(len(hard)), "sets")
				found.report(b, "found")
			}
		})
	}
}

// contest counts who decided what.
type contest struct {
	nodes   int64
	solved  [3]int // by search, order encoding, orientation encoding
	seconds [3]float64
}

const contestNodes = 300_000

var contestBudget = sat.Budget{Seconds: 2}

// run puts one question to all three: is there a layout of capacity units? want is the truth.
func (c *contest) run(b *testing.B, buffers []ir.Buffer, h ir.Tick, in sat.Instance, capacity int64, want sat.Verdict) {
	b.Helper()
	began := time.Now()
	r := Solve(background, buffers, h, Options{Nodes: contestNodes, Capacity: ir.Bytes(capacity) * ir.Align, Decide: true, Workers: 1})
	c.seconds[0] += time.Since(began).Seconds()
	c.nodes += r.Nodes
	verdict := sat.Unknown
	switch r.Status {
	case Feasible, Optimal:
		verdict = sat.Feasible
	case Infeasible:
		verdict = sat.Infeasible
	}
	verdicts := []sat.Verdict{verdict}
	for k, decide := range []func(sat.Instance, int64, sat.Budget) sat.Answer{sat.DecideOrder, sat.DecideOrientation} {
		began := time.Now()
		verdicts = append(verdicts, decide(in, capacity, contestBudget).Verdict)
		c.seconds[1+k] += time.Since(began).Seconds()
	}
	for k, v := range verdicts {
		switch v {
		case want:
			c.solved[k]++
		case sat.Unknown:
		default:
			b.Fatalf("%d buffers, capacity %d: %v, want %v", len(buffers), capacity, v, want)
		}
	}
}

func (c *contest) report(b *testing.B, verb string) {
	for k, who := range []string{"search", "order", "orientation"} {
		b.ReportMetric(float64(c.solved[k]), who+"-"+verb)
		b.ReportMetric(c.seconds[k], who+"-"+verb+"-s")
	}
	b.ReportMetric(float64(c.nodes), "nodes-"+verb)
}

// satInstance writes buffers as sizes in units of ir.Align and conflicts; load is the live peak in units.
func satInstance(buffers []ir.Buffer) (in sat.Instance, load int64) {
	in.Sizes = make([]int64, len(buffers))
	for i := range buffers {
		in.Sizes[i] = int64(buffers[i].Size / ir.Align)
	}
	for i := range buffers {
		live := int64(0)
		for j := range buffers {
			if buffers[j].Start <= buffers[i].Start && buffers[i].Start < buffers[j].End {
				live += in.Sizes[j]
			}
			if i < j && alive(&buffers[i], &buffers[j]) {
				in.Conflicts = append(in.Conflicts, [2]int32{int32(i), int32(j)})
			}
		}
		load = max(load, live)
	}
	return in, load
}

// window cuts the n buffers around a time out: those that live nearest to it, with lifetimes clipped to
// the window they span, less what lives through all of it.
func window(buffers []ir.Buffer, at ir.Tick, n int) []ir.Buffer {
	lo, hi := at, at
	in := func() (out []ir.Buffer) {
		for _, b := range buffers {
			b.Start, b.End = max(b.Start, lo), min(b.End, hi)
			if b.Start < b.End && !(b.Start == lo && b.End == hi) {
				out = append(out, b)
			}
		}
		return out
	}
	for len(in()) < n && hi < at+1<<20 {
		if lo > 0 {
			lo--
		}
		hi++
	}
	return in()
}
