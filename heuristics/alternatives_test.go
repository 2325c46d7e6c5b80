package heuristics

import (
	"reflect"
	"slices"
	"testing"

	"stweaver/ir"
)

// Alternatives are valid, no higher than asked, different from each other and from the known one, and
// the same on every call.
func TestAlternatives(t *testing.T) {
	found := 0
	for _, s := range shapes {
		for seed := range uint64(8) {
			p := s.draw(seed, 120)
			known := Pack(p.buffers, p.horizon, Options{}).Layout
			out := Alternatives(p.buffers, p.horizon, known.Peak, known, 3, Options{})
			if again := Alternatives(p.buffers, p.horizon, known.Peak, known, 3, Options{}); !reflect.DeepEqual(out, again) {
				t.Fatalf("%s %d: two calls, two answers", s.name, seed)
			}
			if len(out) > 3 {
				t.Fatalf("%s %d: %d layouts, 3 were asked for", s.name, seed, len(out))
			}
			seen := [][]ir.Offset{known.Offsets}
			for _, a := range out {
				if bad := violation(p.buffers, a.Layout); bad != "" {
					t.Fatalf("%s %d: %s: %s", s.name, seed, a.Packer, bad)
				}
				if a.Layout.Peak > known.Peak {
					t.Fatalf("%s %d: %s: peak %d above %d", s.name, seed, a.Packer, a.Layout.Peak, known.Peak)
				}
				if slices.ContainsFunc(seen, func(o []ir.Offset) bool { return slices.Equal(o, a.Layout.Offsets) }) {
					t.Fatalf("%s %d: %s: a layout twice", s.name, seed, a.Packer)
				}
				seen = append(seen, a.Layout.Offsets)
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no shape has a second layout")
	}
}
