package profile

import (
	"cmp"
	"slices"

	"stweaver/ir"
)

// marker places a snapshot's marks among its events. There are two sources.
//
// External annotations are spans with wall times on the clock of the events. The events
// are in the allocator's order, which their times follow only roughly; so a span's end
// goes before the first event that is not earlier, and events are never moved.
//
// User metadata is a label that each event carries, set per thread. Threads that set none
// (the backward pass) have an empty one, which says nothing: a mark is made where a label
// differs from the last one that was not empty.
type marker struct {
	s       *snapshot
	pending []span // of this device, by time
	untimed int    // spans, or all of them where events have no times
	outside int    // ends of spans that were over before the first event
	timed   bool   // some event has a time
	label   uint32
	marks   []ir.Mark
	started bool
}

// newMarker collects the spans of the device.
func (s *snapshot) newMarker(annotations value) *marker {
	m := &marker{s: s}
	for _, item := range s.itemsOf(annotations) {
		if item.k != kDict || s.dicts.at(int(item.n)).shape != shapeSpan {
			continue
		}
		a := s.spans[s.dicts.at(int(item.n)).idx]
		switch {
		case a.device >= 0 && a.device != int64(s.device), a.stage != sSTART && a.stage != sEND:
		case a.time == noTime:
			m.untimed++
		default:
			m.pending = append(m.pending, a)
		}
	}
	slices.SortStableFunc(m.pending, func(a, b span) int { return cmp.Compare(a.time, b.time) })
	return m
}

// before places the marks that belong before event e, whose tick is t.
func (m *marker) before(e *event, t ir.Tick) {
	if e.time != noTime {
		if !m.started {
			m.started = true
			m.dropEarlier(e.time)
		}
		m.timed = true
		n := 0
		for n < len(m.pending) && m.pending[n].time <= e.time {
			m.place(m.pending[n], t)
			n++
		}
		m.pending = m.pending[n:]
	}
	if e.label != sEmpty && e.label != m.label {
		m.label = e.label
		m.marks = append(m.marks, ir.Mark{Tick: t, Kind: ir.MarkEnter, Name: m.s.names.id(m.s.strs[e.label])})
	}
}

func (m *marker) place(a span, t ir.Tick) {
	k := ir.MarkEnter
	if a.stage == sEND {
		k = ir.MarkLeave
	}
	m.marks = append(m.marks, ir.Mark{Tick: t, Kind: k, Name: m.s.names.id(m.s.strs[a.name])})
}

// dropEarlier removes the spans that were over before the first event: the annotations
// have a buffer of their own, which reaches back further than a full ring of events.
func (m *marker) dropEarlier(first int64) {
	n, _ := slices.BinarySearchFunc(m.pending, first, func(a span, t int64) int { return cmp.Compare(a.time, t) })
	opened := map[uint32][]int{} // by name: starts without an end, the latest last
	drop := make([]bool, n)
	for i, a := range m.pending[:n] {
		if a.stage == sSTART {
			opened[a.name] = append(opened[a.name], i)
			continue
		}
		drop[i] = true
		if o := opened[a.name]; len(o) > 0 {
			drop[o[len(o)-1]] = true
			opened[a.name] = o[:len(o)-1]
		}
	}
	kept := m.pending[:0]
	for i, a := range m.pending {
		if i < n && drop[i] {
			m.outside++
			continue
		}
		kept = append(kept, a)
	}
	m.pending = kept
}

// finish places what follows the last event, at the end, and returns the marks.
func (m *marker) finish(end ir.Tick) []ir.Mark {
	if !m.timed {
		m.untimed += len(m.pending)
		m.pending = nil
	}
	for _, a := range m.pending {
		m.place(a, end)
	}
	return m.marks
}

func (m *marker) note(t *ir.Trace) {
	if m.untimed > 0 {
		t.Notef(ir.Info, "marks", "%d annotations have no time to place them by", m.untimed)
	}
	if m.outside > 0 {
		t.Notef(ir.Info, "marks", "%d annotations lie before the first event", m.outside)
	}
}
