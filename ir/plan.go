package ir

import (
	"fmt"
	"hash/fnv"
	"math/bits"
)

// Plan is what the runtime executes: the expected requests and the place of each. It
// mirrors the plan file (runtime/stw_plan.h, where every field is specified).
type Plan struct {
	Profile   [32]byte // Trace.Digest of the profile it was made from
	Capacity  Bytes    // of the device it was made for; 0: not stated
	Arena     Bytes    // highest planned address
	Bound     Bytes    // proved lower bound of Arena
	LoopStart uint32   // entries [LoopStart, len(Entries)) repeat
	SharedAge uint32   // 0: streams' parts of the arena are disjoint; else 1 + AGE: they may overlap, AGE requests between free and reuse
	Slots     []Slot
	Entries   []PlanEntry
	Streams   []PlanStream
	Marks     []PlanMark
	Needs     [][]NeedRange // lists of arena ranges
	Info      []Fact        // provenance for people, in file order
}

// Slot is what an entry expects and where it goes. Planned: Lo is the offset and Hi the
// size, in bytes. Not planned: Lo and Hi are the smallest and largest size seen, in bytes.
type Slot struct {
	Lo, Hi int64
	Stream StreamID
	Flags  SlotFlags
	List   uint32 // not planned: 1 + its list in Plan.Needs, or 0
	Varies uint16 // planned: the smallest size seen, in 65,536ths of Hi, rounded down but not to 0; 0: all were Hi
}

// varies is Slot.Varies of a planned entry whose sizes were least to most.
func varies(least, most Bytes) uint16 {
	if least == most {
		return 0
	}
	hi, lo := bits.Mul64(uint64(least), 1<<16) // sizes reach 2^60
	share, _ := bits.Div64(hi, lo, uint64(most))
	return uint16(max(share, 1))
}

// NeedRange is a part of the arena, half-open, that planned requests start to use before a dynamic
// request usually dies.
type NeedRange struct{ Begin, End Offset }

// SlotFlags are STW_SLOT_* of the plan file.
type SlotFlags uint16

// Slot flags.
const (
	SlotPlanned  SlotFlags = 1
	SlotOptional SlotFlags = 2
	SlotKept     SlotFlags = 4 // planned, and no entry's: what lies there is never lent to unplanned requests
)

// PlanEntry is one position of the request sequence.
type PlanEntry struct {
	Slot         uint32
	Life         uint32 // entries until its usual death, saturated at MaxLife
	NfMin, NfMax uint8  // frees since the previous request, clamped to 3
	Firm         bool   // Life is exact; then below MaxLife
}

// MaxLife is the largest life a plan entry holds; it also stands for "longer".
const MaxLife = 1<<27 - 1

// PlanStream is a stream of the recorded process and the part of the arena that its requests use,
// bytes, half-open; its own unless Plan.SharedAge says that streams share.
type PlanStream struct {
	Handle     uint64
	Begin, End Offset
}

// PlanMark is a point of the program's structure: it comes before the request of Entry.
type PlanMark struct {
	Entry uint32
	Kind  MarkKind // MarkIteration or MarkPhase
	Value int64
	Name  uint64 // HashName of the phase's name; 0 for iterations
}

// Fact is one line of provenance. Keys are lower case words; values have no newline.
type Fact struct{ Key, Value string }

