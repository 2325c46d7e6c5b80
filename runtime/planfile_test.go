//go:build cgo

package stwrt_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"stweaver/ir"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// distinct is a plan in which every field has a value of its own.
func distinct(t *testing.T) (*ir.Plan, []byte) {
	t.Helper()
	p := &ir.Plan{
		Capacity: 0x1122334455, Arena: 0x6000, Bound: 0x5e00, LoopStart: 1, SharedAge: 501,
		Slots: []ir.Slot{{Lo: 0x1200, Hi: 0x3400, Stream: 1, Flags: ir.SlotPlanned | ir.SlotOptional, Varies: 0x8765}, {Lo: 0x200, Hi: 0x400, List: 1}},
		Entries: []ir.PlanEntry{{Slot: 1, Life: 0x123456, NfMin: 1, NfMax: 2}, {Slot: 0, Life: 7, Firm: true, NfMin: 0, NfMax: 3},
			{Slot: 1, Life: ir.MaxLife, NfMin: 3, NfMax: 3}},
		Streams: []ir.PlanStream{{Handle: 0, Begin: 0, End: 0x1000}, {Handle: 0x77665544332211, Begin: 0x1000, End: 0x6000}},
		Marks:   []ir.PlanMark{{Entry: 1, Kind: ir.MarkIteration, Value: -5}, {Entry: 2, Kind: ir.MarkPhase, Name: 0x8877665544332211}},
		Info:    []ir.Fact{{Key: "a", Value: "b"}},
		Needs:   [][]ir.NeedRange{{{Begin: 0, End: 0x200}, {Begin: 0x1000, End: 0x6000}}},
	}
	for i := range p.Profile {
		p.Profile[i] = byte(0xa0 + i)
	}
	data, err := ir.EncodePlan(p)
	if err != nil {
		t.Fatal(err)
	}
	return p, data
}

// TestPlanLayout holds the Go codec against the C structs: every field lies where the header has
// it, with the width it has there.
func TestPlanLayout(t *testing.T) {
	p, data := distinct(t)
	structs := stwrt.StructSizes()
	le := binary.LittleEndian
	get := func(at uintptr, width int) uint64 {
		var b [8]byte
		copy(b[:width], data[at:])
		return le.Uint64(b[:])
	}
	seen := make(map[string]bool)
	check := func(name, field string, base uintptr, width int, want uint64) {
		t.Helper()
		off, ok := structs[name].Offsets[field]
		if !ok {
			t.Errorf("%s has no field %s", name, field)
			return
		}
		seen[name+"."+field] = true
		if got := get(base+off, width); got != want {
			t.Errorf("%s.%s at byte %d is %#x, want %#x", name, field, base+off, got, want)
		}
	}
	const header = "stw_plan_header"
	check(header, "magic", 0, 8, le.Uint64([]byte("\x93STW\r\n\x1a\n")))
	check(header, "major", 0, 2, 1)
	check(header, "minor", 0, 2, 0)
	check(header, "header_bytes", 0, 4, uint64(structs[header].Size))
	check(header, "file_bytes", 0, 8, uint64(len(data)))
	check(header, "crc32c", 0, 4, uint64(checksum(data)))
	check(header, "n_sections", 0, 4, 6)
	check(header, "profile", 0, 8, le.Uint64(p.Profile[:]))
	check(header, "capacity_bytes", 0, 8, uint64(p.Capacity))
	check(header, "arena_bytes", 0, 8, uint64(p.Arena))
	check(header, "bound_bytes", 0, 8, uint64(p.Bound))
	check(header, "align", 0, 4, 512)
	check(header, "n_streams", 0, 4, 2)
	check(header, "n_slots", 0, 4, 2)
	check(header, "n_entries", 0, 4, 3)
	check(header, "loop_start", 0, 4, 1)
	check(header, "n_marks", 0, 4, 2)
	check(header, "shared_age", 0, 4, 501)
	check(header, "reserved", 0, 8, 0)

	table := structs[header].Size
	at := make(map[uint64]uintptr) // where each kind of section is
	for i := range uintptr(6) {
		base := table + i*structs["stw_plan_section"].Size
		kind := get(base+structs["stw_plan_section"].Offsets["kind"], 4)
		at[kind] = uintptr(get(base+structs["stw_plan_section"].Offsets["offset"], 8))
		flags := uint64(0)
		if kind >= 5 {
			flags = 1
		}
		check("stw_plan_section", "kind", base, 4, uint64(i+1))
		check("stw_plan_section", "flags", base, 4, flags)
		check("stw_plan_section", "offset", base, 8, uint64(at[kind]))
		bytes := map[uint64]uint64{1: 2 * 12, 2: 3 * 8, 3: 2 * 24, 4: 2 * 24, 5: 5, 6: 4 * 7}[kind]
		check("stw_plan_section", "bytes", base, 8, bytes)
	}
	for i, s := range p.Slots {
		base := at[1] + uintptr(i)*structs["stw_plan_slot"].Size
		check("stw_plan_slot", "lo", base, 4, uint64(s.Lo)/512)
		check("stw_plan_slot", "hi", base, 4, uint64(s.Hi)/512)
		check("stw_plan_slot", "aux", base, 2, uint64(s.List)|uint64(s.Varies))
		check("stw_plan_slot", "stream", base, 1, uint64(s.Stream))
		check("stw_plan_slot", "flags", base, 1, uint64(s.Flags))
	}
	for i, e := range p.Entries {
		base := at[2] + uintptr(i)*structs["stw_plan_entry"].Size
		check("stw_plan_entry", "slot", base, 4, uint64(e.Slot))
		firm := uint64(0)
		if e.Firm {
			firm = 1 << 27
		}
		check("stw_plan_entry", "life_nf", base, 4, uint64(e.Life)|firm|uint64(e.NfMin)<<28|uint64(e.NfMax)<<30)
	}
	for i, s := range p.Streams {
		base := at[3] + uintptr(i)*structs["stw_plan_stream"].Size
		check("stw_plan_stream", "handle", base, 8, s.Handle)
		check("stw_plan_stream", "begin", base, 8, uint64(s.Begin))
		check("stw_plan_stream", "end", base, 8, uint64(s.End))
	}
	for i, m := range p.Marks {
		base := at[4] + uintptr(i)*structs["stw_plan_mark"].Size
		check("stw_plan_mark", "entry", base, 4, uint64(m.Entry))
		check("stw_plan_mark", "kind", base, 4, uint64(m.Kind))
		check("stw_plan_mark", "value", base, 8, uint64(m.Value))
		check("stw_plan_mark", "name", base, 8, m.Name)
	}
	for name, s := range structs {
		for field := range s.Offsets {
			if !seen[name+"."+field] {
				t.Errorf("%s.%s is not compared", name, field)
			}
		}
	}
}

