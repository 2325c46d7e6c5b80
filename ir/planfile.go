package ir

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
)

// The plan file, byte by byte. The format is specified in runtime/stw_plan.h; this file
// and runtime/plan_load.c are its only readers, and no other file knows an offset.

const (
	planMagic  = "\x93STW\r\n\x1a\n"
	planMajor  = 1
	planMinor  = 0
	headerSize = 128
	sectSize   = 24
	slotSize   = 12
	entrySize  = 8
	streamSize = 24
	markSize   = 24

	sectSlots, sectEntries, sectStreams, sectMarks, sectInfo, sectNeeds = 1, 2, 3, 4, 5, 6

	crcAt       = 24
	optionalBit = 1
	firmBit     = 1 << 27

	// MaxEntries is the number of entries a plan stays below.
	MaxEntries = 1 << 28
	// MaxStreams is the most streams a plan has.
	MaxStreams = 256
	// maxUnits is the largest offset or size in units of Align.
	maxUnits = 1<<32 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// PlanError says why bytes are not a usable plan. Rule is the F number; Version is set
// when the plan is of a major version this reader does not know.
type PlanError struct {
	Rule    string
	Offset  int64
	Msg     string
	Version bool
}

func (e *PlanError) Error() string {
	return fmt.Sprintf("plan: %s (%s, byte %d)", e.Msg, e.Rule, e.Offset)
}

// EncodePlan returns the plan file of p: the same plan gives the same bytes. It fails
// where a number does not fit the format.
func EncodePlan(p *Plan) ([]byte, error) {
	if len(p.Entries) >= MaxEntries || len(p.Streams) > MaxStreams {
		return nil, fmt.Errorf("ir: plan: %d entries and %d streams, the format holds less than %d and at most %d",
			len(p.Entries), len(p.Streams), MaxEntries, MaxStreams)
	}
	if p.Arena >= MaxRange {
		return nil, fmt.Errorf("ir: plan: an arena of %d bytes does not fit the format, which ends at 2 TiB", p.Arena)
	}
	units := func(what string, i int, n int64) (uint32, error) {
		if n < 0 || n%int64(Align) != 0 || n/int64(Align) > maxUnits {
			return 0, fmt.Errorf("ir: plan: slot %d: %s of %d bytes does not fit the format (multiples of %d below 2 TiB)", i, what, n, Align)
		}
		return uint32(n / int64(Align)), nil
	}
	type section struct {
		kind, flags uint32
		data        []byte
	}
	le := binary.LittleEndian
	slots := make([]byte, 0, len(p.Slots)*slotSize)
	for i, s := range p.Slots {
		lo, err := units("an offset", i, s.Lo)
		if err != nil {
			return nil, err
		}
		hi, err := units("a size", i, s.Hi)
		if err != nil {
			return nil, err
		}
		slots = le.AppendUint32(slots, lo)
		slots = le.AppendUint32(slots, hi)
		if s.List > 1<<16-1 {
			return nil, fmt.Errorf("ir: plan: slot %d: list %d of needs does not fit the format", i, s.List)
		}
		aux := uint16(s.List)
		if s.Flags&SlotPlanned != 0 {
			aux = s.Varies
		}
		slots = le.AppendUint16(slots, aux)
		slots = append(slots, byte(s.Stream), byte(s.Flags))
	}
	entries := make([]byte, 0, len(p.Entries)*entrySize)
	for _, e := range p.Entries {
		entries = le.AppendUint32(entries, e.Slot)
		v := e.Life | uint32(e.NfMin)<<28 | uint32(e.NfMax)<<30
		if e.Firm {
			v |= firmBit
		}
		entries = le.AppendUint32(entries, v)
	}
	streams := make([]byte, 0, len(p.Streams)*streamSize)
	for _, s := range p.Streams {
		streams = le.AppendUint64(streams, s.Handle)
		streams = le.AppendUint64(streams, uint64(s.Begin))
		streams = le.AppendUint64(streams, uint64(s.End))
	}
	marks := make([]byte, 0, len(p.Marks)*markSize)
	for _, m := range p.Marks {
		marks = le.AppendUint32(marks, m.Entry)
		marks = le.AppendUint32(marks, uint32(m.Kind))
		marks = le.AppendUint64(marks, uint64(m.Value))
		marks = le.AppendUint64(marks, m.Name)
	}
	var info strings.Builder
	for _, in := range p.Info {
		fmt.Fprintf(&info, "%s: %s\n", in.Key, strings.ReplaceAll(in.Value, "\n", " "))
	}
	sections := []section{
		{sectSlots, 0, slots}, {sectEntries, 0, entries}, {sectStreams, 0, streams}, {sectMarks, 0, marks},
		{sectInfo, optionalBit, []byte(info.String())},
	}
	if len(p.Needs) > 0 {
		sections = append(sections, section{sectNeeds, optionalBit, encodeNeeds(p.Needs)})
	}
	at := uint64(headerSize + sectSize*len(sections))
	out := make([]byte, at)
	for i, s := range sections {
		t := out[headerSize+sectSize*i:]
		le.PutUint32(t, s.kind)
		le.PutUint32(t[4:], s.flags)
		le.PutUint64(t[8:], uint64(len(out)))
		le.PutUint64(t[16:], uint64(len(s.data)))
		out = append(out, s.data...)
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
	}
	copy(out, planMagic)
	le.PutUint16(out[8:], planMajor)
	le.PutUint16(out[10:], planMinor)
	le.PutUint32(out[12:], headerSize)
	le.PutUint64(out[16:], uint64(len(out)))
	le.PutUint32(out[28:], uint32(len(sections)))
	copy(out[32:64], p.Profile[:])
	le.PutUint64(out[64:], uint64(p.Capacity))
	le.PutUint64(out[72:], uint64(p.Arena))
	le.PutUint64(out[80:], uint64(p.Bound))
	le.PutUint32(out[88:], uint32(Align))
	le.PutUint32(out[92:], uint32(len(p.Streams)))
	le.PutUint32(out[96:], uint32(len(p.Slots)))
	le.PutUint32(out[100:], uint32(len(p.Entries)))
	le.PutUint32(out[104:], p.LoopStart)
	le.PutUint32(out[108:], uint32(len(p.Marks)))
	le.PutUint32(out[112:], p.SharedAge)
	le.PutUint32(out[crcAt:], crc32.Checksum(out, castagnoli))
	return out, nil
}

// encodeNeeds writes the lists as STW_SECTION_NEEDS has them.
func encodeNeeds(lists [][]NeedRange) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(nil, uint32(len(lists)))
	start := uint32(0)
	for _, l := range lists {
		out = le.AppendUint32(out, start)
		start += uint32(len(l))
	}
	out = le.AppendUint32(out, start)
	for _, l := range lists {
		for _, r := range l {
			out = le.AppendUint32(out, uint32(Bytes(r.Begin)/Align))
			out = le.AppendUint32(out, uint32(Bytes(r.End)/Align))
		}
	}
	return out
}

// StepBytes is what the entries and slots of the step cost in an encoded plan, in bytes:
// 8 for each entry of the loop (of the pass where there is no loop) and 12 for each slot
// that they are the first to use.
func (p *Plan) StepBytes() (bytes, requests int64) {
	first := p.LoopStart
	if int(first) == len(p.Entries) {
		first = 0
	}
	used := make([]bool, len(p.Slots))
	for k, e := range p.Entries {
		if uint32(k) >= first {
			bytes += entrySize
			requests++
			if !used[e.Slot] {
				bytes += slotSize
			}
		}
		used[e.Slot] = true
	}
	return bytes, requests
}

func sortStreams(list []PlanStream) {
	slices.SortFunc(list, func(a, b PlanStream) int { return cmp.Compare(a.Begin, b.Begin) })
}

// IsPlan reports whether data begins as a plan file does, of whatever version.
func IsPlan(data []byte) bool { return strings.HasPrefix(string(data[:min(len(data), 8)]), planMagic) }

// PlanFormat is the version of the plan format that this package writes.
var PlanFormat = fmt.Sprintf("%d.%d", planMajor, planMinor)
