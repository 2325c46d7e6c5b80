package ir_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
)

func drawPlan(t *rapid.T) *ir.Plan {
	p := drawProblem(t)
	l, streams := stack(p)
	var needs [][]ir.NeedRange
	listOf := make([]uint32, len(p.Entries))
	if l.Peak >= 4*ir.Align {
		needs = [][]ir.NeedRange{{{Begin: 0, End: 512}}, {{Begin: 512, End: 1024}, {Begin: 1024, End: 2048}}}
		for k := range listOf {
			listOf[k] = uint32(k % 3)
		}
	}
	plan := ir.NewPlan(p, l, streams, needs, listOf)
	plan.Profile[3] = 7
	if i := rapid.IntRange(-1, len(plan.Slots)-1).Draw(t, "kept"); i >= 0 && plan.Slots[i].Flags&ir.SlotPlanned != 0 {
		s := plan.Slots[i]
		s.Flags = ir.SlotPlanned | ir.SlotKept
		plan.Slots = append(plan.Slots, s)
	}
	if rapid.Bool().Draw(t, "shared") {
		plan.SharedAge = rapid.Uint32().Draw(t, "age")
		for i := range plan.Streams {
			if s := &plan.Streams[i]; plan.SharedAge != 0 && s.Begin < s.End {
				s.Begin = 0
			}
		}
	}
	plan.Bound, _ = p.LivePeak()
	plan.Info = []ir.Fact{{Key: "version", Value: "1"}, {Key: "note", Value: "two words: and a colon"}}
	return plan
}

func TestPlanRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawPlan(t)
		data, err := ir.EncodePlan(plan)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ir.DecodePlan(data)
		if err != nil {
			t.Fatal(err)
		}
		if !same(again, plan) {
			t.Fatalf("decoded plan differs:\n%+v\n%+v", again, plan)
		}
		twice, err := ir.EncodePlan(again)
		if err != nil || !bytes.Equal(twice, data) {
			t.Fatal("encoding is not a function of the plan")
		}
	})
}

func TestLayoutOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		l, streams := stack(p)
		plan := ir.NewPlan(p, l, streams, nil, nil)
		got, err := plan.LayoutOf(p)
		if err != nil {
			t.Fatal(err)
		}
		if !same(got, l) {
			t.Fatalf("layout %v, was %v", got, l)
		}
		if len(p.Entries) > 0 {
			q := *p
			q.Entries = append(q.Entries[:0:0], q.Entries...)
			q.Entries[0].MaxSize += ir.Align
			q.Entries[0].Stream++
			if _, err := plan.LayoutOf(&q); err == nil {
				t.Fatal("a plan of another problem was accepted")
			}
		}
	})
}

// smallPlan has one entry of each sort and every section.
func smallPlan(t testing.TB) (*ir.Plan, []byte) {
	plan := &ir.Plan{
		Arena: 4096, Bound: 4096, Capacity: 1 << 30, LoopStart: 1,
		Slots:   []ir.Slot{{Lo: 0, Hi: 2048, Flags: ir.SlotPlanned, Varies: 3}, {Lo: 512, Hi: 1024, Stream: 1, List: 2}, {Lo: 2048, Hi: 512, Stream: 1, Flags: ir.SlotPlanned}},
		Entries: []ir.PlanEntry{{Slot: 0, Life: 3, NfMin: 0, NfMax: 1, Firm: true}, {Slot: 1, Life: 1, NfMin: 3, NfMax: 3}, {Slot: 2, Life: ir.MaxLife}},
		Streams: []ir.PlanStream{{Handle: 0, Begin: 0, End: 2048}, {Handle: 9, Begin: 2048, End: 4096}},
		Marks:   []ir.PlanMark{{Entry: 1, Kind: ir.MarkIteration, Value: 1}, {Entry: 3, Kind: ir.MarkPhase, Name: ir.HashName("F")}},
		Info:    []ir.Fact{{Key: "a", Value: "b"}},
		Needs:   [][]ir.NeedRange{{}, {{Begin: 512, End: 1024}, {Begin: 2048, End: 4096}}},
	}
	data, err := ir.EncodePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	return plan, data
}

