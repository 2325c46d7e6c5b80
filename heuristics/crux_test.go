package heuristics

import (
	"slices"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// TestCruxes: what a crux gives is valid on every shape, heads included, and never below the bound.
func TestCruxes(t *testing.T) {
	ran := map[string]int{}
	for _, s := range shapes {
		for seed := range uint64(2) {
			p := s.draw(seed, 120)
			in := newInstance(p.buffers, p.horizon)
			w := newBench(in)
			for _, c := range cruxes {
				w.leash = leash{}
				if !w.packCrux(c) {
					continue
				}
				ran[c.name]++
				if bad := violation(p.buffers, ir.Layout{Offsets: w.offsets, Peak: ir.Bytes(w.peak)}); bad != "" {
					t.Fatalf("%s %d: %s: %s", s.name, seed, c.name, bad)
				}
				if w.peak < int64(in.bound) {
					t.Fatalf("%s %d: %s: peak %d below the bound %d", s.name, seed, c.name, w.peak, in.bound)
				}
			}
		}
	}
	for _, c := range cruxes {
		if ran[c.name] == 0 {
			t.Errorf("crux %s found nothing to do anywhere", c.name)
		}
	}
}

// TestCruxIDs: a crux has what its rule says, checked buffer by buffer on ticks.
func TestCruxIDs(t *testing.T) {
	for _, s := range shapes {
		p := s.draw(1, 120)
		in := newInstance(p.buffers, p.horizon)
		for _, c := range cruxes {
			ids := in.cruxIDs(c)
			for i := range p.buffers {
				b := &p.buffers[i]
				need := ir.Bytes(0)
				for j := range p.buffers { // the highest load is at a start
					for _, at := range []ir.Tick{p.buffers[j].Start, p.buffers[j].HeadStart} {
						if alive(b, at) {
							load := ir.Bytes(0)
							for k := range p.buffers {
								if alive(&p.buffers[k], at) {
									load += p.buffers[k].Size
								}
							}
							need = max(need, load)
						}
					}
				}
				slack, life := in.peak-need, b.Life()
				want := b.Size > 0 && (b.End > b.Start || b.HasHead()) && (slack*ir.Bytes(c.kappa.den) <= b.Size*ir.Bytes(c.kappa.num) ||
					c.theta.num > 0 && life >= ir.Tick(c.theta.of(int64(in.span))) && c.theta.of(int64(in.span)) > 0)
				if got := slices.Contains(ids, int32(i)); got != want {
					t.Fatalf("%s: %s: buffer %d, slack %d, size %d, life %d: in the crux %v, want %v", s.name, c.name, i, slack, b.Size, life, got, want)
				}
			}
		}
	}
}

func alive(b *ir.Buffer, at ir.Tick) bool {
	return b.Start <= at && at < b.End || b.HasHead() && b.HeadStart <= at && at < b.HeadEnd
}

// TestCruxWorkers: the number of workers changes nothing where cruxes are raced.
func TestCruxWorkers(t *testing.T) {
	pipeline, _ := testkit.Pipeline(3, testkit.Schedule{Layers: 5, Micro: 6, Warm: 3, Iterations: 2, Uneven: true})
	turns, _ := alternating(9)
	for n, buffers := range [][]ir.Buffer{pipeline, turns} {
		var first Result
		for workers := 1; workers <= 3; workers++ {
			r := newRace(newInstance(buffers, 0), Options{Workers: workers})
			r.cruxes = true
			tries := append([]try{{name: "size", run: greedy(bySize, firstFit), exempt: true}}, r.cruxTries()...)
			r.run(tries, r.in.bound)
			got := r.result()
			if bad := violation(buffers, got.Layout); bad != "" {
				t.Fatal(bad)
			}
			if workers == 1 {
				first = got
			}
			if got.Packer != first.Packer || got.Tries != first.Tries || !slices.Equal(got.Layout.Offsets, first.Layout.Offsets) {
				t.Errorf("%d: %d workers: %s, want %s", n, workers, brief(got), brief(first))
			}
		}
	}
}

// TestCruxGate: cruxes are tried where something is near the bound, and nowhere else, and a list
// with them goes on as the one without begins.
func TestCruxGate(t *testing.T) {
	b, _ := alternating(70)
	r := newRace(newInstance(b, 0), Options{})
	for _, c := range []struct {
		above int64
		want  bool
	}{{0, false}, {512, true}, {int64(r.in.bound) / cruxNear, true}, {int64(r.in.bound)/cruxNear + 1, false}} {
		r.best.peak = int64(r.in.bound) + c.above
		if got := r.wantsCruxes(); got != c.want {
			t.Errorf("%d above the bound: wanted %v", c.above, got)
		}
	}
	short := r.listed(0)
	r.cruxes = true
	long := r.listed(3)
	names := func(l []try) (out []string) {
		for _, t := range l {
			out = append(out, t.name)
		}
		return out
	}
	if s, l := names(short), names(long); !slices.Equal(s, l[:len(s)]) || l[len(s)] != cruxes[0].name {
		t.Errorf("%v does not begin with %v and go on with the cruxes", l, s)
	}
}
