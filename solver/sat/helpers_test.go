package sat

import (
	"slices"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

func shuffle(d *testkit.Rand, arcs []arc) {
	for k := range arcs {
		j := k + d.Below(len(arcs)-k)
		arcs[k], arcs[j] = arcs[j], arcs[k]
	}
}

// arc is a life [start, end) on a circle of the given length; end may exceed it.
type arc struct {
	start, end int
	size       int64
}

// fromArcs builds the instance of arcs on a circle of that length; with no wrapping arc these are intervals.
func fromArcs(arcs []arc, length int) Instance {
	in := Instance{Sizes: make([]int64, len(arcs))}
	for i, a := range arcs {
		in.Sizes[i] = a.size
		for j := range i {
			b := arcs[j]
			hit := false
			for _, shift := range []int{-length, 0, length} {
				hit = hit || a.start+shift < b.end && b.start < a.end+shift
			}
			if hit {
				in.Conflicts = append(in.Conflicts, [2]int32{int32(j), int32(i)})
			}
		}
	}
	slices.SortFunc(in.Conflicts, func(a, b [2]int32) int { return slices.Compare(a[:], b[:]) })
	return in
}

// randomInstance draws n buffers: intervals, or arcs where wrapped, some of them fixed (without overlap) where pinned.
func randomInstance(d *testkit.Rand, n int, most int64, wrapped, pinned bool) Instance {
	const length = 12
	arcs := make([]arc, n)
	for i := range arcs {
		s := d.Below(length)
		e := s + 1 + d.Below(length-1)
		if !wrapped {
			e = min(e, length)
		}
		arcs[i] = arc{s, e, 1 + int64(d.Below(int(most)))}
	}
	in := fromArcs(arcs, length)
	if pinned {
		in.Fixed = slices.Repeat([]int64{-1}, n)
		for range 1 + d.Below(2) {
			in.Fixed[d.Below(n)] = int64(d.Below(int(most)))
		}
	}
	return in
}

// optimum is the least height by trying every order of every set of offsets: exhaustive over all
// integer offsets up to the sum of sizes, one buffer at a time. -1: the fixed ones clash.
func optimum(in Instance) int64 {
	var sum int64
	for _, s := range in.Sizes {
		sum += s
	}
	for _, f := range in.Fixed {
		sum += max(f, 0)
	}
	n := len(in.Sizes)
	near := make([][]int32, n)
	for _, c := range in.Conflicts {
		near[c[1]] = append(near[c[1]], c[0])
	}
	best := int64(-1)
	off := make([]int64, n)
	var place func(v int, height int64)
	place = func(v int, height int64) {
		if best >= 0 && height >= best {
			return
		}
		if v == n {
			best = height
			return
		}
		from, to := int64(0), sum
		if in.Fixed != nil && in.Fixed[v] >= 0 {
			from, to = in.Fixed[v], in.Fixed[v]
		}
		for o := from; o <= to && (best < 0 || o+in.Sizes[v] < best); o++ {
			ok := true
			for _, u := range near[v] {
				if o < off[u]+in.Sizes[u] && off[u] < o+in.Sizes[v] {
					ok = false
					break
				}
			}
			if ok {
				off[v] = o
				place(v+1, max(height, o+in.Sizes[v]))
			}
		}
	}
	place(0, 0)
	return best
}

// load is the greatest sum of sizes at any moment, given arcs; for tests that need a first bound.
func load(arcs []arc, length int) int64 {
	var best int64
	for t := range length {
		var sum int64
		for _, a := range arcs {
			if a.start <= t && t < a.end || a.start <= t+length && t+length < a.end {
				sum += a.size
			}
		}
		best = max(best, sum)
	}
	return best
}

type decider struct {
	name   string
	decide func(Instance, int64, Budget) Answer
}

var deciders = []decider{{"auto", Decide}, {"order", DecideOrder}, {"orientation", DecideOrientation}}

// sound fails where a is not what an answer may be.
func sound(t testing.TB, in Instance, capacity int64, a Answer) {
	t.Helper()
	if a.Rejected != 0 {
		t.Fatalf("a layout failed the check: %+v of %+v at %d", a, in, capacity)
	}
	if (a.Verdict == Feasible) != (a.Offsets != nil) {
		t.Fatalf("%v with offsets %v", a.Verdict, a.Offsets)
	}
	if a.Verdict == Feasible {
		if err := Check(in, capacity, a.Offsets); err != nil {
			t.Fatal(err)
		}
	}
}

// constantLoad is testkit.ConstantLoad in units.
func constantLoad(d *testkit.Rand, n int, load int64) (arcs []arc, length int) {
	buffers, horizon := testkit.ConstantLoad(d, n, load)
	for i := range buffers {
		b := &buffers[i]
		arcs = append(arcs, arc{start: int(b.Start), end: int(b.End), size: int64(b.Size / ir.Align)})
	}
	return arcs, int(horizon)
}
