package ir_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// asks judges constraints anew, tick by tick and pair by pair.
func asks(p *ir.Problem, l *ir.Layout) map[string]bool {
	bad := map[string]bool{}
	c := p.Constraints
	at := func(id ir.BufferID) (ir.Offset, ir.Offset) {
		return l.Offsets[id], l.Offsets[id] + ir.Offset(p.Buffers[id].Size)
	}
	meet := func(a, b ir.BufferID) bool {
		af, at1 := at(a)
		bf, bt := at(b)
		return a != b && af < bt && bf < at1
	}
	for _, x := range c.Pins {
		sum := x.Lo
		for _, id := range x.Buffers {
			from, to := at(id)
			if x.At() && from != sum || !x.At() && (from < x.Lo || to > x.Hi) {
				bad["R1"] = true
			}
			sum += to - from
		}
	}
	for _, x := range c.Regions {
		total := ir.Bytes(0)
		part := func(id ir.BufferID) int {
			if p.Sharing.On {
				return 0
			}
			return int(p.Buffers[id].Stream)
		}
		for s := range p.Streams {
			lo, hi := ir.Offset(-1), ir.Offset(-1)
			for _, id := range x.Buffers {
				if from, to := at(id); part(id) == s {
					if lo < 0 || from < lo {
						lo = from
					}
					hi = max(hi, to)
				}
			}
			if lo < 0 {
				continue
			}
			total += ir.Bytes(hi - lo)
			for i := range p.Buffers {
				id := ir.BufferID(i)
				from, to := at(id)
				if !slices.Contains(x.Buffers, id) && from < hi && lo < to {
					bad["R2"] = true
				}
				if slices.Contains(x.Buffers, id) && part(id) == s && x.Piece > 0 {
					for border := lo; border < hi; border += ir.Offset(x.Piece) {
						if from < border && border < to {
							bad["R2"] = true
						}
					}
				}
			}
		}
		if x.Size > 0 && total > x.Size {
			bad["R2"] = true
		}
	}
	for _, x := range c.Together {
		for k := range len(x.Buffers) - 1 {
			_, end := at(x.Buffers[k])
			if next, _ := at(x.Buffers[k+1]); next != end {
				bad["R3"] = true
			}
		}
	}
	for _, x := range c.Apart {
		for i, s := range x.Sets {
			for k, q := range x.Sets {
				for _, a := range s {
					for _, b := range q {
						if i != k && meet(a, b) {
							bad["R4"] = true
						}
					}
				}
			}
		}
	}
	for _, x := range c.Keeps {
		for _, a := range x.Buffers {
			for b := range p.Buffers {
				if meet(a, ir.BufferID(b)) {
					bad["R5"] = true
				}
			}
		}
	}
	for _, x := range c.Alignments {
		for _, id := range x.Buffers {
			if ir.Bytes(l.Offsets[id])%x.Bytes != 0 {
				bad["R7"] = true
			}
		}
	}
	if c.Capacity > 0 && l.Peak > c.Capacity {
		bad["R8"] = true
	}
	for _, x := range c.Guards {
		for _, a := range x.Buffers {
			held := heldTicks(p, &p.Buffers[a], x.Ticks)
			for b := range p.Buffers {
				for t := range p.L1 {
					if o := &p.Buffers[b]; meet(a, ir.BufferID(b)) && held[t] && (o.Start <= t && t < o.End || o.HeadStart <= t && t < o.HeadEnd) {
						bad["R6"] = true
					}
				}
			}
		}
	}
	// Two guarded buffers: each holds its place against the other's life, which is above; and a tick that both only hold.
	for _, x := range c.Guards {
		for _, y := range c.Guards {
			for _, a := range x.Buffers {
				for _, b := range y.Buffers {
					h, g := heldTicks(p, &p.Buffers[a], x.Ticks), heldTicks(p, &p.Buffers[b], y.Ticks)
					for t := range p.L1 {
						if meet(a, b) && h[t] && g[t] {
							bad["R6"] = true
						}
					}
				}
			}
		}
	}
	return bad
}

// heldTicks walks the program: the clock goes from the buffer's start to its death, round the loop where it is
// carried, and n ticks on.
func heldTicks(p *ir.Problem, b *ir.Buffer, n ir.Tick) []bool {
	held := make([]bool, p.L1)
	step := func(t ir.Tick) ir.Tick {
		if t++; t == p.L1 && p.L0 < p.L1 {
			return p.L0
		}
		return t
	}
	for t := b.Start; t < b.End; t++ {
		held[t] = true
	}
	for t := b.HeadStart; t < b.HeadEnd; t++ {
		held[t] = true
	}
	t := b.End
	if t == p.L1 && p.L0 < p.L1 {
		if b.Start < p.L0 {
			return held
		}
		t = p.L0
	}
	if b.HasHead() {
		t = b.HeadEnd
		if t == p.L1 {
			t = p.L0
		}
	}
	for ; n > 0 && t < p.L1; n-- {
		held[t] = true
		t = step(t)
	}
	return held
}

