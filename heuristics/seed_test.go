package heuristics

import (
	"slices"
	"testing"

	"stweaver/ir"
)

// Another seed draws other tries, valid ones, and always the same; no seed draws the usual ones.
func TestSeed(t *testing.T) {
	differ := false
	for _, s := range shapes {
		p := s.draw(1, 120)
		offsets := func(asked uint64) []ir.Offset {
			in := newInstance(p.buffers, p.horizon)
			in.seed = asked
			w := newBench(in)
			if !sample(2)(w) {
				t.Fatalf("%s: a drawn try did not end", s.name)
			}
			l := ir.Layout{Offsets: slices.Clone(w.offsets), Peak: ir.Bytes(w.peak)}
			if bad := violation(p.buffers, l); bad != "" {
				t.Fatalf("%s: %s", s.name, bad)
			}
			return l.Offsets
		}
		usual, other := offsets(0), offsets(7)
		if !slices.Equal(usual, offsets(0)) || !slices.Equal(other, offsets(7)) {
			t.Fatalf("%s: one seed, two answers", s.name)
		}
		differ = differ || !slices.Equal(usual, other)
	}
	if !differ {
		t.Error("the seed changes nothing")
	}
}
