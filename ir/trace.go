package ir

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// Request is one allocation with its free, as the recorded allocator saw it.
// Lifespans are half-open: live at ticks [Alloc, Free).
type Request struct {
	Size          Bytes // as asked for, not rounded; > 0
	Alloc         Tick  // Before when it was live at the start of the recording
	FreeRequested Tick  // the program let go; Never when it did not
	Free          Tick  // the memory was reusable; >= FreeRequested, Never when still live
	Stream        StreamID
	Site          NameID // where it was asked for, 0 where unknown
	Flags         RequestFlags
	Pool          uint32 // 0 = the default pool; else a private pool (CUDA graph, MemPool)
}

// RequestFlags say how much of a request was really seen.
type RequestFlags uint32

// Request flags.
const (
	Ghost       RequestFlags = 1 << iota // resident at the end and never in an event: neither alloc nor free seen
	LostFree                             // its address was handed out again without a free: closed at that alloc
	PendingFree                          // free requested, not completed when recording ended
	Sized                                // Size is the block size (rounded by the recorder), not the requested size
	Ignored                              // a rule takes it out of the plan: served like a request of a private pool
)

// MarkKind tells what a Mark separates.
type MarkKind uint8

// Mark kinds.
const (
	MarkIteration MarkKind = iota + 1 // iteration Value begins; Value -1: the last one has ended
	MarkPhase                         // a phase begins: "F" / "B" of a micro-batch, "optimizer step", …
	MarkEnter                         // a module or annotated span is entered
	MarkLeave                         // … and left
)

// Mark is a point of the program's own structure. It lies before the event of its tick.
type Mark struct {
	Tick  Tick
	Value int64 // MarkIteration: the iteration's number as written; else 0
	Name  NameID
	Kind  MarkKind
	_     [3]byte
}

// Trace is a profile as read: what was asked for, and when, in the allocator's order.
// A Trace is immutable once a reader has returned it.
type Trace struct {
	// Requests are ordered by Alloc; those with Alloc == Before come first. Requests with
	// Alloc >= 0 have distinct alloc ticks, and every alloc, free request and completed
	// free has a tick of its own, except that FreeRequested == Free where the recorder
	// freed at once.
	Requests []Request
	Lags     []uint16 // by request, in what Asked returns; else nil. Not part of the text form
	Marks    []Mark   // ordered by Tick, then as written
	Releases []Tick   // before the events of which the program had what was cached given back (empty_cache); ascending
	Names    []string // Names[0] == ""
	Streams  []uint64 // raw handle of each stream, by first appearance

	Stacks *Stacks // where each request was asked for, if the reader was asked to keep it; else nil

	Events int64 // ticks lie in [0, Events)

	Format string // reader that made it, e.g. "torch-snapshot"
	Device int    // device ordinal the requests belong to

	// OnePass is true for formats that have no notion of a step (interval lists, op logs):
	// the whole trace is one pass, planned without a loop.
	OnePass bool
	// Wrapped: the recorder's ring buffer overflowed, the oldest events are lost.
	Wrapped bool
	// Late: recording began when the program was already running.
	Late bool

	// Reserved is the most memory the recorded allocator held from the driver, in bytes;
	// -1 where the profile does not say. Allocator names it ("native", "expandable", "").
	Reserved  Bytes
	Allocator string

	// Notes are findings about the quality of the recording, in the order found.
	Notes []Note
}

// Stacks are the call stacks of a trace's requests, each distinct one once. Number 0 is the empty stack.
type Stacks struct {
	Of    []uint32 // by request: number of its stack
	Start []uint32 // Names of stack k are Names[Start[k]:Start[k+1]], to the end for the last one
	Names []NameID // "file:line function", innermost first
}

// Frames returns the frames of stack k, innermost first.
func (s *Stacks) Frames(k uint32) []NameID {
	end := uint32(len(s.Names))
	if int(k)+1 < len(s.Start) {
		end = s.Start[k+1]
	}
	return s.Names[s.Start[k]:end]
}

// NoteLevel grades a Note.
type NoteLevel uint8

// Note levels: Info is worth knowing, Warn costs plan quality or trust, Bad makes
// the trace unfit for planning.
const (
	Info NoteLevel = iota
	Warn
	Bad
)

