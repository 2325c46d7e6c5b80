package model

import "fmt"

// Unit is the placement quantum in bytes: sizes are rounded up to it, and the fields of a
// Slot count in it.
const Unit = 512

// MaxLife is the largest life of an entry, in entries; it also stands for longer.
const MaxLife = 1<<27 - 1

// MaxSize is the largest request that is looked at, in bytes; larger ones fail.
const MaxSize = 1 << 60

// Plan is the content of a plan file (runtime/stw_plan.h) as plain slices. The allocator
// keeps the slices: do not change them while it is in use.
type Plan struct {
	Slots     []Slot
	Entries   []Entry
	LoopStart uint32 // entries [LoopStart, len(Entries)) repeat; equal to len: the whole pass repeats
	Streams   []Stream
	Marks     []Mark        // ordered by entry
	Needs     [][][2]uint32 // lists of arena ranges, units, half-open, ascending: what planned requests start to use before a dynamic one dies
	Arena     uint64        // bytes, a multiple of Unit
	SharedAge uint32        // 0: streams' ranges are disjoint; else 1 + AGE, and they may overlap
	Capacity  uint64        // most bytes to hold, arena and heaps; 0: no limit
}

// Slot is a size with its place, or a range of sizes without one.
type Slot struct {
	Lo     uint32 // planned: offset in units. Dynamic: smallest size seen, in units
	Hi     uint32 // planned: size in units. Dynamic: largest size seen, in units
	Stream uint16 // index in Plan.Streams
	Flags  SlotFlags
	List   uint32 // dynamic: 1 + its list in Needs, 0: it gets no place in the arena
	Varies uint16 // planned: the smallest size seen, in 65,536ths of Hi; 0: all had the slot's
}

// sizes are those of which a request looks like one of the slot's, in bytes.
func (s *Slot) sizes() (lo, hi int64) {
	lo, hi = int64(s.Lo), int64(s.Hi)
	switch {
	case s.fixed():
		lo = hi
	case s.Flags&Planned != 0:
		lo = hi * int64(s.Varies) >> 16
	}
	return lo * Unit, hi * Unit
}

// fixed reports whether all requests had the slot's size.
func (s *Slot) fixed() bool { return s.Flags&Planned != 0 && s.Varies == 0 }

// SlotFlags say what is known of a slot; the values are the file's.
type SlotFlags uint16

// Slot flags: Planned has a place; Optional was absent from some iterations of the profile; the
// range of Kept, which is Planned, is never lent to requests without an address.
const (
	Planned SlotFlags = 1 << iota
	Optional
	Kept
)

// Entry is one expected request: the slot it takes, the number of entries it usually lives,
// and the range of frees seen before it, clamped to 3.
type Entry struct {
	Slot         uint32
	Life         uint32 // entries
	Firm         bool   // Life was the same whenever the entry was seen; then below MaxLife
	NfMin, NfMax uint8
}

// Stream is a stream of the recorded process with the part of the arena that its requests use:
// bytes [Begin, End). It is its own unless Plan.SharedAge says that streams share.
type Stream struct {
	Handle     uint64
	Begin, End uint64
}

// MarkKind tells what a Mark separates; the values are the file's.
type MarkKind uint8

// Mark kinds: iteration Value begins, or a phase called Name.
const (
	MarkIteration MarkKind = 1
	MarkPhase     MarkKind = 2
)

// Mark is a point of the program right before the request of its entry.
type Mark struct {
	Entry uint32 // <= len(Entries)
	Kind  MarkKind
	Value int64  // iteration number
	Name  uint64 // HashName of the phase; 0 for an iteration
}

