package solver

import (
	"context"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

var background = context.Background()

// TestTiny: Solve finds what trying all layouts finds, with and without fixed buffers,
// and says what it is.
func TestTiny(t *testing.T) {
	r := testkit.Rand(2)
	for n := range 600 {
		buffers := tiny(&r, n%2 == 1)
		fixed := pin(&r, buffers)
		optimum := brute(buffers, fixed, ir.Align)
		got := Solve(background, buffers, 8, Options{Nodes: 1 << 30, Fixed: fixed})
		if got.Status != Optimal || got.Layout.Peak != optimum || got.Bound != optimum {
			t.Fatalf("%+v fixed %v: %v, peak %d, bound %d, optimum %d", buffers, fixed, got.Status, got.Layout.Peak, got.Bound, optimum)
		}
		if bad := violation(buffers, got.Layout, fixed); bad != "" {
			t.Fatal(bad)
		}
		for _, c := range []ir.Bytes{optimum - ir.Align, optimum, optimum + ir.Align} {
			if c <= 0 {
				continue
			}
			got := Solve(background, buffers, 8, Options{Nodes: 1 << 30, Fixed: fixed, Capacity: c, Decide: n%3 == 0})
			if (got.Status == Infeasible) != (c < optimum) || got.Status == Budget || got.Status == Optimal && got.Layout.Peak != optimum {
				t.Fatalf("%+v fixed %v at %d: %v, optimum %d", buffers, fixed, c, got.Status, optimum)
			}
			if got.Status == Infeasible && got.Layout.Offsets != nil {
				t.Fatal("a layout where there is none")
			}
		}
	}
}

// TestFixedClash: two fixed buffers on one address are said to be impossible; a buffer
// without time is none of it.
func TestFixedClash(t *testing.T) {
	b := []ir.Buffer{{Size: 1024, Start: 0, End: 2}, {Size: 1024, Start: 1, End: 3}}
	if r := Solve(background, b, 3, Options{Fixed: []ir.Offset{0, 512}}); r.Status != Infeasible {
		t.Errorf("%+v", r)
	}
	b[1].Start, b[1].End = 2, 3
	if r := Solve(background, b, 3, Options{Fixed: []ir.Offset{0, 512}}); r.Status != Optimal || r.Layout.Peak != 1536 {
		t.Errorf("%+v", r)
	}
	b[1].End = 2
	if r := Solve(background, b, 3, Options{}); r.Status != Optimal || r.Layout.Peak != 1024 || r.Bound != 1024 {
		t.Errorf("%+v", r)
	}
	if r := Solve(background, nil, 0, Options{}); r.Status != Optimal || r.Layout.Peak != 0 {
		t.Errorf("%+v", r)
	}
}

// TestKnownOptimum: families that fit their live peak exactly.
func TestKnownOptimum(t *testing.T) {
	missed := 0
	for seed := range uint64(80) {
		b, h, height := testkit.Rectangle(seed, 14+int(seed%20), 40, 30)
		r := Solve(background, b, h, Options{Nodes: 200_000})
		if r.Bound != height || r.Layout.Peak < height {
			t.Errorf("rectangle %d: %v, bound %d, peak %d, optimum %d", seed, r.Status, r.Bound, r.Layout.Peak, height)
		}
		if r.Status != Optimal {
			missed++
		}
	}
	if missed > 8 {
		t.Errorf("%d of 80 rectangles missed", missed)
	}
	for seed := range uint64(12) {
		b, h := testkit.Nested(seed, 300, 64)
		if r := Solve(background, b, h, Options{Nodes: 2000}); r.Status != Optimal {
			t.Errorf("nested %d: %v", seed, r.Status)
		}
		b, h = testkit.Pipeline(seed, testkit.Schedule{Layers: 4, Micro: 6, Warm: 3, Iterations: 1, Uneven: seed%2 == 0})
		if r := Solve(background, b, h, Options{Nodes: 40_000}); float64(r.Layout.Peak) > 1.0001*float64(r.Bound) {
			t.Errorf("pipeline %d: %v, %d over %d", seed, r.Status, r.Layout.Peak, r.Bound)
		}
	}
}

// drawn is a problem with or without heads.
func drawn(t *rapid.T) ([]ir.Buffer, ir.Tick) {
	seed := rapid.Uint64().Draw(t, "seed")
	n := rapid.IntRange(1, 60).Draw(t, "n")
	if rapid.Bool().Draw(t, "loop") {
		b, _, h := testkit.Loop(seed, n+8, rapid.IntRange(1, 40).Draw(t, "most"), 4)
		return b, h
	}
	return testkit.Random(seed, n, rapid.IntRange(1, 40).Draw(t, "most"), rapid.IntRange(1, 30).Draw(t, "life"))
}

// TestProperties: a result is valid, not under its bound and not over its incumbent; the
// workers do not change it; a second call can start from it.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, h := drawn(t)
		off := Switches(rapid.Uint32().Draw(t, "off")) & AllSwitches
		o := Options{Nodes: rapid.Int64Range(0, 3000).Draw(t, "nodes"), Off: off, Workers: 1}
		one := Solve(background, b, h, o)
		if bad := violation(b, one.Layout, nil); bad != "" {
			t.Fatal(bad)
		}
		if one.Layout.Peak < one.Bound || (one.Status == Optimal) != (one.Layout.Peak == one.Bound) || one.Nodes > o.Nodes {
			t.Fatalf("%+v", one)
		}
		o.Workers = 3
		if two := Solve(background, b, h, o); !reflect.DeepEqual(one, two) {
			t.Fatalf("one worker:\n%+v\nthree:\n%+v", one, two)
		}
		o.Incumbent = &one.Layout
		if next := Solve(background, b, h, o); next.Layout.Peak > one.Layout.Peak {
			t.Fatalf("%d above the incumbent, %d", next.Layout.Peak, one.Layout.Peak)
		}
		if l, ok := CoreFirst(background, b, h, o); ok && (l.Peak >= one.Layout.Peak || violation(b, l, nil) != "") {
			t.Fatalf("core first: %d, %s", l.Peak, violation(b, l, nil))
		}
	})
}