// Note is one finding about a recording. Code is stable and short ("late", "wrapped",
// "lost-free", "pending-free", "ghost", …); Text is a sentence with numbers in it.
type Note struct {
	Level NoteLevel
	Code  string
	Text  string
}

// Notef appends a finding.
func (t *Trace) Notef(level NoteLevel, code, format string, args ...any) {
	t.Notes = append(t.Notes, Note{level, code, fmt.Sprintf(format, args...)})
}

// Name returns the text of id.
func (t *Trace) Name(id NameID) string { return t.Names[id] }

// Rounded returns the size of r as the planner sees it: a multiple of Align.
func (r *Request) Rounded() Bytes { return RoundUp(r.Size) }

// Asked returns t as the program saw it: every free is where it was asked for, and Lags say for how many
// requests the recorder then deferred it, because a marked stream (record_stream) might still use the memory.
func (t *Trace) Asked() *Trace {
	out := *t
	out.Requests = slices.Clone(t.Requests)
	out.Lags = make([]uint16, len(t.Requests))
	made := func(before Tick) int { // requests
		return sort.Search(len(t.Requests), func(i int) bool { return t.Requests[i].Alloc >= before })
	}
	for i := range out.Requests {
		if r := &out.Requests[i]; r.Free != r.FreeRequested {
			out.Lags[i] = uint16(min(made(r.Free)-made(r.FreeRequested), MaxLag))
			r.Free = r.FreeRequested
		}
	}
	return &out
}

// Lag is the lag of request i, 0 where t is not what Asked returned.
func (t *Trace) Lag(i uint32) uint16 {
	if t.Lags == nil {
		return 0
	}
	return t.Lags[i]
}

// LivePeak is the largest sum of rounded sizes alive at one tick: no layout of these
// requests can be smaller. It returns the peak in bytes and the first tick that has it.
func (t *Trace) LivePeak() (Bytes, Tick) { return t.livePeak(nil) }

// StreamPeaks returns LivePeak for each stream alone, in bytes, indexed by StreamID.
// Their sum is the least an allocator needs that never shares memory between streams.
func (t *Trace) StreamPeaks() []Bytes {
	peaks := make([]Bytes, len(t.Streams))
	for s := range t.Streams {
		id := StreamID(s)
		peaks[s], _ = t.livePeak(func(r *Request) bool { return r.Stream == id })
	}
	return peaks
}

func (t *Trace) livePeak(keep func(*Request) bool) (Bytes, Tick) {
	delta := make([]Bytes, t.Events+1)
	var live, peak Bytes
	at := Tick(0)
	for i := range t.Requests {
		r := &t.Requests[i]
		if keep != nil && !keep(r) {
			continue
		}
		if r.Alloc == Before {
			live += r.Rounded()
		} else {
			delta[r.Alloc] += r.Rounded()
		}
		if r.Free != Never {
			delta[r.Free] -= r.Rounded()
		}
	}
	peak = live
	for k, d := range delta {
		live += d
		if live > peak {
			peak, at = live, Tick(k)
		}
	}
	return peak, at
}

// Digest identifies the canonical content of the trace: the order of events with size,
// stream and identity of each request, and the marks. (A free that was deferred counts both times.) Addresses, times, stacks and the
// file format it came in do not enter, so that ranks which ask alike share a plan.
func (t *Trace) Digest() [32]byte {
	h := sha256.New()
	buf := make([]byte, 0, 1<<16)
	put := func(v int64) {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(v))
		if len(buf) > 1<<16-64 {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	one := int64(0)
	if t.OnePass {
		one = 1
	}
	put(1) // version of the canonical form
	put(one)
	put(t.Events)
	put(int64(len(t.Requests)))
	for i := range t.Requests {
		r := &t.Requests[i]
		put(int64(r.Size))
		put(int64(r.Alloc))
		put(int64(r.Free))
		put(int64(r.Stream) | int64(r.Pool)<<32)
		if r.FreeRequested != r.Free { // deferred; no other field is negative there
			put(-2 - int64(r.FreeRequested))
		}
	}
	put(int64(len(t.Marks)))
	for _, m := range t.Marks {
		put(int64(m.Tick))
		put(int64(m.Kind))
		put(m.Value)
		put(int64(len(t.Names[m.Name])))
		buf = append(buf, t.Names[m.Name]...)
		if len(buf) > 1<<15 {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	h.Write(buf)
	var out [32]byte
	h.Sum(out[:0])
	return out
}
