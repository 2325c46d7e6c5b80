package ir

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"
)

// DecodePlan reads a plan file. It trusts nothing: every rule that plan_load.c checks is
// checked here too, and the error is a *PlanError.
func DecodePlan(data []byte) (*Plan, error) {
	d := &planDecoder{data: data}
	p := d.decode()
	if d.err != nil {
		return nil, d.err
	}
	return p, nil
}

type planDecoder struct {
	data []byte
	err  error
}

func (d *planDecoder) fail(rule string, at int64, format string, args ...any) *Plan {
	if d.err == nil {
		d.err = &PlanError{Rule: rule, Offset: at, Msg: fmt.Sprintf(format, args...)}
	}
	return nil
}

func (d *planDecoder) decode() *Plan {
	b, le := d.data, binary.LittleEndian
	if !IsPlan(b) {
		return d.fail("F2", 0, "not a plan file (or one mangled by a text-mode transfer)")
	}
	if len(b) < headerSize {
		return d.fail("F1", int64(len(b)), "%d bytes are too few for a plan", len(b))
	}
	if major := le.Uint16(b[8:]); major != planMajor {
		d.fail("F3", 8, "plan format %d.%d, this program reads %d.x: compile the plan again", major, le.Uint16(b[10:]), planMajor)
		d.err.(*PlanError).Version = true
		return nil
	}
	if n := le.Uint32(b[12:]); n != headerSize {
		return d.fail("F4", 12, "header of %d bytes, not %d", n, headerSize)
	}
	if n := le.Uint64(b[16:]); n != uint64(len(b)) {
		return d.fail("F5", 16, "the file says it has %d bytes and has %d", n, len(b))
	}
	sum := crc32.Update(crc32.Checksum(b[:crcAt], castagnoli), castagnoli, []byte{0, 0, 0, 0})
	if sum = crc32.Update(sum, castagnoli, b[crcAt+4:]); sum != le.Uint32(b[crcAt:]) {
		return d.fail("F6", crcAt, "checksum does not match: the file is damaged")
	}
	p := &Plan{
		Capacity: Bytes(le.Uint64(b[64:])), Arena: Bytes(le.Uint64(b[72:])), Bound: Bytes(le.Uint64(b[80:])),
		LoopStart: le.Uint32(b[104:]),
	}
	copy(p.Profile[:], b[32:64])
	nStreams, nSlots, nEntries, nMarks := le.Uint32(b[92:]), le.Uint32(b[96:]), le.Uint32(b[100:]), le.Uint32(b[108:])
	switch {
	case le.Uint32(b[88:]) != uint32(Align):
		return d.fail("F7", 88, "alignment %d, not %d", le.Uint32(b[88:]), Align)
	case p.Capacity < 0 || p.Capacity > MaxSize || p.Bound < 0 || p.Bound > MaxSize:
		return d.fail("F8", 64, "an absurd capacity or bound")
	case p.Arena < 0 || p.Arena > MaxSize || p.Arena%Align != 0:
		return d.fail("F8", 72, "arena of %d bytes", p.Arena)
	case nStreams > MaxStreams || nEntries >= MaxEntries || p.LoopStart > nEntries:
		return d.fail("F9", 92, "%d streams, %d entries, loop at %d", nStreams, nEntries, p.LoopStart)
	case le.Uint64(b[112:]) != 0 || le.Uint64(b[120:]) != 0:
		return d.fail("F10", 112, "reserved bytes are not zero")
	}
	sect := d.sections(le.Uint32(b[28:]), map[uint32]uint64{
		sectSlots: uint64(nSlots) * slotSize, sectEntries: uint64(nEntries) * entrySize,
		sectStreams: uint64(nStreams) * streamSize, sectMarks: uint64(nMarks) * markSize,
	})
	if d.err != nil {
		return nil
	}
	d.streams(p, sect[sectStreams])
	d.slots(p, sect[sectSlots])
	d.entries(p, sect[sectEntries])
	d.marks(p, sect[sectMarks])
	d.info(p, sect[sectInfo])
	return p
}

type planSection struct {
	at   int64
	data []byte
}

// sections reads the table: every required kind once, with the size its count demands.
func (d *planDecoder) sections(n uint32, want map[uint32]uint64) map[uint32]planSection {
	le := binary.LittleEndian
	if uint64(n)*sectSize > uint64(len(d.data)-headerSize) {
		d.fail("F11", 28, "%d sections do not fit the file", n)
		return nil
	}
	out := make(map[uint32]planSection)
	low := uint64(headerSize) + uint64(n)*sectSize
	for i := range int64(n) {
		at := headerSize + sectSize*i
		t := d.data[at:]
		kind, flags, off, size := le.Uint32(t), le.Uint32(t[4:]), le.Uint64(t[8:]), le.Uint64(t[16:])
		bytes, known := want[kind]
		switch {
		case off%8 != 0 || off < low || off > uint64(len(d.data)) || size > uint64(len(d.data))-off:
			d.fail("F12", at, "section %d lies outside the file", kind)
		case !known && kind != sectInfo:
			if flags&optionalBit == 0 {
				d.fail("F13", at, "unknown section %d: a newer program wrote this plan", kind)
			}
		case out[kind].data != nil:
			d.fail("F14", at, "section %d is there twice", kind)
		case known && size != bytes:
			d.fail("F15", at, "section %d has %d bytes, its count says %d", kind, size, bytes)
		default:
			out[kind] = planSection{int64(off), d.data[off : off+size : off+size]}
		}
		if d.err != nil {
			return nil
		}
	}
	for _, kind := range []uint32{sectSlots, sectEntries, sectStreams, sectMarks} {
		if _, ok := out[kind]; !ok {
			d.fail("F16", 28, "section %d is missing", kind)
		}
	}
	return out
}

