package heuristics

import (
	"reflect"
	"testing"

	"stweaver/ir"
)

// relaxCost is the cost of a layout: what each buffer is in the way of.
func relaxCost(x *relaxation) (sum int64) {
	for i := range x.in.buffers {
		sum += x.harm(int32(i))
	}
	return sum
}

// A relaxed layout is valid, no higher, the same on every call, and costs no more.
func TestRelax(t *testing.T) {
	fell := 0
	for _, s := range shapes {
		for seed := range uint64(12) {
			p := s.draw(seed, 150)
			for _, l := range []ir.Layout{Pack(p.buffers, p.horizon, Options{}).Layout, firstFitOf(p)} {
				out := Relax(p.buffers, p.horizon, l)
				if again := Relax(p.buffers, p.horizon, l); !reflect.DeepEqual(out, again) {
					t.Fatalf("%s %d: two calls, two answers", s.name, seed)
				}
				if bad := violation(p.buffers, out); bad != "" {
					t.Fatalf("%s %d: %s", s.name, seed, bad)
				}
				if out.Peak > l.Peak {
					t.Fatalf("%s %d: peak %d above %d", s.name, seed, out.Peak, l.Peak)
				}
				in := newInstance(p.buffers, p.horizon)
				x, y := newRelaxation(in, l), newRelaxation(in, out)
				if x == nil {
					continue
				}
				y.shift = x.shift
				if before, after := relaxCost(x), relaxCost(y); after > before {
					t.Fatalf("%s %d: costs %d, before %d", s.name, seed, after, before)
				} else if after < before {
					fell++
				}
			}
		}
	}
	if fell == 0 {
		t.Error("no layout was relaxed")
	}
}

// firstFitOf puts the buffers into the lowest gaps in the order in which they come.
func firstFitOf(p problem) ir.Layout {
	l := ir.Layout{Offsets: make([]ir.Offset, len(p.buffers))}
	for i := range p.buffers {
		for again := true; again; {
			again = false
			for j := range i {
				a, b := l.Offsets[i], l.Offsets[j]
				if overlap(p.buffers[i], p.buffers[j]) && a < b+ir.Offset(p.buffers[j].Size) && b < a+ir.Offset(p.buffers[i].Size) {
					l.Offsets[i], again = b+ir.Offset(p.buffers[j].Size), true
				}
			}
		}
		l.Peak = max(l.Peak, ir.Bytes(l.Offsets[i])+p.buffers[i].Size)
	}
	return l
}

// The picture of relax.go: small buffers below the place of a large one that comes next go to where
// no large one is, so that none of them, freed late, is in its way.
func TestRelaxSmall(t *testing.T) {
	const small, large = 512, 1 << 20
	buffers := []ir.Buffer{
		{Size: large, Start: 0, End: 40}, // lives until the small ones are there
		{Size: small, Start: 10, End: 48},
		{Size: small, Start: 12, End: 49},
		{Size: large, Start: 50, End: 90},
		{Size: large, Start: 51, End: 90},
		{Size: 2 * small, Start: 92, End: 95}, // above all: the room to go to
	}
	l := ir.Layout{Offsets: []ir.Offset{0, large, large + 2*small, 0, large, 2 * large}, Peak: 2*large + 2*small}
	if bad := violation(buffers, l); bad != "" {
		t.Fatal(bad)
	}
	out := Relax(buffers, 100, l)
	if bad := violation(buffers, out); bad != "" || out.Peak > l.Peak {
		t.Fatal(bad, out.Peak)
	}
	for _, s := range []int{1, 2} {
		for _, k := range []int{3, 4} {
			if a, b := out.Offsets[s], out.Offsets[k]; a < b+large && b < a+small {
				t.Errorf("small buffer %d at %d is in the way of the large one at %d", s, a, b)
			}
		}
	}
}