// HashName is FNV-1a 64 of a phase's name, as the plan file keeps it.
func HashName(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// Limits of the file format.
const (
	maxEntries = 1 << 28
	maxStreams = 65535
	maxUnits   = 1 << 32
)

// Check returns an error that names the first element which the plan file's rules forbid.
func (p *Plan) Check() error {
	if len(p.Entries) >= maxEntries {
		return fmt.Errorf("model: plan: %d entries, at most %d are allowed", len(p.Entries), maxEntries-1)
	}
	if len(p.Slots) >= maxEntries {
		return fmt.Errorf("model: plan: %d slots, at most %d are allowed", len(p.Slots), maxEntries-1)
	}
	if int64(p.LoopStart) > int64(len(p.Entries)) {
		return fmt.Errorf("model: plan: loop starts at entry %d of %d", p.LoopStart, len(p.Entries))
	}
	if len(p.Streams) > maxStreams {
		return fmt.Errorf("model: plan: %d streams, at most %d are allowed", len(p.Streams), maxStreams)
	}
	if p.Arena%Unit != 0 || p.Arena/Unit >= maxUnits {
		return fmt.Errorf("model: plan: arena of %d bytes is not a multiple of %d below 2 TiB", p.Arena, Unit)
	}
	ranges := newOrdered(func(a, b Stream) bool { return a.Begin < b.Begin })
	for i, s := range p.Streams {
		if s.Begin > s.End || s.End > p.Arena || s.Begin%Unit != 0 || s.End%Unit != 0 {
			return fmt.Errorf("model: plan: stream %d: range [%d, %d) is not inside the arena of %d bytes", i, s.Begin, s.End, p.Arena)
		}
		if s.Begin == s.End || p.SharedAge != 0 {
			continue
		}
		if next, ok := ranges.ceiling(s); ok && next.Begin < s.End {
			return fmt.Errorf("model: plan: stream %d: range [%d, %d) overlaps another stream's", i, s.Begin, s.End)
		}
		if prev, ok := ranges.below(s); ok && prev.End > s.Begin {
			return fmt.Errorf("model: plan: stream %d: range [%d, %d) overlaps another stream's", i, s.Begin, s.End)
		}
		ranges.insert(s)
	}
	for i, s := range p.Slots {
		if err := p.checkSlot(s); err != nil {
			return fmt.Errorf("model: plan: slot %d: %w", i, err)
		}
	}
	for i, e := range p.Entries {
		if int64(e.Slot) >= int64(len(p.Slots)) {
			return fmt.Errorf("model: plan: entry %d: slot %d of %d", i, e.Slot, len(p.Slots))
		}
		if e.NfMin > e.NfMax || e.NfMax > 3 || e.Life > MaxLife {
			return fmt.Errorf("model: plan: entry %d: frees %d…%d or life %d out of range", i, e.NfMin, e.NfMax, e.Life)
		}
	}
	for i, m := range p.Marks {
		if int64(m.Entry) > int64(len(p.Entries)) {
			return fmt.Errorf("model: plan: mark %d: at entry %d of %d", i, m.Entry, len(p.Entries))
		}
		if i > 0 && m.Entry < p.Marks[i-1].Entry {
			return fmt.Errorf("model: plan: mark %d: at entry %d, before the mark ahead of it", i, m.Entry)
		}
		if m.Kind != MarkIteration && m.Kind != MarkPhase {
			return fmt.Errorf("model: plan: mark %d: unknown kind %d", i, m.Kind)
		}
		if m.Kind == MarkIteration && m.Name != 0 || m.Kind == MarkPhase && m.Value != 0 {
			return fmt.Errorf("model: plan: mark %d: an iteration has no name, a phase no value", i)
		}
	}
	return nil
}

func (p *Plan) checkSlot(s Slot) error {
	if int(s.Stream) >= len(p.Streams) {
		return fmt.Errorf("stream %d of %d", s.Stream, len(p.Streams))
	}
	if s.Flags&^(Planned|Optional|Kept) != 0 || s.Flags&Planned == 0 && s.Flags&Kept != 0 {
		return fmt.Errorf("unknown flags %#x", uint16(s.Flags))
	}
	if s.Flags&Planned == 0 {
		if s.Lo > s.Hi {
			return fmt.Errorf("smallest size %d above largest %d", s.Lo, s.Hi)
		}
		return nil
	}
	st := p.Streams[s.Stream]
	begin, end := s.span()
	if s.Hi == 0 || begin < st.Begin || end > st.End {
		return fmt.Errorf("[%d, %d) is not inside its stream's [%d, %d)", begin, end, st.Begin, st.End)
	}
	return nil
}

// span is the byte range [begin, end) of a planned slot.
func (s Slot) span() (begin, end uint64) {
	begin = uint64(s.Lo) * Unit
	return begin, begin + uint64(s.Hi)*Unit
}