func (d *planDecoder) streams(p *Plan, s planSection) {
	le := binary.LittleEndian
	for i := int64(0); i < int64(len(s.data)) && d.err == nil; i += streamSize {
		b := s.data[i:]
		st := PlanStream{le.Uint64(b), Offset(le.Uint64(b[8:])), Offset(le.Uint64(b[16:]))}
		if st.Begin < 0 || st.Begin > st.End || Bytes(st.End) > p.Arena || Bytes(st.Begin)%Align != 0 || Bytes(st.End)%Align != 0 {
			d.fail("F17", s.at+i, "stream range [%d, %d) of an arena of %d", st.Begin, st.End, p.Arena)
		}
		for _, o := range p.Streams {
			if st.Begin < o.End && o.Begin < st.End {
				d.fail("F18", s.at+i, "two streams share a part of the arena")
			}
		}
		p.Streams = append(p.Streams, st)
	}
}

func (d *planDecoder) slots(p *Plan, s planSection) {
	le := binary.LittleEndian
	for i := int64(0); i < int64(len(s.data)) && d.err == nil; i += slotSize {
		b := s.data[i:]
		sl := Slot{int64(le.Uint32(b)) * int64(Align), int64(le.Uint32(b[4:])) * int64(Align),
			StreamID(le.Uint16(b[12:])), SlotFlags(le.Uint16(b[14:]))}
		switch {
		case le.Uint32(b[8:]) != 0 || sl.Flags&^(SlotPlanned|SlotOptional) != 0:
			d.fail("F19", s.at+i, "reserved bits of a slot are not zero")
		case int(sl.Stream) >= len(p.Streams):
			d.fail("F20", s.at+i, "a slot on stream %d of %d", sl.Stream, len(p.Streams))
		case sl.Hi == 0:
			d.fail("F21", s.at+i, "a slot of no size")
		case sl.Flags&SlotPlanned == 0 && (sl.Lo == 0 || sl.Lo > sl.Hi):
			d.fail("F21", s.at+i, "a dynamic slot of %d to %d bytes", sl.Lo, sl.Hi)
		case sl.Flags&SlotPlanned != 0 && (sl.Lo < int64(p.Streams[sl.Stream].Begin) || sl.Lo+sl.Hi > int64(p.Streams[sl.Stream].End)):
			d.fail("F22", s.at+i, "a slot at [%d, %d) outside its stream's range", sl.Lo, sl.Lo+sl.Hi)
		}
		p.Slots = append(p.Slots, sl)
	}
}

func (d *planDecoder) entries(p *Plan, s planSection) {
	le := binary.LittleEndian
	for i := int64(0); i < int64(len(s.data)) && d.err == nil; i += entrySize {
		b := s.data[i:]
		v := le.Uint32(b[4:])
		e := PlanEntry{le.Uint32(b), v & MaxLife, uint8(v >> 28 & 3), uint8(v >> 30)}
		if int(e.Slot) >= len(p.Slots) || e.NfMin > e.NfMax {
			d.fail("F23", s.at+i, "entry %d: slot %d of %d, frees %d to %d", i/entrySize, e.Slot, len(p.Slots), e.NfMin, e.NfMax)
		}
		p.Entries = append(p.Entries, e)
	}
}

func (d *planDecoder) marks(p *Plan, s planSection) {
	le := binary.LittleEndian
	last := uint32(0)
	for i := int64(0); i < int64(len(s.data)) && d.err == nil; i += markSize {
		b := s.data[i:]
		kind := le.Uint32(b[4:])
		m := PlanMark{le.Uint32(b), MarkKind(kind), int64(le.Uint64(b[8:])), le.Uint64(b[16:])}
		if m.Entry < last || int(m.Entry) > len(p.Entries) || kind != uint32(MarkIteration) && kind != uint32(MarkPhase) {
			d.fail("F24", s.at+i, "mark %d: entry %d after %d, kind %d", i/markSize, m.Entry, last, kind)
		}
		last = m.Entry
		p.Marks = append(p.Marks, m)
	}
}

func (d *planDecoder) info(p *Plan, s planSection) {
	if d.err != nil || len(s.data) == 0 {
		return
	}
	if !utf8.Valid(s.data) {
		d.fail("F25", s.at, "the provenance is not text")
		return
	}
	for line := range strings.Lines(string(s.data)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			d.fail("F25", s.at, "a line of the provenance is not \"key: value\"")
			return
		}
		p.Info = append(p.Info, Fact{key, value})
	}
}
