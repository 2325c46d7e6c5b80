package heuristics

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// problem is one generated input. optimum is 0 where it is not known.
type problem struct {
	buffers []ir.Buffer
	horizon ir.Tick
	optimum ir.Bytes
}

// shapes are the generators of the property matrix, at sizes a quadratic check can follow.
var shapes = []struct {
	name string
	draw func(seed uint64, n int) problem
}{
	{"random", func(seed uint64, n int) problem {
		b, h := testkit.Random(seed, n, 64, 1+n/3)
		return problem{b, h, 0}
	}},
	{"short", func(seed uint64, n int) problem {
		b, h := testkit.Random(seed, n, 1000, 6)
		return problem{b, h, 0}
	}},
	{"nested", func(seed uint64, n int) problem {
		b, h := testkit.Nested(seed, n, 100)
		return problem{b, h, LivePeak(b, h)}
	}},
	{"rectangle", func(seed uint64, n int) problem {
		b, h, opt := testkit.Rectangle(seed, n, 400, 200)
		return problem{b, h, opt}
	}},
	{"pipeline", func(seed uint64, n int) problem {
		r := testkit.Rand(seed)
		b, h := testkit.Pipeline(seed, testkit.Schedule{
			Layers: 1 + r.Below(3), Micro: 1 + r.Below(5), Warm: 1 + r.Below(4), Iterations: 1 + n/100,
			Recompute: r.Below(2) == 0, Uneven: r.Below(2) == 0,
		})
		return problem{b, h, 0}
	}},
	{"loop", func(seed uint64, n int) problem {
		b, _, h := testkit.Loop(seed, n, 64, 5)
		return problem{b, h, 0}
	}},
	{"anything", anything},
}

// anything draws pieces without a plan: several starts at a tick, empty lives, heads that
// touch or meet their main piece, sparse ticks, sizes up to 2^40 and 0.
func anything(seed uint64, n int) problem {
	r := testkit.Rand(seed)
	scale := ir.Tick(1)
	if r.Below(3) == 0 {
		scale = 1 << 30
	}
	at := func() ir.Tick { return scale * ir.Tick(r.Below(n/2+2)) }
	p := problem{horizon: scale * ir.Tick(n/2+2)}
	for range n {
		b := ir.Buffer{Size: ir.Align << r.Below(32), Start: at(), End: at()}
		if r.Below(20) == 0 {
			b.Size = 0
		}
		if b.Start > b.End && r.Below(4) > 0 {
			b.Start, b.End = b.End, b.Start
		}
		if r.Below(3) == 0 {
			b.HeadStart, b.HeadEnd = at(), at()
		}
		p.buffers = append(p.buffers, b)
	}
	return p
}

// TestProperties is the matrix: every packer, and Pack, on every shape.
func TestProperties(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := s.draw(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 220).Draw(t, "n"))
				bound := max(naivePeak(p.buffers), largest(p.buffers))
				if got := LivePeak(p.buffers, p.horizon); got != naivePeak(p.buffers) {
					t.Fatalf("live peak %d, want %d", got, naivePeak(p.buffers))
				}
				reference := ir.Bytes(0)
				for _, k := range Packers() {
					l := k.Layout(p.buffers, p.horizon)
					if bad := violation(p.buffers, l); bad != "" {
						t.Fatalf("%s: %s", k.Name, bad)
					}
					if l.Peak < bound {
						t.Fatalf("%s: peak %d below the bound %d", k.Name, l.Peak, bound)
					}
					if k.Name == "size-best" {
						reference = l.Peak
					}
				}
				for _, effort := range []int{EffortFast, 3} {
					r := Pack(p.buffers, p.horizon, Options{Effort: effort})
					if bad := violation(p.buffers, r.Layout); bad != "" {
						t.Fatalf("pack: %s", bad)
					}
					if r.Bound != bound || r.Layout.Peak < bound || r.Layout.Peak > reference {
						t.Fatalf("pack: peak %d, bound %d, want bound %d and at most the reference %d", r.Layout.Peak, r.Bound, bound, reference)
					}
					if p.optimum > 0 && r.Layout.Peak < p.optimum {
						t.Fatalf("pack: peak %d below the optimum %d", r.Layout.Peak, p.optimum)
					}
				}
			})
		})
	}
}

func largest(buffers []ir.Buffer) (size ir.Bytes) {
	for i := range buffers {
		size = max(size, buffers[i].Size)
	}
	return size
}

// TestSampledTries checks what the search draws, which no table lists.
func TestSampledTries(t *testing.T) {
	for _, s := range shapes {
		p := s.draw(7, 150)
		w := newBench(newInstance(p.buffers, p.horizon))
		for i := range 200 {
			if !sample(i)(w) {
				t.Fatalf("%s: sample %d gave up without a limit", s.name, i)
			}
			if bad := violation(p.buffers, ir.Layout{Offsets: w.offsets, Peak: ir.Bytes(w.peak)}); bad != "" {
				t.Fatalf("%s: sample %d: %s", s.name, i, bad)
			}
		}
	}
}

// TestDeterministic packs the same problem with any number of workers and processors: the
// whole result must be the same, not only its peak.
func TestDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, s := range shapes {
		p := s.draw(11, 110)
		for _, o := range []Options{{Effort: 10}, {Effort: 10, Capacity: LivePeak(p.buffers, p.horizon) * 103 / 100}} {
			var want Result
			for run := range 10 {
				runtime.GOMAXPROCS(1 + run%3*2)
				o.Workers = 1 + run*run%7
				got := Pack(p.buffers, p.horizon, o)
				if run == 0 {
					want = got
				} else if !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: %d workers: %s, want %s", s.name, o.Workers, brief(got), brief(want))
				}
			}
		}
	}
}

func brief(r Result) string {
	return fmt.Sprintf("%s peak %d tries %d peaks %v", r.Packer, r.Layout.Peak, r.Tries, r.Peaks)
}

// TestMoreEffort: a longer search contains the shorter one.
func TestMoreEffort(t *testing.T) {
	better := false
	for _, s := range shapes {
		p := s.draw(3, 300)
		low := Pack(p.buffers, p.horizon, Options{})
		high := Pack(p.buffers, p.horizon, Options{Effort: 20})
		if high.Layout.Peak > low.Layout.Peak {
			t.Errorf("%s: peak %d with effort 20, %d without", s.name, high.Layout.Peak, low.Layout.Peak)
		}
		better = better || high.Layout.Peak < low.Layout.Peak
	}
	if !better {
		t.Error("the search improved nothing on any shape")
	}
}
