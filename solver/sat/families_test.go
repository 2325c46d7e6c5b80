package sat

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stweaver/internal/testkit"
)

// Family (b): no slack, six live at most, load 30 to 100. Some have their optimum at the load, most above it. The order
// encoding closes all of them; orientation must never disagree. -v prints who needed how much.
func TestConstantLoad(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%4s %4s  %-28s %-28s\n", "n", "gaps", "order: no, yes, clauses", "orientation: no, yes, clauses")
	for _, n := range []int{30, 40, 60, 80, 120, 160, 240} {
		d := testkit.Rand(n)
		gaps := 0
		var score [2]struct{ no, yes, clauses int64 }
		sets := 8
		if n > 60 || testing.Short() {
			sets = 3
		}
		for range sets {
			arcs, length := constantLoad(&d, n, 30+int64(d.Below(71)))
			in, base := fromArcs(arcs, length), load(arcs, length)
			_, peak, bound, _ := Minimise(in, base, 2*base, Budget{Seconds: 60})
			if peak != bound {
				t.Fatalf("%d buffers: not closed: %d to %d", n, bound, peak)
			}
			if peak > base {
				gaps++
			}
			for k, by := range deciders[1:] {
				limit := Budget{Seconds: 60}
				if by.name == "orientation" {
					limit.Seconds = 0.3
				}
				below, at := by.decide(in, peak-1, limit), by.decide(in, peak, limit)
				sound(t, in, peak-1, below)
				sound(t, in, peak, at)
				if below.Verdict == Feasible || at.Verdict == Infeasible || k == 0 && (below.Verdict == Unknown || at.Verdict == Unknown) {
					t.Fatalf("%d buffers, %s: %v below the optimum %d, %v at it", n, by.name, below.Verdict, peak, at.Verdict)
				}
				if below.Verdict == Infeasible {
					score[k].no++
				}
				if at.Verdict == Feasible {
					score[k].yes++
				}
				score[k].clauses += below.Clauses + at.Clauses
			}
		}
		fmt.Fprintf(&table, "%4d %2d/%d  ", n, gaps, sets)
		for _, s := range score {
			fmt.Fprintf(&table, "%d/%d, %d/%d, %-16d ", s.no, sets, s.yes, sets, s.clauses/int64(2*sets))
		}
		table.WriteString("\n")
	}
	t.Log("\n" + table.String())
}

// Families (a) and (c): windows of the MiniMalloc sets at their own load, all feasible. A window may be too hard; it may
// never be refuted.
func TestWindows(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds of time-outs")
	}
	var table strings.Builder
	for _, n := range []int{20, 40, 60} {
		var yes [2]int
		var clauses [2]int64
		for _, set := range "ABCDEFGHIJK" {
			arcs, length := data(t, fmt.Sprintf("minimalloc/%c.1048576.csv", set))
			arcs, length = window(arcs, length, length/3, n)
			in := fromArcs(arcs, length)
			for k, by := range deciders[1:] {
				a := by.decide(in, load(arcs, length), Budget{Seconds: 0.25})
				sound(t, in, load(arcs, length), a)
				if a.Verdict == Infeasible {
					t.Errorf("%c, %d buffers: %s refuted a window that fits", set, len(arcs), by.name)
				}
				if a.Verdict == Feasible {
					yes[k]++
				}
				clauses[k] += a.Clauses / 11
			}
		}
		fmt.Fprintf(&table, "%4d: order %2d/11, %d clauses; orientation %2d/11, %d clauses\n", n, yes[0], clauses[0], yes[1], clauses[1])
	}
	t.Log("\n" + table.String())
}

// Family (d): two sizes in a sliding chain, the optimum 4.9 % above the load. It is closed to the byte.
func TestSlidingChain(t *testing.T) {
	arcs, length := data(t, "pytorch/octree_infer_small.csv")
	in, base := fromArcs(arcs, length), load(arcs, length)
	offsets, peak, bound, verdicts := Minimise(in, base, 2*base, Budget{Seconds: 60})
	if peak != bound {
		t.Fatalf("not closed: %d to %d after %d steps", bound, peak, len(verdicts))
	}
	if err := Check(in, peak, offsets); err != nil {
		t.Fatal(err)
	}
	low := LowerBound(in, base, peak, Budget{Seconds: 60})
	if low.Value != peak || low.Kind != "proved" {
		t.Errorf("bound %d (%s), height %d", low.Value, low.Kind, peak)
	}
	t.Logf("load %d, optimum %d (%.5f), %d steps, core of %d", base, peak, float64(peak)/float64(base), len(verdicts), len(low.Core))
}