// TestBoundHolds: where two sets of rules both decide, they agree.
func TestBoundHolds(t *testing.T) {
	for seed := range uint64(40) {
		b, h := testkit.Random(seed, 14, 9, 9)
		if seed%2 == 1 {
			b, _, h = testkit.Loop(seed, 13, 9, 3)
		}
		all := Solve(background, b, h, Options{Nodes: 200_000})
		few := Solve(background, b, h, Options{Nodes: 200_000, Off: Memory | Peel | Twins | Flip | FullSpan | Components})
		for _, r := range []Result{all, few} {
			if r.Status == Optimal && (r.Layout.Peak > all.Layout.Peak || r.Layout.Peak > few.Layout.Peak || r.Bound < max(all.Bound, few.Bound)) {
				t.Errorf("seed %d: %+v\n%+v", seed, all, few)
			}
		}
	}
}

// TestCancel: a context that has ended gives what there is at once.
func TestCancel(t *testing.T) {
	ctx, stop := context.WithCancel(background)
	stop()
	b, h, _ := testkit.Rectangle(3, 120, 1000, 300)
	r := Solve(ctx, b, h, Options{Nodes: 1 << 40})
	if bad := violation(b, r.Layout, nil); bad != "" {
		t.Error(bad)
	}
	if r.Status == Optimal {
		t.Skip("the first layout is the best")
	}
	if r.Status != Budget || r.Nodes > 0 {
		t.Errorf("%v, %d nodes", r.Status, r.Nodes)
	}
}

// TestSAT: it closes gaps that the search leaves, and contradicts nothing.
func TestSAT(t *testing.T) {
	closed := 0
	for seed := range uint64(12) {
		b, h := testkit.Random(seed, 12, 7, 12)
		exact := Solve(background, b, h, Options{Nodes: 1 << 22})
		if exact.Status != Optimal {
			continue
		}
		r := Solve(background, b, h, Options{Nodes: 3, SAT: true})
		if bad := violation(b, r.Layout, nil); bad != "" {
			t.Fatal(bad)
		}
		if r.Bound > exact.Layout.Peak || r.Layout.Peak < exact.Bound {
			t.Errorf("seed %d: [%d, %d], optimum %d", seed, r.Bound, r.Layout.Peak, exact.Bound)
		}
		if r.Status == Optimal {
			closed++
		}
	}
	if closed == 0 {
		t.Error("SAT closed nothing")
	}
}

// TestProgress: what is told never goes up or down the wrong way, and ends where the result does.
func TestProgress(t *testing.T) {
	buffers, h, _ := testkit.Rectangle(3, 60, 300, 40)
	calls, best, bound := 0, ir.Bytes(1<<62), ir.Bytes(0)
	r := Solve(background, buffers, h, Options{Nodes: 20_000, Progress: func(nodes, of int64, b, low ir.Bytes) {
		calls++
		if b > best || low < bound || nodes > of || low > b {
			t.Errorf("after best %d and bound %d: %d of %d nodes, best %d, bound %d", best, bound, nodes, of, b, low)
		}
		best, bound = b, low
	}})
	if calls == 0 || best < r.Layout.Peak || bound > r.Bound {
		t.Errorf("%d calls, the last told %d and %d, the result is %d and %d", calls, best, bound, r.Layout.Peak, r.Bound)
	}
}
