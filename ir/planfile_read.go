package ir

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"
)

// Reading a plan file. Rule Fn is rule Pn of runtime/plan_check.c: the two readers check the same
// things in the same order, and a test holds their verdicts against each other on damaged files.
// F40 and F41 are this reader's alone: they concern what only people and tools look at.

// MaxRange is the end of the addresses and sizes that a plan can hold, in bytes: 2^32 units.
const MaxRange = 1 << 41

// DecodePlan reads a plan file. It trusts nothing; the error is a *PlanError.
func DecodePlan(data []byte) (*Plan, error) {
	d := &planDecoder{data: data}
	p := &Plan{}
	for _, step := range []func(*Plan){d.header, d.sections, d.streams, d.needs, d.slots, d.entries, d.marks, d.people} {
		step(p)
		if d.err != nil {
			return nil, d.err
		}
	}
	return p, nil
}

type planDecoder struct {
	data                               []byte
	err                                *PlanError
	strict                             bool // unused bytes must be zero: our own minor
	nStreams, nSlots, nEntries, nMarks uint32
	section                            [sectNeeds + 1]planSection // by kind
}

type planSection struct {
	at   int64
	data []byte
	has  bool
}

func (d *planDecoder) fail(rule int, at int64, format string, args ...any) {
	if d.err == nil {
		d.err = &PlanError{Rule: fmt.Sprintf("F%d", rule), Offset: at, Msg: fmt.Sprintf(format, args...)}
	}
}

func (d *planDecoder) header(p *Plan) {
	b, le := d.data, binary.LittleEndian
	if !IsPlan(b) {
		d.fail(2, 0, "not a plan file (or one mangled by a text-mode transfer)")
		return
	}
	if len(b) < 12 {
		d.fail(1, int64(len(b)), "%d bytes are too few for a plan", len(b))
		return
	}
	if major := le.Uint16(b[8:]); major != planMajor {
		d.fail(3, 8, "plan format %d.%d, this program reads %d.x: compile the plan again", major, le.Uint16(b[10:]), planMajor)
		d.err.Version = true
		return
	}
	if len(b) < headerSize {
		d.fail(1, int64(len(b)), "%d bytes are too few for a plan", len(b))
		return
	}
	if n := le.Uint32(b[12:]); n != headerSize {
		d.fail(4, 12, "header of %d bytes, not %d", n, headerSize)
	}
	if n := le.Uint64(b[16:]); n != uint64(len(b)) {
		d.fail(5, 16, "the file says it has %d bytes and has %d", n, len(b))
	}
	sum := crc32.Update(crc32.Checksum(b[:crcAt], castagnoli), castagnoli, []byte{0, 0, 0, 0})
	if sum = crc32.Update(sum, castagnoli, b[crcAt+4:]); sum != le.Uint32(b[crcAt:]) {
		d.fail(6, crcAt, "checksum does not match: the file is damaged")
	}
	d.strict = le.Uint16(b[10:]) <= planMinor
	copy(p.Profile[:], b[32:64])
	p.Capacity, p.Arena, p.Bound = Bytes(le.Uint64(b[64:])), Bytes(le.Uint64(b[72:])), Bytes(le.Uint64(b[80:]))
	p.LoopStart, p.SharedAge = le.Uint32(b[104:]), le.Uint32(b[112:])
	d.nStreams, d.nSlots, d.nEntries, d.nMarks = le.Uint32(b[92:]), le.Uint32(b[96:]), le.Uint32(b[100:]), le.Uint32(b[108:])
	if n := le.Uint32(b[88:]); n != uint32(Align) {
		d.fail(7, 88, "alignment %d, not %d", n, Align)
	}
	if d.nEntries >= MaxEntries {
		d.fail(8, 100, "%d entries are too many", d.nEntries)
	}
	if d.nStreams > MaxStreams {
		d.fail(9, 92, "%d streams are too many", d.nStreams)
	}
	if d.nSlots >= MaxEntries {
		d.fail(10, 96, "%d slots are too many", d.nSlots)
	}
	if p.LoopStart > d.nEntries {
		d.fail(11, 104, "the loop starts at entry %d of %d", p.LoopStart, d.nEntries)
	}
	if p.Arena%Align != 0 || p.Arena < 0 || p.Arena >= MaxRange {
		d.fail(12, 72, "arena of %d bytes, not a multiple of %d below 2 TiB", p.Arena, Align)
	}
	if d.strict && uint64(le.Uint32(b[116:]))|le.Uint64(b[120:]) != 0 {
		d.fail(13, 116, "reserved bytes are not zero")
	}
}

// gap checks that no section's bytes are zero.
func (d *planDecoder) gap(from, to uint64) {
	for i := from; d.strict && i < to; i++ {
		if d.data[i] != 0 {
			d.fail(17, int64(i), "a byte that no section owns is not zero")
			return
		}
	}
}

