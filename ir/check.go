package ir

import (
	"fmt"
	"math"
	"slices"
)

// CheckError names a broken structural invariant by its number in doc.go.
type CheckError struct {
	Rule string
	Msg  string
}

func (e *CheckError) Error() string { return "ir: " + e.Rule + ": " + e.Msg }

func broken(rule, format string, args ...any) error {
	return &CheckError{rule, fmt.Sprintf(format, args...)}
}

// Check reports the first broken T invariant of the trace.
func (t *Trace) Check() error {
	if len(t.Names) == 0 || t.Names[0] != "" {
		return broken("T1", "name 0 is not empty")
	}
	if t.Events < 0 || t.Events > math.MaxInt32*int64(64) {
		return broken("T3", "%d events", t.Events)
	}
	var sum Bytes
	prev := Before
	seen := make([]uint64, (t.Events+63)/64)
	once := func(k Tick) bool {
		bit := uint64(1) << (k & 63)
		if seen[k>>6]&bit != 0 {
			return false
		}
		seen[k>>6] |= bit
		return true
	}
	end := Tick(t.Events)
	for i := range t.Requests {
		r := &t.Requests[i]
		if int(r.Stream) >= len(t.Streams) || int(r.Site) >= len(t.Names) {
			return broken("T1", "request %d: stream %d, site %d", i, r.Stream, r.Site)
		}
		if r.Size <= 0 || r.Size > MaxSize {
			return broken("T2", "request %d: size %d", i, r.Size)
		}
		if sum += r.Rounded(); sum < 0 {
			return broken("T2", "the sizes up to request %d overflow", i)
		}
		switch {
		case r.Alloc != Before && (r.Alloc < 0 || r.Alloc >= end),
			r.FreeRequested <= r.Alloc, r.Free < r.FreeRequested,
			r.FreeRequested != Never && r.FreeRequested >= end,
			r.Free != Never && r.Free >= end:
			return broken("T3", "request %d: alloc %v, free requested %v, free %v of %d events",
				i, r.Alloc, r.FreeRequested, r.Free, t.Events)
		}
		if r.Alloc < prev || r.Alloc == prev && prev != Before {
			return broken("T4", "request %d: alloc %v after %v", i, r.Alloc, prev)
		}
		prev = r.Alloc
		if r.Alloc != Before && !once(r.Alloc) ||
			r.FreeRequested != Never && !once(r.FreeRequested) ||
			r.Free != Never && r.Free != r.FreeRequested && !once(r.Free) {
			return broken("T5", "request %d: a tick of %v, %v, %v is taken", i, r.Alloc, r.FreeRequested, r.Free)
		}
	}
	last := Tick(0)
	for i, m := range t.Marks {
		if m.Tick < last || m.Tick > end || m.Kind < MarkIteration || m.Kind > MarkLeave || int(m.Name) >= len(t.Names) {
			return broken("T6", "mark %d: tick %v after %v, kind %d, name %d", i, m.Tick, last, m.Kind, m.Name)
		}
		last = m.Tick
	}
	last = 0
	for i, at := range t.Releases {
		if at < last || at > end {
			return broken("T6", "release %d: tick %v after %v", i, at, last)
		}
		last = at
	}
	return nil
}

// Check reports the first broken P invariant of the problem.
func (p *Problem) Check() error {
	if p.L0 < 0 || p.L0 > p.L1 || int(p.L1) != len(p.Entries) {
		return broken("P1", "loop [%d, %d) of %d entries", p.L0, p.L1, len(p.Entries))
	}
	if err := p.checkBuffers(); err != nil {
		return err
	}
	if err := p.checkEntries(); err != nil {
		return err
	}
	if s := p.Sharing; s.Age < 0 || s.Age > MaxAge || !s.On && (s.Age > 0 || slices.ContainsFunc(p.Buffers, func(b Buffer) bool { return b.Lag > 0 })) {
		return broken("P10", "streams share: %t, age %d, or a buffer with a lag where they do not", s.On, s.Age)
	}
	last := uint32(0)
	for i, m := range p.Marks {
		if m.Entry < last || Tick(m.Entry) > p.L1 || int(m.Name) >= len(p.Names) && m.Name != 0 {
			return broken("P9", "mark %d at entry %d", i, m.Entry)
		}
		last = m.Entry
	}
	return p.Constraints.check(p)
}

func (p *Problem) checkBuffers() error {
	var sum Bytes
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Size <= 0 || b.Size > MaxSize || b.Size%Align != 0 || int(b.Stream) >= len(p.Streams) {
			return broken("P2", "buffer %d: size %d, stream %d", i, b.Size, b.Stream)
		}
		if sum += b.Size; sum < 0 {
			return broken("P2", "the sizes up to buffer %d overflow", i)
		}
		if b.Start < 0 || b.Start >= b.End || b.End > p.L1 {
			return broken("P3", "buffer %d: [%d, %d) of %d", i, b.Start, b.End, p.L1)
		}
		if b.HeadStart != b.HeadEnd && (b.HeadStart < 0 || b.HeadStart > p.L0 || b.HeadEnd <= p.L0 ||
			b.HeadEnd > b.Start || b.Start < p.L0 || b.End != p.L1) {
			return broken("P4", "buffer %d: head [%d, %d), main [%d, %d), loop [%d, %d)",
				i, b.HeadStart, b.HeadEnd, b.Start, b.End, p.L0, p.L1)
		}
		if i > 0 && b.Start < p.Buffers[i-1].Start {
			return broken("P5", "buffer %d starts at %d, before buffer %d", i, b.Start, i-1)
		}
	}
	return nil
}

func (p *Problem) checkEntries() error {
	starts := make([]bool, len(p.Buffers))
	heads := make([]bool, len(p.Buffers))
	for k := range p.Entries {
		e := &p.Entries[k]
		if e.MinSize <= 0 || e.MinSize > e.MaxSize || e.MaxSize > MaxSize || int(e.Stream) >= len(p.Streams) ||
			e.NfMin > e.NfMax || e.NfMax > 3 || !slices.Contains(Kinds[:], e.Kind) {
			return broken("P8", "entry %d: sizes %d to %d, stream %d, frees %d to %d, kind %d",
				k, e.MinSize, e.MaxSize, e.Stream, e.NfMin, e.NfMax, e.Kind)
		}
		if (e.Buffer == NoBuffer) != (e.Kind == Dynamic) {
			return broken("P8", "entry %d is %v and has buffer %d", k, e.Kind, e.Buffer)
		}
		if e.Buffer == NoBuffer {
			continue
		}
		if int(e.Buffer) >= len(p.Buffers) {
			return broken("P6", "entry %d: buffer %d of %d", k, e.Buffer, len(p.Buffers))
		}
		b := &p.Buffers[e.Buffer]
		if e.MaxSize != b.Size || e.Stream != b.Stream {
			return broken("P6", "entry %d: %d bytes on stream %d, its buffer %d has %d on %d",
				k, e.MaxSize, e.Stream, e.Buffer, b.Size, b.Stream)
		}
		switch {
		case Tick(k) == b.Start:
			starts[e.Buffer] = true
		case b.HasHead() && Tick(k) == b.HeadStart && b.HeadStart < p.L0:
			heads[e.Buffer] = true
		default:
			return broken("P6", "entry %d does not start buffer %d [%d, %d)", k, e.Buffer, b.Start, b.End)
		}
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if !starts[i] || b.HasHead() && b.HeadStart < p.L0 && !heads[i] {
			return broken("P7", "buffer %d has no entry at its start", i)
		}
	}
	return nil
}
