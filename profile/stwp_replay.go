package profile

import (
	"fmt"
	"strings"

	"stweaver/ir"
)

// trace replays the events of the wanted device; -1: the one with the most.
func (s *stwp) trace(want int) (*ir.Trace, error) {
	t := &s.notes
	t.Reserved, t.Allocator = -1, s.allocator
	device, allocs, err := s.pick(want)
	if err != nil {
		return nil, err
	}
	t.Device = device
	p := stwpReplay{s: s, t: t, lives: newLives(), used: map[uint64]bool{}, empty: map[uint64]bool{}}
	p.lives.during = make([]ir.Request, 0, allocs)
	for i := range s.events.n {
		e := s.events.at(i)
		if e.kind == stwpMark {
			t.Marks = append(t.Marks, p.mark(e))
		} else if int(e.device) == device {
			p.event(e)
		}
	}
	return p.finish()
}

// pick chooses the device, as Options.Device says, and counts its requests.
func (s *stwp) pick(want int) (device, requests int, err error) {
	var events, allocs [256]int
	for i := range s.events.n {
		if e := s.events.at(i); e.kind != stwpMark {
			events[e.device]++
			if e.kind == stwpMalloc && e.v != 0 && e.size > 0 {
				allocs[e.device]++
			}
		}
	}
	best := -1
	for d := range events {
		if allocs[d] > 0 && (best < 0 || events[d] > events[best]) {
			best = d
		}
	}
	switch {
	case s.events.n == 0:
		return 0, 0, fault("no whole block of events").
			hint("the process died early, the file was cut off, or the program asked for no memory: record again, and longer")
	case best < 0:
		return 0, 0, fault("no allocations in %d events", s.events.n).
			hint("the program asked for no memory through the recorder: begin to record before the first request")
	case want < 0:
		want = best
	case want >= len(events) || allocs[want] == 0:
		return 0, 0, fault("no allocations of device %d", want).hint(fmt.Sprintf("device %d has %d events", best, events[best]))
	}
	var others []string
	for d, n := range events {
		if n > 0 && d != want {
			others = append(others, fmt.Sprintf("%d (%d events)", d, n))
		}
	}
	if len(others) > 0 {
		s.notes.Notef(ir.Info, "devices", "this is device %d; the file also has device %s", want, strings.Join(others, ", "))
	}
	return want, allocs[want], nil
}

// stwpReplay is the replay of one device.
//
// The recorder's allocator hands memory on when it is freed, whoever works on it: streams that were
// named to it (record_stream) are waited for by the next owner. Such a block has a free of two
// moments: asked at the free, completed an event later, at the earliest.
type stwpReplay struct {
	s       *stwp
	t       *ir.Trace
	lives   *lives
	used    map[uint64]bool // alive, and another stream uses it
	empty   map[uint64]bool // addresses of requests of no bytes
	marked  int             // requests that another stream used
	refused int
}

func (p *stwpReplay) mark(e *stwpEvent) ir.Mark {
	m := ir.Mark{Tick: p.lives.tick, Kind: ir.MarkKind(e.device), Name: ir.NameID(e.ref)}
	if m.Kind == ir.MarkIteration {
		m.Value = int64(e.v)
	}
	return m
}

func (p *stwpReplay) event(e *stwpEvent) {
	l := p.lives
	switch e.kind {
	case stwpHeld:
		if e.v < 1<<62 {
			p.t.Reserved = ir.Bytes(e.v)
		}
	case stwpMalloc:
		delete(p.used, e.v)
		delete(p.empty, e.v)
		p.t.Reserved = -1 // what was held so far says nothing about what comes
		switch {
		case e.v == 0:
			p.refused++
		case e.size == 0:
			l.count.zero++
			p.empty[e.v] = true
		default:
			l.alloc(e.v, claim{size: ir.Bytes(e.size), stream: p.s.streams[e.ref]}, 0)
		}
	case stwpUse:
		if at, ok := l.places[e.v]; ok && at.state == placeOpen && p.s.streams[e.ref] != l.streams[l.owner(at).Stream] {
			p.used[e.v] = true
		}
	case stwpFree:
		p.free(e.v)
	}
}

func (p *stwpReplay) free(addr uint64) {
	l := p.lives
	at, known := l.places[addr]
	switch {
	case p.empty[addr]:
		delete(p.empty, addr)
		return
	case !known: // alive before the recording, of a size that nobody has told
		l.count.unmatched++
		return
	}
	c := claim{size: l.owner(at).Size}
	if p.used[addr] {
		delete(p.used, addr)
		p.marked++
		l.ask(addr, c)
	}
	l.free(addr, c)
}

func (p *stwpReplay) finish() (*ir.Trace, error) {
	t := p.t
	t.Names = p.s.names.list
	p.lives.count.deferred = 0 // by record_stream, each of them
	if err := p.lives.finish(t); err != nil {
		return nil, err
	}
	if p.marked > 0 {
		t.Notef(ir.Info, "record-stream", "%d blocks were used by another stream than their own when they were freed", p.marked)
	}
	if p.refused > 0 {
		t.Notef(ir.Warn, "oom", "%d requests failed for lack of memory while this was recorded", p.refused)
	}
	judgePeak(t)
	return t, nil
}
