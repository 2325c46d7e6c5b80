package heuristics

import (
	"slices"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// alternating is the picture in climb.go: peaks at ticks 100, 200, …, with two groups alive at
// each, a large S that comes and goes and a small x that is made while its predecessor is there
// and S is not. The live peak is reached only if the x lie below and above S by turns.
func alternating(peaks int) ([]ir.Buffer, ir.Tick) {
	var out []ir.Buffer
	add := func(size ir.Bytes, start, end int) {
		out = append(out, ir.Buffer{Size: size * ir.Align, Start: ir.Tick(start), End: ir.Tick(end)})
	}
	for k := range peaks + 2 {
		t := 100 * (k + 1)
		for m, size := range []ir.Bytes{400, 300, 150, 100, 50} { // alive at t and t + 100
			add(size, t-40+m, t+110-m)
		}
		add(100, t-5, t+2)  // S
		add(1, t-95, t+8)   // x
		for m := range 12 { // the rest
			add(40, t+20+m, t+22+m)
		}
	}
	return out, ir.Tick(100 * (peaks + 4))
}

// TestClimbAlternates: a crux finds what no fit of the table does.
func TestClimbAlternates(t *testing.T) {
	buffers, horizon := alternating(8)
	in := newInstance(buffers, horizon)
	w := newBench(in)
	for _, p := range packers {
		if p.most > 0 { // a dive: not for large problems
			continue
		}
		w.leash = leash{}
		if p.run(w); w.peak == int64(in.bound) {
			t.Errorf("%s reaches the bound: the instance shows nothing", p.Name)
		}
	}
	w.leash = leash{}
	if !w.packCrux(cruxes[0]) || w.peak != int64(in.bound) {
		t.Errorf("the crux ends at %d, the bound is %d", w.peak, in.bound)
	}
	if bad := violation(buffers, ir.Layout{Offsets: w.offsets, Peak: ir.Bytes(w.peak)}); bad != "" {
		t.Error(bad)
	}
}

// TestClimb: climbs give layouts of the items, never below what is alive at once, the same each
// time.
func TestClimb(t *testing.T) {
	ran := 0
	check := func(name string, buffers []ir.Buffer, horizon ir.Tick) {
		in := newInstance(buffers, horizon)
		for r := range recipes[:4] {
			c := in.coarse(r)
			if c == nil || !c.dives || len(c.items) > 120 {
				continue
			}
			never := func() int64 { return 1<<63 - 1 }
			offsets, peak := c.climb(3, never)
			if offsets == nil {
				continue
			}
			ran++
			again, _ := c.climb(3, never)
			if !slices.Equal(offsets, again) {
				t.Fatalf("%s: %s: two climbs of one number differ", name, recipes[r].name)
			}
			top := int64(0)
			for k, o := range offsets {
				top = max(top, int64(o)+int64(c.in.buffers[k].Size))
			}
			if top != peak || peak < int64(c.in.peak) && c.in.parts == nil {
				t.Fatalf("%s: %s: peak %d, items end at %d, %d alive", name, recipes[r].name, peak, top, c.in.peak)
			}
			for a := range offsets {
				for b := range a {
					if meet(c.in, int32(a), int32(b), offsets) {
						t.Fatalf("%s: %s: items %d and %d meet", name, recipes[r].name, a, b)
					}
				}
			}
		}
	}
	for _, s := range shapes {
		p := s.draw(2, 80)
		check(s.name, p.buffers, p.horizon)
	}
	b, h := alternating(5)
	check("alternating", b, h)
	b, h = testkit.Pipeline(2, testkit.Schedule{Layers: 4, Micro: 6, Warm: 3, Iterations: 2, Uneven: true})
	check("1f1b", b, h)
	if ran < 10 {
		t.Errorf("only %d climbs found a start", ran)
	}
}

// meet reports whether two items share an address at some time, part by part.
func meet(in *instance, a, b int32, offsets []ir.Offset) bool {
	partsOf := func(id int32) []part {
		if in.parts != nil && in.parts[id] != nil {
			return in.parts[id]
		}
		if in.pieces[id].empty() {
			return nil
		}
		return []part{{in.pieces[id], 0, int64(in.buffers[id].Size)}}
	}
	over := func(s, e, s2, e2 int32) bool { return max(s, s2) < min(e, e2) }
	for _, p := range partsOf(a) {
		for _, q := range partsOf(b) {
			x, y := p.p, q.p
			together := over(x.s, x.e, y.s, y.e) || over(x.hs, x.he, y.s, y.e) || over(x.s, x.e, y.hs, y.he) || over(x.hs, x.he, y.hs, y.he)
			lo, lo2 := int64(offsets[a])+p.lo, int64(offsets[b])+q.lo
			if together && lo < lo2+q.hi-q.lo && lo2 < lo+p.hi-p.lo {
				return true
			}
		}
	}
	return false
}

func TestMoveTo(t *testing.T) {
	for _, c := range []struct {
		from, to int
		want     []int32
	}{
		{0, 4, []int32{1, 2, 3, 4, 0}},
		{4, 0, []int32{4, 0, 1, 2, 3}},
		{1, 3, []int32{0, 2, 3, 1, 4}},
		{3, 1, []int32{0, 3, 1, 2, 4}},
		{2, 2, []int32{0, 1, 2, 3, 4}},
	} {
		list := []int32{0, 1, 2, 3, 4}
		if moveTo(list, c.from, c.to); !slices.Equal(list, c.want) {
			t.Errorf("%d to %d: %v, want %v", c.from, c.to, list, c.want)
		}
	}
}
