package heuristics

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
)

// TestSections: buffers meet in time iff they meet in a section, and a section's load is
// reached at a tick of it.
func TestSections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(shapes).Draw(t, "shape")
		p := s.draw(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 80).Draw(t, "n"))
		in := newInstance(p.buffers, p.horizon)
		meet := func(a, b piece) bool {
			hit := func(s, e, s2, e2 int32) bool { return s < e && s2 < e2 && s < e2 && s2 < e }
			return hit(a.s, a.e, b.s, b.e) || hit(a.hs, a.he, b.s, b.e) || hit(a.s, a.e, b.hs, b.he) || hit(a.hs, a.he, b.hs, b.he)
		}
		for i := range p.buffers {
			for j := range i {
				a, b := p.buffers[i], p.buffers[j]
				if got, want := meet(in.pieces[i], in.pieces[j]), overlap(a, b); got != want {
					t.Fatalf("%+v %+v: meet %v, want %v", a, b, got, want)
				}
			}
		}
		load := make([]ir.Bytes, len(in.load))
		for i, q := range in.pieces {
			for k := range load {
				if int32(k) >= q.s && int32(k) < q.e || int32(k) >= q.hs && int32(k) < q.he {
					load[k] += p.buffers[i].Size
				}
			}
		}
		if !slices.Equal(load, in.load) {
			t.Fatalf("loads %v, want %v", in.load, load)
		}
		in.crests.Do(in.rankCrests)
		for i, q := range in.pieces {
			want := ir.Bytes(0)
			for k := range load {
				if int32(k) >= q.s && int32(k) < q.e || int32(k) >= q.hs && int32(k) < q.he {
					want = max(want, load[k])
				}
			}
			if in.need[i] != want {
				t.Fatalf("buffer %d needs %d, want %d", i, in.need[i], want)
			}
			higher := 0 // sections above its crest
			for _, l := range load {
				if l > want {
					higher++
				}
			}
			if !q.empty() && int(in.crest[i]) < higher {
				t.Fatalf("buffer %d has crest %d, but %d sections are higher", i, in.crest[i], higher)
			}
		}
	})
}

// TestFits compares the answers of the index with a scan of all that was placed.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(shapes).Draw(t, "shape")
		p := s.draw(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 80).Draw(t, "n"))
		in := newInstance(p.buffers, p.horizon)
		order := in.ids(rapid.SampledFrom([]key{bySize, byStart, byLife, byCrest}).Draw(t, "order"))
		var x index
		x.reset(len(in.load), 1)
		var placed []int32
		offsets := make([]int64, len(p.buffers))
		for _, id := range order {
			size := int64(p.buffers[id].Size)
			if in.pieces[id].empty() || size == 0 {
				continue
			}
			var taken []span
			for _, o := range placed {
				if overlap(p.buffers[id], p.buffers[o]) {
					taken = append(taken, span{offsets[o], offsets[o] + int64(p.buffers[o].Size)})
				}
			}
			first, best := scan(taken, size)
			x.locate(in.pieces[id])
			if got := x.find(size, math.MaxInt64, firstFit); got != first {
				t.Fatalf("first fit of %d at %d, want %d; taken %v", size, got, first, taken)
			}
			if got := x.find(size, math.MaxInt64, bestFit); got != best {
				t.Fatalf("best fit of %d at %d, want %d; taken %v", size, got, best, taken)
			}
			// With a ceiling right at the top of the answer it is found, one below it is
			// not: first fit is the lowest place, so nothing else is.
			if got := x.find(size, first+size, firstFit); got != first {
				t.Fatalf("first fit of %d below %d at %d, want %d", size, first+size, got, first)
			}
			for _, f := range []fit{firstFit, bestFit} {
				if got := x.find(size, first+size-1, f); got != -1 {
					t.Fatalf("fit of %d below %d at %d, want none", size, first+size-1, got)
				}
			}
			at := first
			if id%2 == 0 {
				at = best
			}
			x.take(at, at+size)
			offsets[id] = at
			placed = append(placed, id)
		}
	})
}

// scan returns the first and the best fit of size among taken spans.
func scan(taken []span, size int64) (first, best int64) {
	slices.SortFunc(taken, func(a, b span) int { return int(min(max(a.lo-b.lo, -1), 1)) })
	first, best = -1, -1
	gap, addr := int64(math.MaxInt64), int64(0)
	for _, s := range taken {
		if g := s.lo - addr; g >= size {
			if first < 0 {
				first = addr
			}
			if g < gap {
				best, gap = addr, g
			}
		}
		addr = max(addr, s.hi)
	}
	if first < 0 {
		first = addr
	}
	if best < 0 {
		best = addr
	}
	return first, best
}

// TestIndexReuse: a second try on the same index starts from nothing.
func TestIndexReuse(t *testing.T) {
	p := anything(5, 200)
	w := newBench(newInstance(p.buffers, p.horizon))
	for _, k := range packers {
		alone := k.Layout(p.buffers, p.horizon)
		if !k.run(w) || w.peak != int64(alone.Peak) || !slices.Equal(w.offsets, alone.Offsets) {
			t.Errorf("%s: peak %d after other tries, %d alone", k.Name, w.peak, alone.Peak)
		}
	}
}

// TestSkyline compares the dive's tree with a plain slice.
func TestSkyline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		y, plain := newSkyline(n), make([]int64, n)
		for range 60 {
			s := rapid.IntRange(0, n).Draw(t, "s")
			e := rapid.IntRange(s, n).Draw(t, "e")
			want := int64(0)
			for _, h := range plain[s:e] {
				want = max(want, h)
			}
			if got := y.top(int32(s), int32(e)); got != want {
				t.Fatalf("top of [%d, %d) is %d, want %d: %v", s, e, got, want, plain)
			}
			to := want + int64(rapid.IntRange(0, 9).Draw(t, "rise"))
			y.raise(int32(s), int32(e), to)
			for k := s; k < e; k++ {
				plain[k] = to
			}
		}
	})
}

// TestOrders: every key orders all buffers, each once.
func TestOrders(t *testing.T) {
	for _, s := range shapes {
		p := s.draw(2, 300)
		in := newInstance(p.buffers, p.horizon)
		for k := range numKeys {
			got := slices.Sorted(slices.Values(in.ids(k)))
			for i, id := range got {
				if int(id) != i || len(got) != len(p.buffers) {
					t.Fatalf("%s: key %d is no permutation", s.name, k)
				}
			}
		}
	}
}

func TestDraws(t *testing.T) {
	// The first outputs of SplitMix64 from 0, as published with it.
	g := splitmix(0)
	for _, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := g.next(); got != want {
			t.Errorf("splitmix: %#x, want %#x", got, want)
		}
	}
	for n, last := int64(1), int64(-1); n > 0 && n < 1<<62; n += n/7 + 1 {
		if l := log2(n); l < last || math.Abs(float64(l)/1024-math.Log2(float64(n))) > 0.09 {
			t.Fatalf("log2(%d) = %d/1024 after %d", n, l, last)
		} else {
			last = l
		}
	}
	if got := (per{3, 1000}).of(math.MaxInt64); got != 27670116110564327 {
		t.Errorf("3/1000 of 2^63-1: %d", got)
	}
}
