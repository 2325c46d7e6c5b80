package sat

import (
	"slices"
	"testing"

	"stweaver/internal/testkit"
)

// obeys is the meaning of a Ruled, word by word.
func (r *Ruled) obeys(off []int64, on []bool) bool {
	holds := func(rule int) bool { return rule == Always || on[rule] }
	end := func(a int32) int64 { return off[a] + r.Sizes[a] }
	for _, o := range r.Orders {
		if holds(o.Rules[0]) && holds(o.Rules[1]) && end(o.A) > off[o.B] && end(o.B) > off[o.A] {
			return false
		}
	}
	for _, b := range r.Bounds {
		if holds(b.Rule) && (b.Upper && off[b.A] > b.At || !b.Upper && off[b.A] < b.At) {
			return false
		}
	}
	for _, g := range r.Gaps {
		if holds(g.Rule) && off[g.B] < off[g.A]+g.D {
			return false
		}
	}
	for _, h := range r.Hulls {
		below := !slices.ContainsFunc(h.Members, func(m int32) bool { return end(h.Outside) > off[m] })
		above := !slices.ContainsFunc(h.Members, func(m int32) bool { return end(m) > off[h.Outside] })
		if holds(h.Rule) && !below && !above {
			return false
		}
	}
	for _, a := range r.Aligns {
		if holds(a.Rule) && off[a.A]%a.Mod != 0 {
			return false
		}
	}
	return true
}

// possible tries every address.
func (r *Ruled) possible(on []bool, most int64) bool {
	off := make([]int64, len(r.Sizes))
	var place func(k int) bool
	place = func(k int) bool {
		if k == len(off) {
			return r.obeys(off, on)
		}
		for off[k] = 0; off[k] <= most; off[k]++ {
			if place(k + 1) {
				return true
			}
		}
		return false
	}
	return place(0)
}

func drawRuled(d *testkit.Rand) *Ruled {
	n := 2 + d.Below(3)
	r := &Ruled{Rules: 1 + d.Below(4)}
	for range n {
		r.Sizes = append(r.Sizes, int64(1+d.Below(3)))
	}
	rule := func() int { return d.Below(r.Rules+1) - 1 }
	own := func() int { return d.Below(r.Rules) }
	two := func() (int32, int32) {
		a := d.Below(n)
		return int32(a), int32((a + 1 + d.Below(n-1)) % n)
	}
	for range 1 + d.Below(4) {
		a, b := two()
		r.Orders = append(r.Orders, Order{a, b, [2]int{rule(), rule()}})
	}
	for range d.Below(5) {
		r.Bounds = append(r.Bounds, RuledBound{int32(d.Below(n)), int64(d.Below(6)), d.Below(2) == 0, own()})
	}
	for range d.Below(4) {
		a, b := two()
		r.Gaps = append(r.Gaps, Gap{a, b, int64(d.Below(7)) - 3, own()})
	}
	for range d.Below(2) {
		a, b := two()
		h := Hull{Outside: a, Members: []int32{b}, Rule: own()}
		if c := int32(d.Below(n)); c != a && c != b {
			h.Members = append(h.Members, c)
		}
		r.Hulls = append(r.Hulls, h)
	}
	for range d.Below(3) {
		r.Aligns = append(r.Aligns, RuledAlign{int32(d.Below(n)), int64(2 << d.Below(2)), own()})
	}
	return r
}

// Every address tried says the same: whether the rules can be obeyed, that a core cannot, and that a minimal one can
// without any of its rules.
func TestRuledTiny(t *testing.T) {
	d := testkit.Rand(7)
	no, cores := 0, map[int]int{}
	for range 400 {
		r := drawRuled(&d)
		const most = 18
		on := slices.Repeat([]bool{true}, r.Rules)
		verdict, core, minimal, off := r.Refute(Budget{})
		want := r.possible(on, most)
		switch {
		case verdict == Unknown:
			t.Fatalf("%+v: unknown", r)
		case verdict == Feasible:
			if !want || !r.obeys(off, on) {
				t.Fatalf("%+v: %v obeys: %t, possible: %t", r, off, r.obeys(off, on), want)
			}
			continue
		case want:
			t.Fatalf("%+v: refuted, and possible", r)
		}
		no++
		cores[len(core)]++
		only := make([]bool, r.Rules)
		for _, k := range core {
			only[k] = true
		}
		if r.possible(only, most) || !minimal {
			t.Fatalf("%+v: core %v is possible, or not minimal: %t", r, core, minimal)
		}
		for _, k := range core {
			only[k] = false
			if !r.possible(only, most) {
				t.Fatalf("%+v: core %v is impossible without %d, too", r, core, k)
			}
			only[k] = true
		}
	}
	t.Logf("%d of 400 refuted, by size of the core: %v", no, cores)
	if no < 50 || len(cores) < 2 {
		t.Error("the test shows little")
	}
}
