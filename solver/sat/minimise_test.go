package sat

import (
	"slices"
	"testing"

	"stweaver/internal/testkit"
)

// The answer does not depend on the switches: all of them, and each alone, and each alone left on. With all off the
// encodings face what the reductions otherwise decide.
func TestSwitches(t *testing.T) {
	d := testkit.Rand(3)
	solved := map[string]int{}
	sets := []switches{0, 1<<allSwitches - 1}
	for k := range allSwitches {
		sets = append(sets, 1<<k, 1<<allSwitches-1-1<<k)
	}
	for k := range 250 {
		in := randomInstance(&d, 1+d.Below(6), 4, k%2 == 1, k%3 == 2)
		opt := optimum(in)
		if opt < 0 {
			continue
		}
		for capacity := max(0, opt-3); capacity <= opt+2; capacity++ {
			want := Infeasible
			if capacity >= opt {
				want = Feasible
			}
			for _, how := range []method{orderOnly, orientOnly} {
				for _, off := range sets {
					s := newSession(Budget{}, how)
					s.off = off
					a := s.decide(in, capacity)
					sound(t, in, capacity, a)
					if a.Verdict != want {
						t.Fatalf("case %d, method %d, off %b: %v at %d, optimum %d: %+v", k, how, off, a.Verdict, capacity, opt, in)
					}
					solved[a.Encoding+" "+a.Verdict.String()]++
				}
			}
		}
	}
	t.Log(solved)
	for _, want := range []string{"order feasible", "order infeasible", "orientation feasible", "orientation infeasible"} {
		if solved[want] < 1000 {
			t.Errorf("%q decided only %d times: the test does not reach it", want, solved[want])
		}
	}
}

// Few lives, each repeated: the rules for twins and for turning a layout over must not work against each other.
func TestTwins(t *testing.T) {
	d := testkit.Rand(6)
	for k := range 1500 {
		const length = 6
		var arcs []arc
		for len(arcs) < 5 {
			s := d.Below(length)
			a := arc{s, s + 1 + d.Below(length-s), 1 + int64(d.Below(4))}
			for range min(1+d.Below(3), 7-len(arcs)) {
				arcs = append(arcs, a)
			}
		}
		shuffle(&d, arcs)
		in := fromArcs(arcs, length)
		opt := optimum(in)
		for _, how := range []method{orderOnly, orientOnly} {
			s := newSession(Budget{}, how)
			s.off = 1<<allSwitches - 1 - offSymmetry
			if a := s.decide(in, opt); a.Verdict != Feasible {
				t.Fatalf("case %d, method %d: %v at the optimum %d: %v", k, how, a.Verdict, opt, arcs)
			}
		}
	}
}

func TestMinimiseTiny(t *testing.T) {
	d := testkit.Rand(4)
	for k := range 600 {
		in := randomInstance(&d, 1+d.Below(6), 5, k%2 == 1, k%3 == 2)
		scale := int64(1 + d.Below(3))
		for v := range in.Sizes {
			in.Sizes[v] *= scale
			if in.Fixed != nil && in.Fixed[v] > 0 {
				in.Fixed[v] *= scale
			}
		}
		opt := optimum(in)
		if opt < 0 {
			continue
		}
		upper := opt + int64(d.Below(9))
		offsets, peak, bound, verdicts := Minimise(in, int64(d.Below(int(opt)+1)), upper, Budget{})
		if peak != opt || bound != opt {
			t.Fatalf("case %d: peak %d, bound %d, optimum %d, upper %d: %+v %+v", k, peak, bound, opt, upper, in, verdicts)
		}
		if (offsets != nil) != (opt < upper) {
			t.Fatalf("case %d: offsets %v, optimum %d, upper %d", k, offsets, opt, upper)
		}
		if offsets != nil {
			if err := Check(in, opt, offsets); err != nil {
				t.Fatal(err)
			}
		}
		low := LowerBound(in, opt/2, upper, Budget{})
		if low.Value > opt || low.Value < opt/2 {
			t.Fatalf("case %d: bound %+v, optimum %d: %+v", k, low, opt, in)
		}
		if (low.Kind == "proved") != (low.Value >= upper && low.Value > opt/2) || (low.Kind == "live peak") != (low.Core == nil) {
			t.Fatalf("case %d: %+v, upper %d", k, low, upper)
		}
	}
}

// A bound's core needs the bound by itself, and a bound never passes a found height.
func TestLowerBound(t *testing.T) {
	d := testkit.Rand(5)
	raised := 0
	for k := range 40 {
		arcs, length := constantLoad(&d, 40, 30+int64(d.Below(30)))
		in := fromArcs(arcs, length)
		base := load(arcs, length)
		_, peak, bound, _ := Minimise(in, base, 2*base, Budget{Seconds: 20})
		if peak != bound {
			t.Fatalf("case %d: not closed: %d to %d", k, bound, peak)
		}
		low := LowerBound(in, base, peak, Budget{})
		if low.Value > peak {
			t.Fatalf("case %d: bound %d above the height %d", k, low.Value, peak)
		}
		if low.Value == base {
			continue
		}
		raised++
		sub := restrict(newGraph(in), low.Core)
		if a := DecideOrder(sub, low.Value-1, Budget{}); a.Verdict != Infeasible || !slices.IsSorted(low.Core) {
			t.Fatalf("case %d: the core %v of bound %d: %v below it", k, low.Core, low.Value, a.Verdict)
		}
	}
	if raised == 0 {
		t.Error("no bound was raised: the test does not reach it")
	}
	t.Logf("%d of 40 raised", raised)
}
