package sat

import (
	"fmt"
	"testing"

	"stweaver/internal/testkit"
)

// Brute force knows the least height of tiny instances: every encoding must say yes from there up and
// no below, at every capacity.
func TestTiny(t *testing.T) {
	d := testkit.Rand(1)
	for k := range 1500 {
		n := 1 + d.Below(6)
		in := randomInstance(&d, n, 5, k%2 == 1, k%3 == 2)
		opt := optimum(in)
		var sum int64
		for _, s := range in.Sizes {
			sum += s
		}
		for capacity := int64(-1); capacity <= sum+6; capacity++ {
			want := Infeasible
			if opt >= 0 && capacity >= opt {
				want = Feasible
			}
			for _, by := range deciders {
				a := by.decide(in, capacity, Budget{})
				sound(t, in, capacity, a)
				if a.Verdict != want {
					t.Fatalf("case %d, %s: %v at %d, optimum %d: %+v", k, by.name, a.Verdict, capacity, opt, in)
				}
			}
		}
	}
}

// On larger instances the encodings must agree with each other, and a found height with itself.
func TestAgree(t *testing.T) {
	d := testkit.Rand(2)
	solved := map[string]int{}
	for k := range 300 {
		in := randomInstance(&d, 7+d.Below(8), 9, k%2 == 1, k%5 == 4)
		top := int64(0)
		for _, s := range in.Sizes {
			top += s
		}
		first := int64(-1)
		for capacity := top / 4; capacity <= top; capacity++ {
			a := DecideOrder(in, capacity, Budget{})
			b := DecideOrientation(in, capacity, Budget{})
			c := Decide(in, capacity, Budget{})
			for _, x := range []Answer{a, b, c} {
				sound(t, in, capacity, x)
				solved[fmt.Sprint(x.Encoding, " ", x.Verdict)]++
			}
			if a.Verdict != b.Verdict || a.Verdict != c.Verdict || a.Verdict == Unknown {
				t.Fatalf("case %d at %d: order %v, orientation %v, both %v: %+v", k, capacity, a.Verdict, b.Verdict, c.Verdict, in)
			}
			if a.Verdict == Feasible && first < 0 {
				first = capacity
			}
			if a.Verdict == Infeasible && first >= 0 {
				t.Fatalf("case %d: feasible at %d, not at %d", k, first, capacity)
			}
			if first >= 0 && capacity > first+3 {
				break
			}
		}
	}
	t.Log(solved)
	for _, want := range []string{"order feasible", "order infeasible", "orientation feasible", "orientation infeasible", "clique infeasible", "reduction feasible"} {
		if solved[want] == 0 {
			t.Errorf("no case was %q: the test does not reach it", want)
		}
	}
}