// On layouts that satisfy what was derived from them, with one constraint too many or one buffer moved: Verify
// and the ticks agree on which kinds are broken.
func TestConstraintsAgree(t *testing.T) {
	found := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		if len(p.Buffers) == 0 {
			return
		}
		r := testkit.Rand(rapid.Uint64().Draw(t, "seed"))
		for range 60 {
			agree(t, &r, p, found)
		}
	})
	for _, rule := range []string{"R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "ok"} {
		if found[rule] == 0 {
			t.Errorf("no case of %s was drawn: the test shows nothing", rule)
		}
	}
}

func agree(t *rapid.T, r *testkit.Rand, p *ir.Problem, found map[string]int) {
	l, _ := stack(p)
	switch r.Below(4) {
	case 0:
		l = drawLayout(t, p)
	case 1, 2:
		l = testkit.FirstFit(r, p, true)
	}
	p.Constraints = testkit.Derive(r, p, l, 8)
	testkit.Propose(r, p, l, 100, p.Constraints)
	if r.Below(2) == 0 {
		i := r.Below(len(p.Buffers))
		l.Offsets[i] += ir.Offset(ir.Align) * ir.Offset(r.Below(5))
		l.Peak = 0
		for k := range p.Buffers {
			l.Peak = max(l.Peak, ir.Bytes(l.Offsets[k])+p.Buffers[k].Size)
		}
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	v2, v3 := quadratic(p, l)
	want, got := asks(p, l), ir.Verify(p, nil, l)
	if len(got) >= 20 {
		return
	}
	for _, rule := range []string{"R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"} {
		has := slices.ContainsFunc(got, func(v ir.Violation) bool { return v.Rule == rule })
		if rule == "R6" && v2 { // what meets already is V2's alone
			continue
		}
		if has != want[rule] {
			t.Fatalf("%s: verify says %t, ticks say %t: %v", rule, has, want[rule], got)
		}
		if has {
			found[rule]++
		}
	}
	if !v2 && !v3 && len(want) == 0 {
		found["ok"]++
		if len(got) > 0 {
			t.Fatal(got)
		}
	}
}

// Four buffers that follow each other in time, in a layout where each kind of constraint holds.
func planted() (*ir.Problem, *ir.Layout) {
	p := &ir.Problem{L0: 0, L1: 8, Streams: []uint64{0}, Buffers: []ir.Buffer{
		{Size: 1024, Start: 0, End: 2}, {Size: 1024, Start: 2, End: 4}, {Size: 512, Start: 4, End: 6}, {Size: 2048, Start: 6, End: 7},
	}}
	return p, &ir.Layout{Offsets: []ir.Offset{0, 1024, 2048, 4096}, Peak: 6144}
}

// A violation of each kind, planted: the verdict names the rule and the buffers.
func TestConstraintsPlanted(t *testing.T) {
	ids := func(n ...ir.BufferID) []ir.BufferID { return n }
	for _, c := range []struct {
		name string
		c    ir.Constraints
		move func(l *ir.Layout)
		rule string
		a, b ir.BufferID
	}{
		{"pin at", ir.Constraints{Pins: []ir.Pin{{Rule: 7, Lo: 1024, Buffers: ids(1, 2)}}},
			func(l *ir.Layout) { l.Offsets[2] += 512 }, "R1", 2, ir.NoBuffer},
		{"pin inside", ir.Constraints{Pins: []ir.Pin{{Rule: 7, Lo: 0, Hi: 2048, Buffers: ids(0, 1)}}},
			func(l *ir.Layout) { l.Offsets[1] += 512 }, "R1", 1, ir.NoBuffer},
		{"region intruded", ir.Constraints{Regions: []ir.Region{{Rule: 7, Buffers: ids(0, 1)}}},
			func(l *ir.Layout) { l.Offsets[2] = 1536 }, "R2", 0, 2},
		{"region between", ir.Constraints{Regions: []ir.Region{{Rule: 7, Buffers: ids(0, 1)}}},
			func(l *ir.Layout) { l.Offsets[1] = 2560 }, "R2", 0, 2},
		{"region too large", ir.Constraints{Regions: []ir.Region{{Rule: 7, Size: 2048, Buffers: ids(0, 1)}}},
			func(l *ir.Layout) { l.Offsets[2], l.Offsets[1] = 3584, 1536 }, "R2", ir.NoBuffer, ir.NoBuffer},
		{"region across pieces", ir.Constraints{Regions: []ir.Region{{Rule: 7, Piece: 1024, Buffers: ids(0, 1)}}},
			func(l *ir.Layout) { l.Offsets[2], l.Offsets[1] = 3584, 1536 }, "R2", 1, ir.NoBuffer},
		{"together", ir.Constraints{Together: []ir.Together{{Rule: 7, Buffers: ids(0, 1, 2)}}},
			func(l *ir.Layout) { l.Offsets[2] += 512 }, "R3", 1, 2},
		{"apart", ir.Constraints{Apart: []ir.Apart{{Rule: 7, Sets: [][]ir.BufferID{ids(0, 1), ids(3)}}}},
			func(l *ir.Layout) { l.Offsets[3] = 1024 }, "R4", 1, 3},
		{"keep", ir.Constraints{Keeps: []ir.Keep{{Rule: 7, Buffers: ids(2)}}},
			func(l *ir.Layout) { l.Offsets[3] = 2048 }, "R5", 2, 3},
		{"guard", ir.Constraints{Guards: []ir.Guard{{Rule: 7, Ticks: 2, Buffers: ids(2)}}},
			func(l *ir.Layout) { l.Offsets[3] = 2048 }, "R6", 2, 3},
		{"guard round the loop", ir.Constraints{Guards: []ir.Guard{{Rule: 7, Ticks: 2, Buffers: ids(3)}}},
			func(l *ir.Layout) { l.Offsets[0] = 4096 }, "R6", 0, 3},
		{"align", ir.Constraints{Alignments: []ir.Alignment{{Rule: 7, Bytes: 2048, Buffers: ids(0, 2, 3)}}},
			func(l *ir.Layout) { l.Offsets[2] += 512 }, "R7", 2, ir.NoBuffer},
		{"capacity", ir.Constraints{Capacity: 6144, CapacityRule: 7},
			func(l *ir.Layout) { l.Offsets[3] += 512 }, "R8", ir.NoBuffer, ir.NoBuffer},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, l := planted()
			p.Constraints = &c.c
			if v := ir.Verify(p, nil, l); len(v) > 0 {
				t.Fatalf("before: %v", v)
			}
			c.move(l)
			l.Peak = 0
			for k := range p.Buffers {
				l.Peak = max(l.Peak, ir.Bytes(l.Offsets[k])+p.Buffers[k].Size)
			}
			v := ir.Verify(p, nil, l)
			if len(v) != 1 || v[0].Rule != c.rule || v[0].Asked != 7 || v[0].A != c.a || v[0].B != c.b {
				t.Fatalf("got %v %+v, want one %s of rule 7 about %d and %d", v, v, c.rule, c.a, c.b)
			}
		})
	}
}