func checksum(data []byte) uint32 {
	d := append([]byte(nil), data...)
	binary.LittleEndian.PutUint32(d[24:], 0)
	return crc32.Checksum(d, crc32.MakeTable(crc32.Castagnoli))
}

// verdicts returns the rule that each reader says the bytes break, 0 for a good plan.
func verdicts(t *testing.T, data []byte) (goRule, cRule int) {
	t.Helper()
	if _, err := ir.DecodePlan(data); err != nil {
		var pe *ir.PlanError
		if !errors.As(err, &pe) {
			t.Fatalf("ir: %v", err)
		}
		fmt.Sscanf(pe.Rule, "F%d", &goRule)
	}
	a, err := stwrt.New(data, stwrt.Options{Granularity: 4096, HeapBytes: 1 << 30})
	switch {
	case err == nil:
		a.Close()
	case errors.Is(err, stwrt.ErrMemory):
	default:
		if i := strings.Index(err.Error(), "plan: P"); i >= 0 {
			fmt.Sscanf(err.Error()[i:], "plan: P%d", &cRule)
		} else {
			t.Fatalf("C: %v", err)
		}
	}
	return goRule, cRule
}

// agree fails unless both readers name the same rule. 40 and 41 are Go's own.
func agree(t *testing.T, data []byte, what string) int {
	t.Helper()
	g, c := verdicts(t, data)
	if g == 40 || g == 41 {
		g = 0
	}
	if g == 2 && len(data) < 8 {
		g = 1 // too short to have a magic: C says so
	}
	if g == 2 && c == 1 && len(data) < 12 {
		g = 1
	}
	if g != c {
		t.Errorf("%s: Go says rule %d, C says %d", what, g, c)
	}
	return g
}

// TestVerdictsAgree damages plans in every byte, at every length, and at random, with the
// checksum made good: Go and C break off at the same rule.
func TestVerdictsAgree(t *testing.T) {
	_, good := distinct(t)
	seen := make(map[int]int)
	for n := 1; n < len(good); n++ { // no bytes at all are no plan
		seen[agree(t, good[:n], fmt.Sprintf("cut to %d bytes", n))]++
	}
	for i := range good {
		for _, x := range []byte{1, 0x80, 0xff} {
			d := append([]byte(nil), good...)
			d[i] ^= x
			if i < 24 || i >= 28 {
				binary.LittleEndian.PutUint32(d[24:], checksum(d))
			}
			seen[agree(t, d, fmt.Sprintf("byte %d xor %#x", i, x))]++
		}
	}
	for name, plan := range kept(t) {
		if v := agree(t, plan, name); v != 0 {
			t.Errorf("%s: rule %d", name, v)
		}
		for i := range plan {
			if i >= 256 && i%7 > 0 {
				continue // every byte of the header and the table, then some
			}
			for _, x := range []byte{1, 0x80} {
				d := append([]byte(nil), plan...)
				d[i] ^= x
				if i < 24 || i >= 28 {
					binary.LittleEndian.PutUint32(d[24:], checksum(d))
				}
				seen[agree(t, d, fmt.Sprintf("%s: byte %d xor %#x", name, i, x))]++
			}
		}
	}
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		r := plantest.Seeded(seed)
		c := plantest.New(r, plantest.Config{Entries: 12, Streams: 3, Guests: true, Shared: seed%2 == 1})
		d := plantest.Encode(c.Plan)
		for range 1 + seed%3 {
			at := int((seed*2654435761 + 97*seed*seed) % uint64(len(d)))
			d[at] = byte(seed >> 3)
			seed = seed*6364136223846793005 + 1442695040888963407
		}
		binary.LittleEndian.PutUint32(d[24:], checksum(d))
		seen[agree(t, d, fmt.Sprintf("seed %d", seed))]++
	}
	if seen[0] == 0 || len(seen) < 20 {
		t.Errorf("only %d verdicts were reached: %v", len(seen), seen)
	}
}
