package testkit

import (
	"reflect"
	"slices"
	"testing"

	"stweaver/ir"
)

// TestGenerators checks what each generator promises: order, alignment, lives inside the
// horizon, heads before their main piece, the same problem from the same seed.
func TestGenerators(t *testing.T) {
	type made struct {
		b []ir.Buffer
		h ir.Tick
	}
	gens := map[string]func(seed uint64) made{
		"random": func(s uint64) made { b, h := Random(s, 300, 64, 40); return made{b, h} },
		"nested": func(s uint64) made { b, h := Nested(s, 300, 64); return made{b, h} },
		"rectangle": func(s uint64) made {
			b, h, _ := Rectangle(s, 100, 300, 200)
			return made{b, h}
		},
		"periodic": func(s uint64) made { b, h := Periodic(s, 12, 64, 40, 3, 8); return made{b, h} },
		"pipeline": func(s uint64) made {
			b, h := Pipeline(s, Schedule{Layers: 3, Micro: 4, Warm: 2, Iterations: 2, Recompute: s%2 == 0, Uneven: true, Prefetch: s%3 == 0})
			return made{b, h}
		},
		"loop": func(s uint64) made { b, _, h := Loop(s, 300, 64, 5); return made{b, h} },
	}
	for name, gen := range gens {
		heads := 0
		for seed := range uint64(20) {
			m := gen(seed)
			if !reflect.DeepEqual(m, gen(seed)) {
				t.Fatalf("%s: seed %d gives two problems", name, seed)
			}
			if !slices.IsSortedFunc(m.b, func(a, b ir.Buffer) int { return int(a.Start - b.Start) }) {
				t.Errorf("%s: not ordered by start", name)
			}
			for i, b := range m.b {
				if b.Size <= 0 || b.Size%ir.Align != 0 || b.Start < 0 || b.End <= b.Start || b.End > m.h || b.Kind == 0 {
					t.Fatalf("%s: buffer %d: %+v of %d ticks", name, i, b, m.h)
				}
				if b.HasHead() {
					heads++
					if b.HeadEnd > b.Start || b.HeadStart < 0 || b.End != m.h || b.Kind != ir.Carried {
						t.Fatalf("%s: buffer %d: %+v", name, i, b)
					}
				}
			}
		}
		if (heads > 0) != (name == "loop") {
			t.Errorf("%s: %d heads", name, heads)
		}
		if reflect.DeepEqual(gen(1), gen(3)) {
			t.Errorf("%s: the seed changes nothing", name)
		}
	}
}

// TestRectangle: the pieces fill the rectangle at every tick, so its height is the optimum.
func TestRectangle(t *testing.T) {
	b, h, opt := Rectangle(9, 80, 500, 60)
	if len(b) != 80 {
		t.Errorf("%d pieces", len(b))
	}
	for tick := range h {
		var live ir.Bytes
		for i := range b {
			if b[i].Start <= tick && tick < b[i].End {
				live += b[i].Size
			}
		}
		if live != opt {
			t.Fatalf("%d bytes at %d, want %d", live, tick, opt)
		}
	}
}

// TestNested: lives are nested or apart.
func TestNested(t *testing.T) {
	b, _ := Nested(4, 200, 10)
	for i := range b {
		for j := range i {
			if b[j].Start < b[i].Start && b[i].Start < b[j].End && b[j].End < b[i].End {
				t.Fatalf("%+v and %+v cross", b[j], b[i])
			}
		}
	}
}