// With residents, transients and twins the reductions have something to do at sizes brute force cannot reach: what they
// decide must not differ from what the encodings say without them, where those say anything in time.
func TestReductionsAgree(t *testing.T) {
	d := testkit.Rand(7)
	removed, said, silent := 0, 0, 0
	for k := range 40 {
		arcs, length := constantLoad(&d, 12+d.Below(8), 16+int64(d.Below(12)))
		for range 2 + d.Below(4) { // residents, long ones and short ones, with repeats
			s := d.Below(length)
			a := arc{s, s + 1 + d.Below(length-s), 1 + int64(d.Below(9))}
			if d.Below(2) == 0 {
				a.start, a.end = 0, length
			}
			arcs = append(arcs, a)
			if d.Below(3) == 0 {
				arcs = append(arcs, a)
			}
		}
		if k%3 == 2 { // some wrap
			for v := range arcs {
				if d.Below(4) == 0 {
					turn := d.Below(length)
					arcs[v].start += turn
					arcs[v].end += turn
				}
			}
		}
		in := fromArcs(arcs, length)
		base := load(arcs, length)
		_, peak, bound, _ := Minimise(in, base, 3*base, Budget{Seconds: 30})
		if peak != bound {
			t.Fatalf("case %d: not closed: %d to %d", k, bound, peak)
		}
		for _, capacity := range []int64{peak - 1, peak} {
			if capacity < base {
				continue // a pigeon-hole principle, which the encodings alone cannot refute
			}
			for _, off := range []switches{1<<allSwitches - 1, offStack, offPeel | offHide, 1<<allSwitches - 1 - offStack, 1<<allSwitches - 1 - offHide} {
				s := newSession(Budget{Seconds: 0.2}, orderOnly)
				s.off = off
				a := s.decide(in, capacity)
				sound(t, in, capacity, a)
				if a.Verdict == Unknown {
					silent++
					continue
				}
				said++
				if (a.Verdict == Feasible) != (capacity == peak) {
					t.Fatalf("case %d, off %b: %v at %d, optimum %d: %+v", k, off, a.Verdict, capacity, peak, in)
				}
			}
		}
		g := newGraph(in)
		all := make([]int32, len(arcs))
		for v := range all {
			all[v] = int32(v)
		}
		removed += len(reduce(g, all, 0, peak, 1, newScratch(len(all)), 0).log)
	}
	t.Logf("%d buffers removed, %d answers, %d time-outs", removed, said, silent)
	if removed == 0 || said < silent {
		t.Error("the test does not reach what it is for")
	}
}

// Rounded sizes: down refutes, up fits, and neither ever the wrong way round.
func TestRounded(t *testing.T) {
	d := testkit.Rand(10)
	by := map[string]int{}
	for k := range 12 {
		arcs, length := constantLoad(&d, 30, 600)
		in := fromArcs(arcs, length)
		if k%4 == 3 { // a few stay where they are in some layout
			a := DecideOrder(in, 900, Budget{})
			in.Fixed = slices.Repeat([]int64{-1}, len(arcs))
			for range 3 {
				v := d.Below(len(arcs))
				in.Fixed[v] = a.Offsets[v]
			}
		}
		_, peak, bound, _ := Minimise(in, load(arcs, length), 1800, Budget{Seconds: 30})
		if peak != bound {
			t.Fatalf("case %d: not closed: %d to %d", k, bound, peak)
		}
		g := newGraph(in)
		all := make([]int32, len(arcs))
		for v := range all {
			all[v] = int32(v)
		}
		for _, capacity := range []int64{peak - 20, peak - 1, peak, peak + 20} {
			for _, f := range []int64{2, 3, 7} {
				s := newSession(Budget{Seconds: 5}, auto)
				c := newCore(g, all, 0, capacity, 1, newScratch(len(all)))
				verdict, offsets := s.rounded(c, f, s.deadline)
				if verdict == Feasible {
					if err := Check(in, capacity, offsets); err != nil {
						t.Fatalf("case %d, %d by %d: %v", k, capacity, f, err)
					}
				}
				if verdict == Infeasible && capacity >= peak {
					t.Fatalf("case %d, %d by %d: refuted at %d or above", k, capacity, f, peak)
				}
				by[fmt.Sprint(s.answer.Encoding, " ", verdict)]++
			}
		}
	}
	t.Log(by)
	if by["order, rounded down infeasible"] == 0 || by["order, rounded up feasible"] == 0 {
		t.Error("the test does not reach both ways")
	}
}