// HashName is the hash by which phase names travel in a plan: FNV-1a, 64 bits.
func HashName(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// Get returns the value of an Info key, "" if absent.
func (p *Plan) Get(key string) string {
	for _, in := range p.Info {
		if in.Key == key {
			return in.Value
		}
	}
	return ""
}

// NewPlan lowers a verified layout to a plan. streams[s] is the part of the arena that
// stream s uses; listOf[k] is 1 + the list in needs of entry k, or 0 (nil: all 0). Equal slots are stored once, in order of first use. The caller
// adds Profile, Capacity, Bound, SharedAge and Info.
func NewPlan(p *Problem, l *Layout, streams []PlanStream, needs [][]NeedRange, listOf []uint32) *Plan {
	plan := &Plan{Arena: l.Peak, LoopStart: uint32(p.L0), Streams: streams, Needs: needs}
	index := make(map[Slot]uint32)
	plan.Entries = make([]PlanEntry, len(p.Entries))
	for k := range p.Entries {
		e := &p.Entries[k]
		s := Slot{Lo: int64(e.MinSize), Hi: int64(e.MaxSize), Stream: e.Stream}
		if e.Buffer != NoBuffer {
			s.Lo, s.Hi, s.Flags, s.Varies = int64(l.Offsets[e.Buffer]), int64(e.MaxSize), SlotPlanned, varies(e.MinSize, e.MaxSize)
		} else {
			s.Lo, s.Hi = coarse(s.Lo, s.Hi)
			if listOf != nil {
				s.List = listOf[k]
			}
		}
		if e.Flags&Optional != 0 {
			s.Flags |= SlotOptional
		}
		id, ok := index[s]
		if !ok {
			id = uint32(len(plan.Slots))
			index[s] = id
			plan.Slots = append(plan.Slots, s)
		}
		plan.Entries[k] = PlanEntry{Slot: id, Life: min(e.Life, MaxLife), NfMin: e.NfMin, NfMax: e.NfMax,
			Firm: e.Flags&Firm != 0 && e.Life < MaxLife}
	}
	for _, m := range p.Marks {
		pm := PlanMark{Entry: m.Entry, Kind: m.Kind, Value: m.Value}
		if m.Kind == MarkPhase {
			pm.Name, pm.Value = HashName(p.Names[m.Name]), 0
		}
		plan.Marks = append(plan.Marks, pm)
	}
	return plan
}

// coarse widens a range of sizes to three significant bits: what was seen is a sample, and entries
// whose samples are about the same share a slot. One size stays itself.
func coarse(lo, hi int64) (int64, int64) {
	if lo == hi {
		return lo, hi
	}
	step := func(n int64) int64 {
		return max(int64(Align), int64(1)<<max(bits.Len64(uint64(n))-3, 0))
	}
	down, up := step(lo), step(hi)
	return max(lo/down*down, int64(Align)), (hi + up - 1) / up * up
}

// LayoutOf reads back from a plan where it puts the buffers of p. It fails where plan and
// problem do not describe the same request sequence.
func (p *Plan) LayoutOf(prob *Problem) (*Layout, error) {
	if len(p.Entries) != len(prob.Entries) || Tick(p.LoopStart) != prob.L0 {
		return nil, fmt.Errorf("ir: the plan has %d entries with the loop at %d, the profile gives %d with the loop at %d",
			len(p.Entries), p.LoopStart, len(prob.Entries), prob.L0)
	}
	l := &Layout{Offsets: make([]Offset, len(prob.Buffers))}
	for i := range l.Offsets {
		l.Offsets[i] = NoOffset
	}
	for k := range prob.Entries {
		e, s := &prob.Entries[k], &p.Slots[p.Entries[k].Slot]
		planned := s.Flags&SlotPlanned != 0
		if planned != (e.Buffer != NoBuffer) || s.Stream != e.Stream {
			return nil, fmt.Errorf("ir: entry %d: the plan and the profile disagree on what it is", k)
		}
		if !planned {
			continue
		}
		if s.Hi != int64(e.MaxSize) {
			return nil, fmt.Errorf("ir: entry %d: the plan has %d bytes, the profile asks for %d", k, s.Hi, e.MaxSize)
		}
		if s.Varies != varies(e.MinSize, e.MaxSize) {
			return nil, fmt.Errorf("ir: entry %d: by the plan its requests have %d of 65,536 parts of %d bytes at least, the profile asks for %d bytes", k, s.Varies, s.Hi, e.MinSize)
		}
		at := &l.Offsets[e.Buffer]
		if *at != NoOffset && *at != Offset(s.Lo) {
			return nil, fmt.Errorf("ir: entry %d: buffer %d is at %d here and at %d elsewhere", k, e.Buffer, s.Lo, *at)
		}
		*at = Offset(s.Lo)
		l.Peak = max(l.Peak, Bytes(s.Lo+s.Hi))
	}
	// Above it there may be slots that no entry names: room reserved for dynamic requests.
	top := l.Peak
	for i := range p.Slots {
		if s := &p.Slots[i]; s.Flags&SlotPlanned != 0 {
			top = max(top, Bytes(s.Lo+s.Hi))
		}
	}
	if top != p.Arena {
		return nil, fmt.Errorf("ir: the plan's highest slot ends at %d, and its arena at %d", top, p.Arena)
	}
	return l, nil
}