func seal(data []byte) []byte {
	binary.LittleEndian.PutUint32(data[24:], 0)
	binary.LittleEndian.PutUint32(data[24:], crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	return data
}

func TestDecodePlanRefuses(t *testing.T) {
	le := binary.LittleEndian
	_, good := smallPlan(t)
	section := func(d []byte, i int) []byte { return d[128+24*i:] }
	body := func(d []byte, i int) []byte { return d[le.Uint64(section(d, i)[8:]):] }
	for _, c := range []struct {
		rule string
		edit func(d []byte) []byte
	}{
		{"F1", func(d []byte) []byte { return d[:100] }},
		{"F1", func(d []byte) []byte { return d[:9] }},
		{"F2", func(d []byte) []byte { d[4] = '\n'; return d }},
		{"F2", func(d []byte) []byte { return nil }},
		{"F3", func(d []byte) []byte { d[8] = 2; return d[:20] }},
		{"F4", func(d []byte) []byte { d[12] = 120; return d }},
		{"F5", func(d []byte) []byte { return d[:len(d)-8] }},
		{"F6", func(d []byte) []byte { d[200] ^= 1; return d }},
		{"F7", func(d []byte) []byte { le.PutUint32(d[88:], 256); return seal(d) }},
		{"F8", func(d []byte) []byte { le.PutUint32(d[100:], 1<<28); return seal(d) }},
		{"F9", func(d []byte) []byte { le.PutUint32(d[92:], 257); return seal(d) }},
		{"F10", func(d []byte) []byte { le.PutUint32(d[96:], 1<<28); return seal(d) }},
		{"F11", func(d []byte) []byte { le.PutUint32(d[104:], 4); return seal(d) }},
		{"F12", func(d []byte) []byte { le.PutUint64(d[72:], 100); return seal(d) }},
		{"F12", func(d []byte) []byte { le.PutUint64(d[72:], 1<<41); return seal(d) }},
		{"F13", func(d []byte) []byte { d[120] = 1; return seal(d) }},
		{"F14", func(d []byte) []byte { le.PutUint32(d[28:], 1<<30); return seal(d) }},
		{"F15", func(d []byte) []byte { le.PutUint32(section(d, 1)[4:], 2); return seal(d) }},
		{"F16", func(d []byte) []byte { le.PutUint64(section(d, 1)[8:], 1<<60); return seal(d) }},
		{"F16", func(d []byte) []byte { le.PutUint64(section(d, 1)[8:], 8); return seal(d) }},
		{"F17", func(d []byte) []byte { body(d, 4)[5] = 1; return seal(d) }},
		{"F18", func(d []byte) []byte { le.PutUint32(section(d, 1), 77); return seal(d) }},
		{"F19", func(d []byte) []byte { le.PutUint32(section(d, 1), 1); return seal(d) }},
		{"F20", func(d []byte) []byte { le.PutUint32(d[100:], 2); return seal(d) }},
		{"F20", func(d []byte) []byte { s := section(d, 3); le.PutUint32(s, 99); le.PutUint32(s[4:], 1); return seal(d) }},
		{"F21", func(d []byte) []byte { le.PutUint64(body(d, 2)[16:], 1<<40); return seal(d) }},
		{"F22", func(d []byte) []byte { le.PutUint64(body(d, 2)[16:], 4096); return seal(d) }},
		{"F23", func(d []byte) []byte { body(d, 0)[10] = 2; return seal(d) }},
		{"F24", func(d []byte) []byte { body(d, 0)[11] = 0x81; return seal(d) }},
		{"F25", func(d []byte) []byte { le.PutUint32(body(d, 0)[4:], 0); return seal(d) }},
		{"F26", func(d []byte) []byte { le.PutUint32(body(d, 0)[4:], 5); return seal(d) }},
		{"F33", func(d []byte) []byte { le.PutUint32(body(d, 5), 9); return seal(d) }},
		{"F33", func(d []byte) []byte { le.PutUint32(body(d, 5)[12:], 1); return seal(d) }},
		{"F34", func(d []byte) []byte { le.PutUint32(body(d, 5)[8:], 7); return seal(d) }},
		{"F34", func(d []byte) []byte { le.PutUint32(body(d, 5)[20:], 99); return seal(d) }},
		{"F35", func(d []byte) []byte { le.PutUint16(body(d, 0)[12+8:], 3); return seal(d) }},
		{"F27", func(d []byte) []byte { le.PutUint32(body(d, 0)[12:], 9); return seal(d) }},
		{"F28", func(d []byte) []byte { le.PutUint32(body(d, 1), 3); return seal(d) }},
		{"F29", func(d []byte) []byte { le.PutUint32(body(d, 1)[4:], 3<<28); return seal(d) }},
		{"F30", func(d []byte) []byte { le.PutUint32(body(d, 3), 4); return seal(d) }},
		{"F31", func(d []byte) []byte { le.PutUint32(body(d, 3)[4:], 3); return seal(d) }},
		{"F32", func(d []byte) []byte { body(d, 3)[16] = 1; return seal(d) }},
		{"F40", func(d []byte) []byte { body(d, 4)[0] = 0xff; return seal(d) }},
		{"F40", func(d []byte) []byte { body(d, 4)[1] = ';'; return seal(d) }},
		{"F41", func(d []byte) []byte { le.PutUint64(d[64:], 1<<63); return seal(d) }},
	} {
		_, err := ir.DecodePlan(c.edit(bytes.Clone(good)))
		var pe *ir.PlanError
		if !errors.As(err, &pe) || pe.Rule != c.rule {
			t.Errorf("want %s, got %v", c.rule, err)
		}
		if pe != nil && pe.Version != (c.rule == "F3") {
			t.Errorf("%s: version mismatch said: %t", c.rule, pe.Version)
		}
	}
	// Streams that share the arena may overlap.
	d := bytes.Clone(good)
	le.PutUint64(body(d, 2)[16:], 4096)
	le.PutUint32(d[112:], 501)
	if p, err := ir.DecodePlan(seal(d)); err != nil || p.SharedAge != 501 || p.Streams[0].End != 4096 {
		t.Errorf("streams that share: %v", err)
	}
	// A section that a newer program added, marked optional, is skipped.
	d = bytes.Clone(good)
	le.PutUint32(section(d, 4), 77)
	if p, err := ir.DecodePlan(seal(d)); err != nil || len(p.Info) != 0 {
		t.Errorf("optional unknown section: %v", err)
	}
}

func TestEncodePlanRefuses(t *testing.T) {
	for _, s := range []ir.Slot{{Lo: 1, Hi: 512}, {Lo: 0, Hi: 1 << 42}, {Lo: -512, Hi: 512}} {
		if _, err := ir.EncodePlan(&ir.Plan{Slots: []ir.Slot{s}}); err == nil || !strings.Contains(err.Error(), "slot 0") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestStepBytes(t *testing.T) {
	plan, _ := smallPlan(t)
	if b, n := plan.StepBytes(); b != 2*8+2*12 || n != 2 {
		t.Errorf("step: %d bytes for %d requests", b, n)
	}
	plan.LoopStart = 3
	if b, n := plan.StepBytes(); b != 3*8+3*12 || n != 3 {
		t.Errorf("pass: %d bytes for %d requests", b, n)
	}
}

func FuzzDecodePlan(f *testing.F) {
	_, good := smallPlan(f)
	f.Add(good)
	f.Add(good[:128])
	paths, err := filepath.Glob("../testdata/plans/*.plan") // as the compiler writes them: a test there keeps them so
	if err != nil || len(paths) == 0 {
		f.Fatalf("no plans: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		try := func(d []byte) {
			p, err := ir.DecodePlan(d)
			if err != nil {
				return
			}
			again, err := ir.EncodePlan(p)
			if err != nil {
				t.Fatalf("a decoded plan does not encode: %v", err)
			}
			q, err := ir.DecodePlan(again)
			if err != nil || !same(p, q) {
				t.Fatalf("decode, encode, decode: %v", err)
			}
		}
		try(data)
		if len(data) >= 128 { // past the checksum
			try(seal(bytes.Clone(data)))
		}
	})
}