// Sizes of odd bytes and gigabyte units: too many candidates for the order encoding, so rounding and orientation
// take turns. What they say must agree with the order encoding of the same instance in coarse units.
func TestTurns(t *testing.T) {
	d := testkit.Rand(8)
	by := map[string]int{}
	for k := range 12 {
		arcs, length := constantLoad(&d, 24, 60)
		in := fromArcs(arcs, length)
		base := load(arcs, length)
		_, peak, bound, _ := Minimise(in, base, 2*base, Budget{Seconds: 30})
		if peak != bound {
			t.Fatalf("case %d: not closed", k)
		}
		// A unit of a prime and a byte less than it fits: the same answers at u*C + u - 1.
		const u = 1_000_003
		big := Instance{Sizes: slices.Clone(in.Sizes), Conflicts: in.Conflicts}
		for v := range big.Sizes {
			big.Sizes[v] = big.Sizes[v]*u - int64(d.Below(1000))
		}
		for _, capacity := range []int64{(peak-1)*u - 200_000, peak * u} {
			a := Decide(big, capacity, Budget{MaxClauses: 3000, Seconds: 20})
			sound(t, big, capacity, a)
			by[fmt.Sprint(a.Encoding, " ", a.Verdict)]++
			if want := capacity == peak*u; a.Verdict != Unknown && (a.Verdict == Feasible) != want {
				t.Fatalf("case %d: %v at %d of %d units", k, a.Verdict, capacity, peak*u)
			}
		}
	}
	t.Log(by)
}

// A decided answer is the same however often and whenever it is asked.
func TestSameAnswer(t *testing.T) {
	d := testkit.Rand(9)
	for range 3 {
		arcs, length := constantLoad(&d, 50, 50)
		in, base := fromArcs(arcs, length), load(arcs, length)
		for _, by := range deciders {
			for capacity := base; capacity < base+3; capacity++ {
				var first Answer
				for k, seconds := range []float64{30, 60, 45} {
					a := by.decide(in, capacity, Budget{Seconds: seconds})
					if k == 0 {
						first = a
					}
					if a.Verdict == Unknown || a.Verdict != first.Verdict || !slices.Equal(a.Offsets, first.Offsets) || a.Clauses != first.Clauses {
						t.Fatalf("%s at %d: %+v, then %+v", by.name, capacity, first, a)
					}
				}
			}
		}
	}
}

// A budget too small for anything is an Unknown, not an answer and not a hang.
func TestBudget(t *testing.T) {
	arcs, length := constantLoad(new(testkit.Rand), 200, 90)
	in, base := fromArcs(arcs, length), load(arcs, length)
	for _, b := range []Budget{{MaxClauses: 10}, {MaxClauses: 1000, Seconds: 0.05}, {Seconds: 1e-9}} {
		for _, by := range deciders {
			begin := time.Now()
			a := by.decide(in, base, b)
			sound(t, in, base, a)
			if a.Verdict == Feasible {
				t.Errorf("%s with %+v: %+v", by.name, b, a)
			}
			if took := time.Since(begin); took > 10*time.Second && b.Seconds > 0 {
				t.Errorf("%s with %+v took %v", by.name, b, took)
			}
		}
		if low := LowerBound(in, base, 2*base, b); low.Value < base {
			t.Errorf("bound %+v", low)
		}
		if offsets, peak, bound, _ := Minimise(in, base, 2*base, b); bound > peak || offsets != nil && Check(in, peak, offsets) != nil {
			t.Errorf("minimise: %d to %d", bound, peak)
		}
	}
}