func TestConstraintsCheck(t *testing.T) {
	ids := func(n ...ir.BufferID) []ir.BufferID { return n }
	for want, c := range map[string]ir.Constraints{
		"C1": {Pins: []ir.Pin{{Lo: 0, Buffers: ids(0, 0)}}},
		"C2": {Pins: []ir.Pin{{Lo: 100, Buffers: ids(0)}}},
		"C3": {Apart: []ir.Apart{{Sets: [][]ir.BufferID{ids(0), ids(4)}}}},
		"C4": {Guards: []ir.Guard{{Ticks: 0, Buffers: ids(0)}}},
		"C5": {Alignments: []ir.Alignment{{Bytes: 1536, Buffers: ids(0)}}},
		"C6": {Pins: []ir.Pin{{Lo: 512, Hi: 512, Buffers: ids(0)}}},
		"C7": {Keeps: []ir.Keep{{}}},
		"C8": {Capacity: -1},
	} {
		p := &ir.Problem{L0: 1, L1: 1, Streams: []uint64{0}, Buffers: []ir.Buffer{{Size: 512, Start: 0, End: 1}},
			Entries: []ir.Entry{{MinSize: 512, MaxSize: 512, Kind: ir.Transient}}}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		p.Constraints = &c
		if p.Check() == nil {
			t.Errorf("case %s passes", want)
		}
	}
}

// A plan that would lend what is kept, or a part of it, is refused; pieces that touch keep as well as one.
func TestVerifyKept(t *testing.T) {
	p, l := planted()
	p.Constraints = &ir.Constraints{Keeps: []ir.Keep{{Rule: 3, Buffers: []ir.BufferID{2}}}, Regions: []ir.Region{{Rule: 4, Buffers: []ir.BufferID{0, 1}}}}
	kept := func(ranges ...[2]int64) *ir.Plan {
		plan := &ir.Plan{Slots: []ir.Slot{{Lo: 0, Hi: 8192, Flags: ir.SlotPlanned}}}
		for _, r := range ranges {
			plan.Slots = append(plan.Slots, ir.Slot{Lo: r[0], Hi: r[1] - r[0], Flags: ir.SlotPlanned | ir.SlotKept})
		}
		return plan
	}
	for _, c := range []struct {
		plan *ir.Plan
		want []ir.RuleID
	}{
		{kept([2]int64{0, 2048}, [2]int64{2048, 2560}), nil},
		{kept([2]int64{2048, 2560}, [2]int64{1024, 2048}, [2]int64{0, 1024}), nil},
		{kept([2]int64{0, 8192}), nil},
		{kept([2]int64{0, 2048}), []ir.RuleID{3}},
		{kept([2]int64{2048, 2560}, [2]int64{0, 1024}), []ir.RuleID{4}},
		{kept([2]int64{512, 2560}), []ir.RuleID{4}},
		{kept([2]int64{0, 2304}), []ir.RuleID{3}},
		{kept(), []ir.RuleID{3, 4}},
	} {
		var got []ir.RuleID
		for _, v := range ir.VerifyKept(p, l, c.plan) {
			if v.Rule != "R9" {
				t.Errorf("%v", v)
			}
			got = append(got, v.Asked)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: rules %v, want %v", c.plan.Slots[1:], got, c.want)
		}
	}
}