// sections reads the table: sections in the order of their bytes, each required kind with the
// size that its count demands.
func (d *planDecoder) sections(*Plan) {
	le := binary.LittleEndian
	n := le.Uint32(d.data[28:])
	end := uint64(headerSize) + uint64(n)*sectSize
	if end > uint64(len(d.data)) {
		d.fail(14, 28, "%d sections do not fit the file", n)
		return
	}
	for i := range int64(n) {
		at := headerSize + sectSize*i
		t := d.data[at:]
		kind, flags, off, size := le.Uint32(t), le.Uint32(t[4:]), le.Uint64(t[8:]), le.Uint64(t[16:])
		if d.strict && flags&^optionalBit != 0 {
			d.fail(15, at, "section %d has unknown flags", kind)
		}
		if off%8 != 0 || off < end || off > uint64(len(d.data)) || size > uint64(len(d.data))-off {
			d.fail(16, at, "section %d is misaligned, overlaps what comes before it, or ends after the file", kind)
		}
		if d.err != nil {
			return
		}
		d.gap(end, off)
		end = off + size
		switch {
		case kind == 0 || kind > sectNeeds:
			if flags&optionalBit == 0 {
				d.fail(18, at, "unknown section %d: a newer program wrote this plan", kind)
			}
		case d.section[kind].has:
			d.fail(19, at, "section %d is there twice", kind)
		default:
			d.section[kind] = planSection{int64(off), d.data[off:end:end], true}
		}
		if d.err != nil {
			return
		}
	}
	for kind, want := range [...]uint64{
		sectSlots: uint64(d.nSlots) * slotSize, sectEntries: uint64(d.nEntries) * entrySize,
		sectStreams: uint64(d.nStreams) * streamSize, sectMarks: uint64(d.nMarks) * markSize,
	} {
		if got := uint64(len(d.section[kind].data)); got != want {
			d.fail(20, d.section[kind].at, "section %d has %d bytes, its count asks for %d", kind, got, want)
		}
	}
	d.gap(end, uint64(len(d.data)))
}

func (d *planDecoder) streams(p *Plan) {
	le, s := binary.LittleEndian, d.section[sectStreams]
	for i := int64(0); i < int64(len(s.data)); i += streamSize {
		b := s.data[i:]
		st := PlanStream{le.Uint64(b), Offset(le.Uint64(b[8:])), Offset(le.Uint64(b[16:]))}
		if st.Begin < 0 || st.Begin > st.End || Bytes(st.End) > p.Arena || Bytes(st.Begin)%Align != 0 || Bytes(st.End)%Align != 0 {
			d.fail(21, s.at+i, "stream range [%d, %d) of an arena of %d", st.Begin, st.End, p.Arena)
			return
		}
		p.Streams = append(p.Streams, st)
	}
	order := make([]PlanStream, 0, len(p.Streams))
	for _, st := range p.Streams {
		if st.Begin < st.End {
			order = append(order, st)
		}
	}
	sortStreams(order)
	for i := 1; i < len(order) && p.SharedAge == 0; i++ {
		if order[i-1].End > order[i].Begin {
			d.fail(22, s.at, "two streams use the arena at %d, and the plan does not say that streams share", order[i].Begin)
			return
		}
	}
}

// needs reads the lists of STW_SECTION_NEEDS.
func (d *planDecoder) needs(p *Plan) {
	s := d.section[sectNeeds]
	if !s.has {
		return
	}
	word := func(i uint64) uint32 { return binary.LittleEndian.Uint32(s.data[4*i:]) }
	words, n := uint64(len(s.data)/4), uint64(0)
	if words > 0 {
		n = uint64(word(0))
	}
	if len(s.data)%4 != 0 || n+2 > words {
		d.fail(33, s.at, "%d lists of needs in %d bytes", n, len(s.data))
		return
	}
	for i := range n {
		if word(1+i) > word(2+i) {
			d.fail(34, s.at, "list %d of the needs is out of order", i)
			return
		}
	}
	if word(1) != 0 || words != n+2+2*uint64(word(1+n)) {
		d.fail(33, s.at, "%d lists of needs in %d bytes", n, len(s.data))
		return
	}
	for i := range n {
		list, low := []NeedRange{}, uint32(0)
		for r := uint64(word(1 + i)); r < uint64(word(2+i)); r++ {
			begin, end := word(n+2+2*r), word(n+3+2*r)
			if begin < low || begin >= end || Bytes(end)*Align > p.Arena {
				d.fail(34, s.at, "list %d of the needs is out of order or leaves the arena", i)
				return
			}
			list, low = append(list, NeedRange{Offset(begin) * Offset(Align), Offset(end) * Offset(Align)}), end
		}
		p.Needs = append(p.Needs, list)
	}
}

