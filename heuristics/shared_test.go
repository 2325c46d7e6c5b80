package heuristics

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// drawShared makes a problem of some streams, with lags, a loop and an AGE.
func drawShared(seed uint64, n int) *ir.Problem {
	r := testkit.Rand(seed)
	p := &ir.Problem{Sharing: ir.Sharing{On: true, Age: ir.Tick([]int{0, 1, 3, 10, n / 4, 2 * n}[r.Below(6)])}}
	switch r.Below(4) {
	case 0:
		s := shapes[r.Below(len(shapes)-1)].draw(seed, n) // not anything: it has no clock
		p.Buffers, p.L0, p.L1 = s.buffers, s.horizon, s.horizon
	default:
		p.Buffers, p.L0, p.L1 = testkit.Loop(seed, n, 64, 5)
	}
	p.Streams = make([]uint64, 1+r.Below(4))
	for i := range p.Buffers {
		b := &p.Buffers[i]
		b.Stream = ir.StreamID(r.Below(len(p.Streams)))
		if r.Below(4) == 0 {
			b.Lag = uint16(r.Below(n))
		}
		if b.End <= p.L0 && r.Below(8) == 0 && p.L0 < p.L1 { // what the prologue leaves to the first turn
			b.End = p.L0 + ir.Tick(r.Below(int(p.L1-p.L0)))
		}
	}
	return p
}

func (t terms) options(effort int) Options {
	return Options{Effort: effort, Shared: &Shared{Age: t.p.Sharing.Age, Loop: t.p.L0}}
}

type terms struct{ p *ir.Problem }

// TestSharedProperties: every fit, drawn ones, and Pack keep AGE as ir.Verify sees it.
func TestSharedProperties(t *testing.T) {
	tight := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawShared(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 160).Draw(t, "n"))
		valid := func(name string, l ir.Layout) {
			if v := ir.Verify(p, nil, &l); len(v) > 0 {
				t.Fatalf("%s: %v", name, v)
			}
		}
		live, _ := p.LivePeak()
		reference := ir.Bytes(0)
		w := newBench(newShared(p.Buffers, p.L1, Shared{p.Sharing.Age, p.L0}))
		for _, k := range packers {
			if k.views {
				if !k.run(w) {
					t.Fatalf("%s: gave up without a limit", k.Name)
				}
				valid(k.Name, ir.Layout{Offsets: slices.Clone(w.offsets), Peak: ir.Bytes(w.peak)})
			}
			if k.reference {
				reference = ir.Bytes(w.peak)
			}
		}
		for i := range 5 {
			if !sample(2 * i)(w) {
				t.Fatalf("sample %d gave up without a limit", i)
			}
			valid("sample", ir.Layout{Offsets: w.offsets, Peak: ir.Bytes(w.peak)})
		}
		r := Pack(p.Buffers, p.L1, terms{p}.options(2))
		valid("pack", r.Layout)
		if r.Bound < live || r.Layout.Peak < r.Bound || r.Layout.Peak > reference && len(p.Streams) > 1 {
			t.Fatalf("pack: peak %d, bound %d, live peak %d, reference %d", r.Layout.Peak, r.Bound, live, reference)
		}
		for _, a := range Alternatives(p.Buffers, p.L1, r.Layout.Peak+r.Layout.Peak/4, r.Layout, 2, terms{p}.options(0)) {
			valid("alternative "+a.Packer, a.Layout)
		}
		if r.Layout.Peak == live && p.Sharing.Age > 0 {
			tight++
		}
	})
	if tight == 0 && !testing.Short() { // a short run draws too few
		t.Error("no layout reached the live peak: the views are too wide")
	}
}

// TestSharedIsExact: of two buffers, one is placed above the other where and only where the rule of ir.Verify
// says that they must not share.
func TestSharedIsExact(t *testing.T) {
	apart, same := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawShared(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(4, 40).Draw(t, "n"))
		if len(p.Buffers) < 2 {
			return
		}
		i := rapid.IntRange(0, len(p.Buffers)-2).Draw(t, "i")
		j := rapid.IntRange(i+1, len(p.Buffers)-1).Draw(t, "j")
		leftover := func(b *ir.Buffer) bool { return b.Start < p.L0 && b.End > p.L0 && b.End < p.L1 }
		p.Buffers = []ir.Buffer{p.Buffers[i], p.Buffers[j]}
		if leftover(&p.Buffers[0]) || leftover(&p.Buffers[1]) {
			return // in the way of the last ticks of the loop, too, though it is there once only
		}
		l := ir.Layout{Offsets: make([]ir.Offset, 2), Peak: max(p.Buffers[0].Size, p.Buffers[1].Size)}
		may := len(ir.Verify(p, nil, &l)) == 0
		r := Pack(p.Buffers, p.L1, terms{p}.options(0))
		if does := r.Layout.Peak == l.Peak; does != may {
			t.Fatalf("they share: %t, may: %t; %+v, age %d, loop [%d, %d)", does, may, p.Buffers, p.Sharing.Age, p.L0, p.L1)
		}
		if may {
			same++
		} else {
			apart++
		}
	})
	if !testing.Short() && (same == 0 || apart == 0) {
		t.Errorf("%d pairs share, %d do not: the test shows nothing", same, apart)
	}
}

// TestSharedDeterministic: the result does not depend on the number of workers.
func TestSharedDeterministic(t *testing.T) {
	for seed := range uint64(5) {
		p := drawShared(seed, 60)
		var want Result
		for run := range 4 {
			o := terms{p}.options(1)
			o.Workers = 1 + run*run%7
			got := Pack(p.Buffers, p.L1, o)
			if run == 0 {
				want = got
			} else if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, %d workers: %s, want %s", seed, o.Workers, brief(got), brief(want))
			}
		}
	}
}

// TestSharedStops: a search that is ended returns a valid layout, and one with a capacity goes on.
func TestSharedStops(t *testing.T) {
	p := drawShared(5, 150)
	o := terms{p}.options(40)
	o.Stop = func() bool { return true }
	r := Pack(p.Buffers, p.L1, o)
	if v := ir.Verify(p, nil, &r.Layout); len(v) > 0 {
		t.Fatal(v)
	}
	if r.Layout.Peak > r.Bound && !r.Stopped {
		t.Error("a search that was ended does not say so")
	}
}
