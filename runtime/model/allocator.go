package model

import (
	"errors"
	"fmt"
	"math"
)

// Options limit the modelled memory.
type Options struct {
	Capacity    uint64 // bytes, arena and heaps together; 0: no limit
	Granularity uint64 // bytes by which memory is committed, a power of two >= Unit; 0: 2 MiB
	HeapBytes   uint64 // address space of each heap, bytes; 0: 256 GiB
	Still       bool   // idle memory is not moved
	Events      EventOptions
}

const (
	defaultGranularity = 2 << 20
	defaultHeapBytes   = 256 << 30
)

// ErrCapacity is wrapped by New's error when the arena alone exceeds the capacity.
var ErrCapacity = errors.New("arena exceeds the capacity")

// Addr is a symbolic address: Space 0 is the arena, 1 + k the heap that was needed k-th.
// Offset is in bytes from the start of the space.
type Addr struct {
	Space  uint32
	Offset uint64
}

// Class says what became of a request. Every request is exactly one of them.
type Class uint8

// Classes, as stw.h draws them. Failed is a request that found no memory or was absurdly
// large; Zero one of no bytes.
const (
	Hit Class = iota + 1
	Conflict
	TooLarge
	Dynamic
	Unknown
	Failed
	Zero
)

func (c Class) String() string {
	names := [...]string{"none", "hit", "conflict", "too large", "dynamic", "unknown", "failed", "zero"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Answer is what the last request was taken for.
type Answer struct {
	Class Class
	Entry int // of the plan; -1 where no entry matched
}

// Stats are counters since creation, the same ones as stw_stats in stw.h. Bytes are rounded
// to Unit.
type Stats struct {
	Requests uint64 // = Hits + Conflicts + TooLarge + Dynamic + Unknown + ZeroSize + Failed
	Frees    uint64 // of live addresses

	Hits      uint64 // planned address handed out
	Conflicts uint64 // planned range was occupied, or there was no memory for it
	TooLarge  uint64 // planned entry, request larger than its slot
	Dynamic   uint64 // matched an entry that has no place
	Guests    uint64 // unplanned or displaced requests that were put into idle space of the arena
	Unknown   uint64 // matched no entry
	Slow      uint64 // requests for which a column was computed
	Resyncs   uint64 // times the position moved other than to the next entry
	Restarts  uint64 // times the position was searched in the whole plan
	ZeroSize  uint64 // requests of 0 bytes
	Failed    uint64 // requests without memory, or of an absurd size
	BadFree   uint64 // frees of an address that is not live

	LiveBytes, PeakLiveBytes         uint64 // handed out
	HeapLiveBytes, HeapPeakBytes     uint64 // the part served by heaps
	ReservedBytes, PeakReservedBytes uint64 // arena and heaps, in granules
	ArenaBytes                       uint64 // the part of the arena, in granules
	StaticFallbackBytes              uint64 // bytes of conflicts and too large ones that heaps served, summed
	Sweeps                           uint64 // times the plan was read for idle space, for what had no place or could not have it
	Trims, ReturnedBytes             uint64 // times that memory was given back, and how much in all
	Moves, MovedBytes                uint64 // times that idle memory was moved rather than more reserved, and how much in all
	SetAside                         uint64 // times that the plan was set aside

	EventRecords, EventWaits uint64 // events recorded; waits asked of a stream
	YoungWaits               uint64 // of those, for an event younger than 7/8 of the plan's AGE (at least 128; without one 500) in requests
	WaitedAge                uint64 // age of the events waited for, in requests, summed
	EventFailures            uint64 // times the backend could not record, wait or ask; the request went elsewhere
	Deferred                 uint64 // blocks that heaps held back at their free for a stream named by RecordStream

	Position uint64 // entry expected next; the number of entries while it is not known
	Atoms    uint64 // pieces of the arena between neighbouring planned boundaries
}

// live is one block that is handed out.
type live struct {
	size  uint64 // bytes, rounded
	span  uint64 // bytes occupied in the space: the slot's where that is larger
	vote  int    // position its free names, -1 for none
	inner bool   // of a loop entry that dies within its iteration

	stream uint64   // raw handle
	marks  []uint64 // raw handles of other streams that use it
	pinned bool     // it is never freed
}

// lap is what had been counted when the plan's last entry was asked for.
type lap struct {
	hits, conflicts, dynamic uint64
	off                      uint64 // too large, or strays
}

// Allocator is one modelled allocator.
type Allocator struct {
	plan     *Plan
	opts     Options
	match    *matcher
	occupied *arena
	heaps    []*growing
	byStream map[uint64]*growing
	mapped   map[uint64]int // raw handle to plan stream, -1 for none
	taken    []bool         // plan streams that have a handle
	live     map[Addr]live
	stats    Stats
	swept    uint64 // entries that sweeps have read
	stranger bool   // the request under way may only pass for its planned entry
	lap      uint64 // requests the heaps had served at the last lap
	last     Answer

	most                uint64 // bytes ever reserved
	movable, movableLap uint64 // bytes that may still be moved; so many more with each lap
	aside               uint64 // laps on plan until it is back, where the plan is set aside: no address of the arena is given; else 0
	strays              uint64 // requests of the plan's streams that are unknown
	laps                [2]lap // the last two

	order    *order         // nil: no stream ever waits for another
	seen     map[uint64]int // raw handles by first appearance
	handles  []uint64       // the same, in order
	underWay bool           // a request is
	asked    uint64         // calls of event functions
	recorded uint32         // events
	calls    []EventCall    // all of them, where they are kept
}

// New returns an allocator that executes p; nil is no plan at all, heap only. The error says
// which part of the plan or of the options is not valid, or wraps ErrCapacity.
func New(p *Plan, o Options) (*Allocator, error) {
	if p == nil {
		p = &Plan{}
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	if o.Granularity == 0 {
		o.Granularity = defaultGranularity
	}
	if o.HeapBytes == 0 {
		o.HeapBytes = defaultHeapBytes
	}
	if o.Granularity < Unit || o.Granularity&(o.Granularity-1) != 0 {
		return nil, fmt.Errorf("model: granularity %d is not a power of two of at least %d bytes", o.Granularity, Unit)
	}
	a := &Allocator{
		plan:     p,
		opts:     o,
		match:    newMatcher(p),
		occupied: newArena(p),
		byStream: make(map[uint64]*growing),
		mapped:   make(map[uint64]int),
		taken:    make([]bool, len(p.Streams)),
		live:     make(map[Addr]live),
		seen:     make(map[uint64]int),
	}
	if o.Events.On && p.SharedAge > 0 && len(p.Streams) > 1 {
		a.order = newOrder(true, p.SharedAge)
	}
	if c := &a.opts.Capacity; p.Capacity != 0 && (*c == 0 || p.Capacity < *c) {
		*c = p.Capacity
	}
	a.stats.Atoms = uint64(len(a.occupied.busy))
	arena := a.granules(p.Arena)
	if a.opts.Capacity != 0 && arena > a.opts.Capacity {
		return nil, fmt.Errorf("model: arena of %d bytes, capacity %d: %w", arena, a.opts.Capacity, ErrCapacity)
	}
	if !o.Still {
		a.movable, a.movableLap = moveArenas*arena, arena/moveLap
	}
	return a, nil
}

// planStream returns the plan's stream for a raw handle, -1 for none. A handle gets its
// stream at its first request and keeps it: 0 the one that was 0 when recorded, any other the
// first one left.
func (a *Allocator) planStream(handle uint64) int {
	if s, ok := a.mapped[handle]; ok {
		return s
	}
	found := -1
	for i, s := range a.plan.Streams {
		if !a.taken[i] && (s.Handle == 0) == (handle == 0) {
			found = i
			a.taken[i] = true
			break
		}
	}
	a.mapped[handle] = found
	return found
}

// Malloc returns the address of size bytes for work of stream, or false: size 0, more than
// MaxSize, or no memory.
func (a *Allocator) Malloc(size, stream uint64) (Addr, bool) {
	a.stats.Requests++
	a.underWay = true
	defer func() { a.underWay = false }()
	a.last = Answer{Failed, -1}
	if size == 0 {
		a.stats.ZeroSize++
		a.last.Class = Zero
		return Addr{}, false
	}
	if size > MaxSize {
		a.stats.Failed++
		return Addr{}, false
	}
	z := (size + Unit - 1) &^ (Unit - 1)
	entry := -1
	a.streamIndex(stream)
	if s := a.planStream(stream); s >= 0 {
		a.match.asked, a.match.fixed = a.stats.Requests, a.stats.Requests-a.stats.Dynamic
		entry = a.match.request(int64(z), s)
	}
	a.last.Entry = entry
	class, vote := Unknown, -1
	a.stranger = false
	if entry >= 0 && entry == len(a.plan.Entries)-1 {
		s := &a.stats
		served := s.Conflicts + s.TooLarge + s.Unknown + s.Dynamic - s.Guests
		if served == a.lap {
			a.leaveAll(false)
			a.trim(nothing, false, math.MaxInt64)
		}
		a.endLap()
		a.lap = served
	}
	if entry >= 0 {
		vote = a.match.vote(entry)
		slot := a.plan.Slots[a.plan.Entries[entry].Slot]
		begin, end := slot.span()
		planned := slot.Flags&Planned != 0
		hi := uint64(slot.Hi)
		other := z != hi*Unit && (slot.fixed() || !planned && slot.Flags&Optional != 0 && slot.Lo == slot.Hi) &&
			(entry < a.match.loop || !a.match.factors.proportional(z/Unit, hi, a.match.fixed))
		a.stranger = other || planned && a.match.doubt > 0 && !a.match.lasts(entry)
		switch {
		case planned && z > end-begin:
			class = TooLarge
		case a.stranger:
			class = Unknown
		case !planned:
			class = Dynamic
			if slot.List == 0 || a.aside > 0 {
				break
			}
			if r, ok := a.place(stream, a.occupied.needs[slot.List-1], z, lentRanges); ok && a.takeArena(stream, r, z) {
				a.stats.Guests++
				return a.hand(Addr{0, r.begin}, live{size: z, span: r.end - r.begin, vote: vote, stream: stream}, Dynamic), true
			}
		case a.aside > 0, !a.occupied.free(interval{begin, end}), !a.takeArena(stream, interval{begin, end}, z):
			class = Conflict
		default:
			return a.hand(Addr{0, begin}, live{size: z, span: end - begin, vote: vote, stream: stream}, Hit), true
		}
	}
	if class == Unknown && a.planStream(stream) >= 0 {
		a.strays++
	}
	sweep := a.aside == 0 && a.planStream(stream) >= 0 && class != Dynamic
	known := a.lifeKnown(entry)
	first := sweep && known && class != Unknown
	if first {
		if r, found := a.sweep(stream, entry, z, true); found && a.takeArena(stream, r, z) {
			a.stats.Guests++
			return a.hand(Addr{0, r.begin}, live{size: z, span: r.end - r.begin, vote: vote, stream: stream}, class), true
		}
	}
	h, at, ok := a.ready(stream, z, !sweep)
	if !ok && sweep {
		if !first || !a.arenaWhole() {
			if r, found := a.sweep(stream, entry, z, !known); found && a.takeArena(stream, r, z) {
				a.stats.Guests++
				return a.hand(Addr{0, r.begin}, live{size: z, span: r.end - r.begin, vote: vote, stream: stream}, class), true
			}
		}
		h, at, ok = a.ready(stream, z, true)
	}
	if !ok {
		a.stats.Failed++
		return Addr{}, false
	}
	h.take(at, z/Unit)
	return a.hand(Addr{h.space, at * Unit}, live{size: z, span: z, vote: vote, stream: stream}, class), true
}

// hand counts a block that is handed out.
func (a *Allocator) hand(at Addr, b live, class Class) Addr {
	s := &a.stats
	switch class {
	case Hit:
		s.Hits++
	case Conflict:
		s.Conflicts++
	case TooLarge:
		s.TooLarge++
	case Dynamic:
		s.Dynamic++
	default:
		s.Unknown++
	}
	if e := a.last.Entry; e >= 0 {
		if e >= a.match.loop {
			a.match.last = e
		}
		if b.inner = !a.stranger && a.match.isInner(e); b.inner {
			a.match.inner++
		}
	}
	a.live[at] = b
	a.last.Class = class
	s.LiveBytes += b.size
	s.PeakLiveBytes = max(s.PeakLiveBytes, s.LiveBytes)
	if at.Space != 0 {
		if class == Conflict || class == TooLarge {
			s.StaticFallbackBytes += b.size
		}
		s.HeapLiveBytes += b.size
		s.HeapPeakBytes = max(s.HeapPeakBytes, s.HeapLiveBytes)
	}
	return at
}

// ready returns the stream's heap if the place it has for z bytes is committed, or can be and may be.
func (a *Allocator) ready(stream, z uint64, mayCommit bool) (h *growing, at uint64, ok bool) {
	if h = a.byStream[stream]; h == nil {
		if !mayCommit {
			return nil, 0, false
		}
		h = a.heapOf(stream)
	}
	a.leave(h, false)
	if at = h.place(z / Unit); !mayCommit || a.missing(h, at, z) == 0 {
		return h, at, a.missing(h, at, z) == 0
	}
	if at, ok = a.commitHeap(h, z); !ok && a.leaveAll(true) {
		at, ok = a.commitHeap(h, z)
	}
	return h, at, ok || a.missing(h, at, z) != never && a.makeRoom(a.heldFor(h, at, z))
}

// missing counts the granules that the heap would have to commit for z bytes at unit at; never where it has no room.
func (a *Allocator) missing(h *growing, at, z uint64) uint64 {
	start, g := at*Unit, a.opts.Granularity
	if a.granules(start+z) > a.granules(a.opts.HeapBytes) {
		return never
	}
	return h.pages.missing(start/g, (start+z+g-1)/g)
}

func (a *Allocator) heapOf(stream uint64) *growing {
	h := a.byStream[stream]
	if h == nil {
		h = newGrowing(uint32(len(a.heaps)+1), stream)
		a.heaps = append(a.heaps, h)
		a.byStream[stream] = h
	}
	return h
}

// Free takes back an address and reports whether it was live.
func (a *Allocator) Free(at Addr) bool {
	b, ok := a.live[at]
	if !ok {
		a.stats.BadFree++
		return false
	}
	if b.pinned {
		return true
	}
	delete(a.live, at)
	s := &a.stats
	s.Frees++
	s.LiveBytes -= b.size
	if b.inner {
		a.match.inner--
	}
	a.match.freed(b.vote)
	if at.Space == 0 {
		r := interval{at.Offset, at.Offset + b.span}
		a.freedArena(b, r)
		a.occupied.drop(r)
		return true
	}
	s.HeapLiveBytes -= b.size
	if h := a.heaps[at.Space-1]; len(b.marks) > 0 {
		a.enterLimbo(h, at, b)
	} else {
		h.give(at.Offset/Unit, b.size/Unit)
	}
	return true
}

// Mark tells of a point of the program: iteration value begins, or the phase called name.
// Other kinds are ignored.
func (a *Allocator) Mark(kind MarkKind, value int64, name string) {
	switch kind {
	case MarkIteration:
		a.match.markIteration(value)
	case MarkPhase:
		a.match.markPhase(name)
	}
}

// Last returns what the latest request was taken for: its entry is known even where the
// address came from a heap.
func (a *Allocator) Last() Answer { return a.last }

// Stats returns the counters.
func (a *Allocator) Stats() Stats {
	s := a.stats
	m := a.match
	s.Slow, s.Resyncs, s.Restarts = m.slow, m.resyncs, m.restarts
	s.ArenaBytes = a.occupied.pages.committed() * a.opts.Granularity
	s.Position = uint64(m.n)
	if pos, _ := m.best(); m.mode == inSync {
		s.Position = uint64(pos)
	}
	return s
}
