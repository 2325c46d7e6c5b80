package solver

import (
	"slices"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// layoutUnder tries all addresses below most units and returns a layout that obeys, or nil.
func layoutUnder(p *ir.Problem, c *ir.Constraints, most int) *ir.Layout {
	q := *p
	q.Constraints = c
	l := &ir.Layout{Offsets: make([]ir.Offset, len(p.Buffers))}
	var place func(k int) bool
	place = func(k int) bool {
		if k == len(p.Buffers) {
			l.Peak = 0
			for i := range p.Buffers {
				l.Peak = max(l.Peak, ir.Bytes(l.Offsets[i])+p.Buffers[i].Size)
			}
			return len(ir.Verify(&q, nil, l)) == 0
		}
		for at := range most {
			l.Offsets[k] = ir.Offset(at) * ir.Offset(ir.Align)
			clash := false
			for i := range k {
				clash = clash || p.Buffers[i].Overlaps(&p.Buffers[k]) && l.Offsets[i] < l.Offsets[k]+ir.Offset(p.Buffers[k].Size) && l.Offsets[k] < l.Offsets[i]+ir.Offset(p.Buffers[i].Size)
			}
			if !clash && place(k+1) {
				return true
			}
		}
		return false
	}
	if place(0) {
		return l
	}
	return nil
}

// contradictory makes a tiny problem with constraints of two layouts that have nothing to do with each other, or of none.
func contradictory(r *testkit.Rand) *ir.Problem {
	n := 2 + r.Below(3)
	p := &ir.Problem{Streams: []uint64{0}}
	p.Buffers, p.L1 = testkit.Random(r.Next(), n, 3, 4)
	p.L0 = p.L1 * ir.Tick(r.Below(2))
	if p.L0 == 0 && r.Below(2) == 0 { // one that is carried
		b := &p.Buffers[n-1]
		if b.End = p.L1; b.Start > 0 {
			b.HeadStart, b.HeadEnd = 0, 1
		}
	}
	if r.Below(3) == 0 {
		p.Streams = append(p.Streams, 7)
		p.Sharing.On = r.Below(2) == 0
		for i := range p.Buffers {
			p.Buffers[i].Stream = ir.StreamID(r.Below(2))
		}
	}
	p.Constraints = &ir.Constraints{}
	for rule := range 2 + r.Below(3) {
		l := testkit.FirstFit(r, p, true)
		for i := range l.Offsets {
			l.Offsets[i] += ir.Offset(ir.Align) * ir.Offset(r.Below(2))
		}
		if r.Below(8) == 0 {
			l.Peak = ir.Align * ir.Bytes(1+r.Below(5))
		}
		testkit.Propose(r, p, l, ir.RuleID(10+rule), p.Constraints)
	}
	for i := range p.Constraints.Alignments { // all addresses are tried: few must do
		x := &p.Constraints.Alignments[i]
		x.Bytes = min(x.Bytes, 4*ir.Align)
	}
	return p
}

// All addresses tried say: rules that are said to contradict each other do, and without any of them they do not; and
// nearly all contradictions are found.
func TestConflictTiny(t *testing.T) {
	const most = 13
	r := testkit.Rand(3)
	bad, missed, sizes := 0, 0, map[int]int{}
	for range 600 {
		p := contradictory(&r)
		all := p.Constraints
		l := layoutUnder(p, all, most)
		c := FindConflict(p, ConflictOptions{})
		if c == nil {
			if l == nil {
				missed++
				pieces := slices.ContainsFunc(all.Regions, func(x ir.Region) bool { return x.Piece > 0 })
				if !pieces && layoutUnder(p, all, most+8) == nil {
					t.Fatalf("no layout and no conflict: %+v %+v", p.Buffers, all)
				}
			}
			continue
		}
		if l != nil {
			t.Fatalf("rules %v (%s) are obeyed by %v: %+v %+v", c.Rules, c.Why, l, p.Buffers, all)
		}
		bad++
		sizes[len(c.Rules)]++
		in := func(id ir.RuleID) bool { return slices.Contains(c.Rules, id) }
		if l := layoutUnder(p, all.Only(in), most); l != nil {
			t.Fatalf("rules %v (%s) alone are obeyed by %v: %+v %+v", c.Rules, c.Why, l, p.Buffers, all)
		}
		for _, out := range c.Rules {
			less := all.Only(func(id ir.RuleID) bool { return in(id) && id != out })
			if !c.Minimal || layoutUnder(p, less, most+4) == nil {
				t.Fatalf("rules %v (%s, minimal: %t) are too many: without %d there is no layout either: %+v %+v", c.Rules, c.Why, c.Minimal, out, p.Buffers, all)
			}
		}
	}
	t.Logf("%d contradictions, by number of rules: %v; %d missed", bad, sizes, missed)
	if bad < 60 || len(sizes) < 3 {
		t.Error("the test shows little")
	}
}

// What is read off a layout contradicts nothing.
func TestNoConflict(t *testing.T) {
	asked := 0
	for seed := range uint64(50) {
		r := testkit.Rand(seed)
		p := &ir.Problem{Streams: []uint64{0, 7}[:1+r.Below(2)]}
		if seed%2 == 0 {
			p.Buffers, p.L0, p.L1 = testkit.Loop(seed, 8+r.Below(60), 24, 5)
		} else {
			p.Buffers, p.L1, _ = testkit.Rectangle(seed, 1+r.Below(60), 60, 40)
			p.L0 = p.L1
		}
		for i := range p.Buffers {
			p.Buffers[i].Stream = ir.StreamID(r.Below(len(p.Streams)))
		}
		l := testkit.FirstFit(&r, p, true)
		p.Constraints = testkit.Derive(&r, p, l, 16)
		asked += len(p.Constraints.RuleIDs())
		if c := FindConflict(p, ConflictOptions{}); c != nil {
			t.Fatalf("seed %d: rules %v: %s", seed, c.Rules, c.Why)
		}
	}
	if asked < 100 {
		t.Errorf("only %d rules", asked)
	}
}
