package ir

// Kind classes a request by how its life relates to the program's structure.
type Kind uint8

// Kinds. Persistent lives to the end; Scoped is allocated and freed in different phases;
// Transient in the same phase; Carried crosses the border of the iteration; Dynamic
// differs in size, presence or lifespan between iterations and has no planned address.
const (
	Persistent Kind = iota + 1
	Scoped
	Transient
	Carried
	Dynamic
)

// Kinds lists every kind in the order reports use.
var Kinds = [...]Kind{Persistent, Scoped, Transient, Carried, Dynamic}

func (k Kind) String() string {
	switch k {
	case Persistent:
		return "persistent"
	case Scoped:
		return "scoped"
	case Transient:
		return "transient"
	case Carried:
		return "carried"
	case Dynamic:
		return "dynamic"
	}
	return "none"
}

// Buffer is what a packer places: one address range for one or two pieces of time.
//
//	address
//	   |        +-----------+            +--------
//	   |  head  |           |            | main
//	   +--------+           |            |
//	   0       HeadEnd     ...        Start      End == L1      time
//
// Main is [Start, End). A carried buffer also has a head [HeadStart, HeadEnd) with
// HeadEnd <= Start: what is left, at the beginning of the loop, of the instance of the
// iteration before. HeadStart is L0, or the alloc of the prologue's request that plays
// that part the first time. HeadStart == HeadEnd means there is no head.
type Buffer struct {
	Size               Bytes // rounded: a positive multiple of Align
	Start, End         Tick  // half-open, in plan ticks
	HeadStart, HeadEnd Tick
	Stream             StreamID
	Kind               Kind
	_                  byte
	Lag                uint16 // plan ticks from End until, in the recording, the streams that were marked (record_stream) had let go; 0: none was (sharing.go)
}

// HasHead reports whether b occupies a second piece of time before its main one.
func (b *Buffer) HasHead() bool { return b.HeadEnd > b.HeadStart }

// Overlaps reports whether a and b are alive at a common tick.
func (b *Buffer) Overlaps(a *Buffer) bool {
	hit := func(s, e, s2, e2 Tick) bool { return s < e2 && s2 < e }
	return hit(b.Start, b.End, a.Start, a.End) ||
		b.HasHead() && hit(b.HeadStart, b.HeadEnd, a.Start, a.End) ||
		a.HasHead() && hit(b.Start, b.End, a.HeadStart, a.HeadEnd) ||
		b.HasHead() && a.HasHead() && hit(b.HeadStart, b.HeadEnd, a.HeadStart, a.HeadEnd)
}

// Life is the number of ticks b occupies, head included.
func (b *Buffer) Life() Tick { return b.End - b.Start + b.HeadEnd - b.HeadStart }

// EntryFlags say what is known of an entry beside its size.
type EntryFlags uint8

// Entry flags.
const (
	Optional EntryFlags = 1 << iota // absent from some of the profile's iterations
	Firm                            // Life is exact: it was the same whenever the entry was seen
)

// Entry is one position of the plan's request sequence: what the runtime expects there.
// Its plan tick is its index in Problem.Entries.
type Entry struct {
	MinSize, MaxSize Bytes    // rounded sizes seen; a planned entry's buffer has the larger one
	Buffer           BufferID // NoBuffer: not planned, the request is served dynamically
	Life             uint32   // plan ticks until its usual death (the longest seen); may pass the end of the loop
	Request          uint32   // a request of the trace that shows it (the last one seen)
	Stream           StreamID
	NfMin, NfMax     uint8 // frees since the previous allocation, clamped to 3
	Flags            EntryFlags
	Kind             Kind
	_                [4]byte
}

// EntryMark ties a mark of the program to the entry that follows it.
type EntryMark struct {
	Entry uint32 // index in Problem.Entries; len(Entries) is allowed
	Kind  MarkKind
	_     [3]byte
	Value int64 // iteration number as the profile writes it; 0 for phases
	Name  NameID
	_     [4]byte
}

// Problem is what is to be packed: the buffers, the sequence of requests they come from,
// and the timeline.
//
//	0 ............. L0 .................... L1
//	   prologue          loop (repeats)
//
// Entries [0, L0) are requested once, entries [L0, L1) again and again. A trace without
// steps has L0 == L1: everything is prologue, and nothing repeats by itself.
type Problem struct {
	Buffers []Buffer // ordered by Start, then by entry
	Entries []Entry
	Marks   []EntryMark
	Names   []string // of the marks; shared with the trace
	L0, L1  Tick     // L1 == len(Entries)
	Streams []uint64 // as in the trace
	// Steps are the iterations of the trace the loop was made from, half-open, counted
	// from 0 as the profile's iterations are; 0, 0 for a one-pass problem.
	FirstStep, LastStep int
	// Unroll is how many iterations the loop holds: 1, or more where something lives longer
	// than one; 0 for a one-pass problem.
	Unroll int
	// Constraints are what rules ask of the layout; nil: nothing.
	Constraints *Constraints
	// Sharing says whether buffers of different streams may have the same addresses.
	Sharing Sharing
}

// Layout gives each buffer its place: Offsets[id] in bytes, a multiple of Align.
type Layout struct {
	Offsets []Offset
	Peak    Bytes // the highest end of a placed buffer
}
