package sat

import (
	"slices"
	"testing"
	"time"

	"stweaver/internal/testkit"
)

// Sums against every subset; fixed ones may end above the capacity.
func TestPatterns(t *testing.T) {
	d := testkit.Rand(11)
	for range 300 {
		n := 1 + d.Below(7)
		c := &core{n: n, cap: int64(d.Below(30)), fixed: slices.Repeat([]int64{-1}, n)}
		for v := range n {
			c.size = append(c.size, 1+int64(d.Below(6)))
			if d.Below(5) == 0 {
				c.fixed[v], c.pinned = int64(d.Below(30)), true
			}
		}
		want := map[int64]bool{}
		for set := range 1 << n {
			sum, floors := int64(0), []int64{0}
			for v := range n {
				switch {
				case c.fixed[v] >= 0:
					floors = append(floors, c.fixed[v]+c.size[v])
				case set>>v&1 == 1:
					sum += c.size[v]
				}
			}
			for _, f := range floors {
				if f+sum <= c.cap {
					want[f+sum] = true
				}
			}
		}
		got := patterns(c, 1000)
		if len(got) != len(want) || !slices.IsSorted(got) || slices.ContainsFunc(got, func(x int64) bool { return !want[x] }) {
			t.Fatalf("sizes %v, fixed %v, capacity %d: %v, want %v", c.size, c.fixed, c.cap, got, want)
		}
		if len(want) > 1 && patterns(c, int64(len(want)-1)) != nil {
			t.Fatalf("%d sums under a limit of one less", len(want))
		}
	}
}

// The shape of interval graphs is chordal and its clique exact; a circle of four is neither a clique nor chordal.
func TestShape(t *testing.T) {
	d := testkit.Rand(12)
	for range 200 {
		in := randomInstance(&d, 1+d.Below(9), 7, false, false)
		arcs := newGraph(in)
		all := make([]int32, len(in.Sizes))
		for v := range all {
			all[v] = int32(v)
		}
		c := newCore(arcs, all, 0, 1000, 1, newScratch(len(all)))
		s := shapeOf(c)
		if !s.chordal {
			t.Fatalf("intervals, not chordal: %+v", in)
		}
		var best int64
		triangles := 0
		for set := range 1 << c.n {
			var sum int64
			var in []int32
			for v := range int32(c.n) {
				if set>>v&1 == 1 {
					sum += c.size[v]
					in = append(in, v)
				}
			}
			if !slices.ContainsFunc(in, func(u int32) bool {
				return slices.ContainsFunc(in, func(v int32) bool { return u < v && c.edge(u, v) < 0 })
			}) {
				best = max(best, sum)
				if len(in) == 3 {
					triangles++
				}
			}
		}
		if got := s.clique(c); got != best {
			t.Fatalf("clique %d, want %d: %+v", got, best, in)
		}
		s.triangles(c, func(int32, int32, int32) bool { triangles--; return true })
		if triangles != 0 {
			t.Fatalf("%d triangles missed: %+v", triangles, in)
		}
	}
	ring := Instance{Sizes: []int64{1, 2, 3, 4}, Conflicts: [][2]int32{{0, 1}, {0, 3}, {1, 2}, {2, 3}}}
	c := newCore(newGraph(ring), []int32{0, 1, 2, 3}, 0, 1000, 1, newScratch(4))
	if s := shapeOf(c); s.chordal || s.clique(c) != 7 {
		t.Errorf("a ring of four: chordal %v, clique %d", s.chordal, s.clique(c))
	}
}

// Lives that wrap round a loop make rings without chords: orientation has to find their cycles.
func TestRings(t *testing.T) {
	for n := 4; n <= 9; n++ {
		arcs := make([]arc, n)
		for v := range arcs {
			arcs[v] = arc{2 * v, 2*v + 3, int64(2 + v%2)} // each meets the next; the last one the first
		}
		in := fromArcs(arcs, 2*n)
		if len(in.Conflicts) != n {
			t.Fatalf("ring of %d: %v", n, in.Conflicts)
		}
		want := int64(5)
		if n%2 == 1 {
			want = 7 // one must be in the middle: 2 + 3 + 2 between the two that are alike
		}
		for _, off := range []switches{0, 1<<allSwitches - 1} {
			for capacity := want - 1; capacity <= want; capacity++ {
				for _, how := range []method{orderOnly, orientOnly} {
					s := newSession(Budget{}, how)
					s.off = off
					a := s.decide(in, capacity)
					sound(t, in, capacity, a)
					if (a.Verdict == Feasible) != (capacity >= want) || a.Verdict == Unknown {
						t.Errorf("ring of %d, off %b, method %d: %v at %d, want from %d", n, off, how, a.Verdict, capacity, want)
					}
				}
			}
		}
	}
}

// A choice that goes round a ring is no layout: it is met, forbidden, and if nothing else is left, refuted.
func TestCycles(t *testing.T) {
	for n := int32(4); n <= 8; n++ {
		ring := Instance{Sizes: slices.Repeat([]int64{1}, int(n))}
		all := make([]int32, n)
		for v := range n {
			all[v] = v
			if v > 0 {
				ring.Conflicts = append(ring.Conflicts, [2]int32{v - 1, v})
			}
		}
		ring.Conflicts = slices.Insert(ring.Conflicts, 1, [2]int32{0, n - 1})
		c := newCore(newGraph(ring), all, 0, int64(n), 1, newScratch(int(n)))
		s := shapeOf(c)
		for given := n - 1; given <= n; given++ {
			m := newOrient(c, &s, 1000, time.Now().Add(10*time.Second), offSymmetry)
			for v := range given {
				m.e.add(m.side(v, (v+1)%n))
			}
			verdict, offsets := m.run(100)
			if want := given < n; (verdict == Feasible) != want || (verdict == Infeasible) == want {
				t.Errorf("%d of a ring of %d given: %v, %v", given, n, verdict, offsets)
			}
		}
	}
}

func TestBadInstance(t *testing.T) {
	for _, in := range []Instance{
		{Sizes: []int64{1, 1}, Conflicts: [][2]int32{{1, 0}}},
		{Sizes: []int64{1, 1}, Conflicts: [][2]int32{{0, 2}}},
		{Sizes: []int64{1, 1, 1}, Conflicts: [][2]int32{{1, 2}, {0, 1}}},
		{Sizes: []int64{1, 1}, Fixed: []int64{0}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: no panic", in)
				}
			}()
			Decide(in, 10, Budget{})
		}()
	}
	// Nothing at all, nothing with a size, and sizes near the end of the number line.
	if a := Decide(Instance{}, 0, Budget{}); a.Verdict != Feasible || len(a.Offsets) != 0 {
		t.Errorf("no buffers: %+v", a)
	}
	if a := Decide(Instance{Sizes: []int64{0, 0}, Conflicts: [][2]int32{{0, 1}}}, 0, Budget{}); a.Verdict != Feasible {
		t.Errorf("no sizes: %+v", a)
	}
	const huge = 1 << 60
	in := Instance{Sizes: []int64{huge, huge, huge}, Conflicts: [][2]int32{{0, 1}, {0, 2}, {1, 2}}}
	if a := Decide(in, 3*huge, Budget{}); a.Verdict != Feasible {
		t.Errorf("three of 2^60: %+v", a)
	}
	if a := Decide(in, 3*huge-1, Budget{}); a.Verdict != Infeasible {
		t.Errorf("three of 2^60 and a byte too few: %+v", a)
	}
}