func (d *planDecoder) slots(p *Plan) {
	le, s := binary.LittleEndian, d.section[sectSlots]
	for i := int64(0); i < int64(len(s.data)) && d.err == nil; i += slotSize {
		b := s.data[i:]
		lo, hi := le.Uint32(b), le.Uint32(b[4:])
		sl := Slot{int64(lo) * int64(Align), int64(hi) * int64(Align), StreamID(b[10]), SlotFlags(b[11]), uint32(le.Uint16(b[8:])), 0}
		planned := sl.Flags&SlotPlanned != 0
		switch {
		case int(sl.Stream) >= len(p.Streams):
			d.fail(23, s.at+i, "a slot on stream %d of %d", sl.Stream, len(p.Streams))
		case d.strict && (sl.Flags&^(SlotPlanned|SlotOptional|SlotKept) != 0 || !planned && sl.Flags&SlotKept != 0):
			d.fail(24, s.at+i, "a slot has unknown flags")
		case planned && hi == 0:
			d.fail(25, s.at+i, "a planned slot has no size")
		case planned && (sl.Lo < int64(p.Streams[sl.Stream].Begin) || sl.Lo+sl.Hi > int64(p.Streams[sl.Stream].End)):
			d.fail(26, s.at+i, "a slot at [%d, %d) outside its stream's range", sl.Lo, sl.Lo+sl.Hi)
		case !planned && lo > hi:
			d.fail(27, s.at+i, "a dynamic slot of %d to %d bytes", sl.Lo, sl.Hi)
		case !planned && sl.List > uint32(len(p.Needs)):
			d.fail(35, s.at+i, "a slot names list %d of %d", sl.List, len(p.Needs))
		}
		sl.Flags &= SlotPlanned | SlotOptional | SlotKept // of a later minor: what we do not know we do not keep
		if planned {
			sl.List, sl.Varies = 0, uint16(sl.List)
		}
		p.Slots = append(p.Slots, sl)
	}
}

func (d *planDecoder) entries(p *Plan) {
	le, s := binary.LittleEndian, d.section[sectEntries]
	for i := int64(0); i < int64(len(s.data)) && d.err == nil; i += entrySize {
		b := s.data[i:]
		v := le.Uint32(b[4:])
		e := PlanEntry{le.Uint32(b), v & MaxLife, uint8(v >> 28 & 3), uint8(v >> 30), v&firmBit != 0}
		switch {
		case int(e.Slot) >= len(p.Slots):
			d.fail(28, s.at+i, "entry %d: slot %d of %d", i/entrySize, e.Slot, len(p.Slots))
		case e.NfMin > e.NfMax:
			d.fail(29, s.at+i, "entry %d: frees %d to %d", i/entrySize, e.NfMin, e.NfMax)
		}
		p.Entries = append(p.Entries, e)
	}
}

func (d *planDecoder) marks(p *Plan) {
	le, s := binary.LittleEndian, d.section[sectMarks]
	last := uint32(0)
	for i := int64(0); i < int64(len(s.data)) && d.err == nil; i += markSize {
		b := s.data[i:]
		kind := le.Uint32(b[4:])
		m := PlanMark{le.Uint32(b), MarkKind(kind), int64(le.Uint64(b[8:])), le.Uint64(b[16:])}
		iteration := kind == uint32(MarkIteration)
		switch {
		case m.Entry < last || int(m.Entry) > len(p.Entries):
			d.fail(30, s.at+i, "mark %d is at entry %d, after one at %d", i/markSize, m.Entry, last)
		case !iteration && kind != uint32(MarkPhase):
			d.fail(31, s.at+i, "mark %d is of unknown kind %d", i/markSize, kind)
		case d.strict && (iteration && m.Name != 0 || !iteration && m.Value != 0):
			d.fail(32, s.at+i, "mark %d has a field set that its kind does not use", i/markSize)
		}
		last = m.Entry
		if iteration {
			m.Name = 0
		} else {
			m.Value = 0
		}
		p.Marks = append(p.Marks, m)
	}
}

// people reads what the runtime does not: provenance, capacity, bound.
func (d *planDecoder) people(p *Plan) {
	s := d.section[sectInfo]
	if !utf8.Valid(s.data) {
		d.fail(40, s.at, "the provenance is not text")
		return
	}
	for line := range strings.Lines(string(s.data)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			d.fail(40, s.at, "a line of the provenance is not \"key: value\"")
			return
		}
		p.Info = append(p.Info, Fact{key, value})
	}
	if p.Capacity < 0 || p.Capacity > MaxSize || p.Bound < 0 || p.Bound > MaxSize {
		d.fail(41, 64, "an absurd capacity or bound")
	}
}
