package profile

import (
	"bufio"
	"fmt"
	"strings"

	"stweaver/ir"
)

// The torch memory snapshot: torch.cuda.memory._dump_snapshot, any pickle of
// torch.cuda.memory._snapshot(), or the C++ runtime's _memory_snapshot_pickled.
//
//	device_traces[d]   the events of device d, oldest first: the order is the truth
//	segments           what the allocator holds at the end: the state the events lead to
//	allocator_settings, external_annotations
//
// The events are replayed forward into lives; what they left open is compared with the
// blocks of the final state, which also tells what no event spoke of. What the allocator
// held is counted backward from the final segments (snapshot_state.go).
//
// A free has two moments, asked and completed; between them another stream may still use
// the memory. Where nothing happens between them they are one tick.

// sniffSnapshot accepts every pickle that says its protocol.
func sniffSnapshot(head []byte) bool { return len(head) > 1 && head[0] == opPROTO && head[1] < 0x20 }

const noEventsHint = "enable _record_memory_history before the step and dump before disabling it"

func readSnapshot(r *bufio.Reader, o Options) (*ir.Trace, error) {
	u := newUnpickler(r)
	if o.Stacks {
		u.stacks = newStackTable()
	}
	top, err := u.run()
	if err != nil {
		return nil, err
	}
	u.memo, u.stack, u.buf = slab[value]{}, nil, nil // no longer needed, and large
	s := &snapshot{records: u.records}
	if err := s.open(top, o.Device); err != nil {
		return nil, err
	}
	if err := s.replay(); err != nil {
		return nil, err
	}
	return s.finish()
}

// snapshot is one device of a decoded file on its way to a trace.
type snapshot struct {
	*records
	device   int
	runs     []value // of events, kRun
	total    int     // events of all actions
	allocs   int
	settings value
	segs     []*segment // of this device, by address
	lives    *lives
	names    *names
	sites    map[uint32]ir.NameID
	poolNums map[uint32]uint32 // by pair: 1, 2, … by first appearance
	marker   *marker
	bursts   bursts
	held     held
	ooms     int
	stackOf  []uint32 // of each request that was seen to be made, where stacks are kept
	trace    *ir.Trace
}

// open finds the parts of the file and the device to read.
func (s *snapshot) open(top value, want int) error {
	s.trace = &ir.Trace{Reserved: -1}
	if top.k == kList {
		if len(s.segmentsOf(top)) > 0 {
			return fault("no alloc events: the file is a bare list of segments").hint(noEventsHint)
		}
		return fault("a pickled list, but not of segments").hint("pass what torch.cuda.memory._dump_snapshot wrote")
	}
	traces, ok := s.get(top, sDeviceTraces)
	segments, hasSegments := s.get(top, sSegments)
	switch {
	case !ok && hasSegments:
		return fault("no alloc events: the snapshot has no device_traces").hint(noEventsHint)
	case !ok:
		return fault("a pickled %s, but not a memory snapshot: it has no device_traces", top.k).
			hint("pass what torch.cuda.memory._dump_snapshot wrote")
	case traces.k != kList:
		return fault("device_traces is a %s, not a list", traces.k)
	}
	if err := s.pick(s.itemsOf(traces), want); err != nil {
		return err
	}
	s.trace.Device = s.device
	s.settings, _ = s.get(top, sAllocatorSettings)
	s.segs = s.deviceSegments(s.segmentsOf(segments))
	s.lives = newLives()
	s.lives.poolOf = s.pool
	s.lives.during = make([]ir.Request, 0, s.allocs)
	s.names = newNames()
	s.sites = make(map[uint32]ir.NameID)
	s.poolNums = make(map[uint32]uint32)
	annotations, _ := s.get(top, sExternalAnnotations)
	s.marker = s.newMarker(annotations)
	return nil
}

// pick chooses the device: the wanted one, or the one with the most events.
func (s *snapshot) pick(devices []value, want int) error {
	events, allocs := make([]int, len(devices)), make([]int, len(devices))
	best := -1
	for d, v := range devices {
		s.each(s.itemsOf(v), func(_ int, e *event) error {
			events[d]++
			if e.act == sAlloc {
				allocs[d]++
			}
			return nil
		})
		if allocs[d] > 0 && (best < 0 || events[d] > events[best]) {
			best = d
		}
	}
	if best < 0 {
		return fault("no alloc events").hint(noEventsHint)
	}
	if want >= len(devices) || want >= 0 && allocs[want] == 0 {
		return fault("no alloc events of device %d", want).hint(fmt.Sprintf("device %d has %d events", best, events[best]))
	}
	if want < 0 {
		want = best
	}
	var others []string
	for d, n := range events {
		if n > 0 && d != want {
			others = append(others, fmt.Sprintf("%d (%d events)", d, n))
		}
	}
	if len(others) > 0 {
		s.trace.Notef(ir.Info, "devices", "this is device %d; the file also has device %s", want, strings.Join(others, ", "))
	}
	s.device, s.total, s.allocs = want, events[want], allocs[want]
	s.runs = s.itemsOf(devices[want])
	return nil
}

// each calls f for the events of runs, in order, with their ordinal.
func (s *snapshot) each(runs []value, f func(i int, e *event) error) error {
	i := 0
	for _, run := range runs {
		if run.k != kRun {
			continue
		}
		for k := run.n >> 32; k < run.n&0xffffffff; k++ {
			if err := f(i, s.events.at(int(k))); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

// replay feeds the events to lives. A request to free waits for the next event, to see
// whether its completion follows at once.
func (s *snapshot) replay() error {
	l := s.lives
	var asked *event
	settle := func() {
		if asked != nil {
			l.ask(asked.addr, claimOf(asked))
			asked = nil
		}
	}
	err := s.each(s.runs, func(i int, e *event) error {
		s.bursts.event(e.act, e.size, s.lives.tick, s.held.net)
		switch e.act {
		case sAlloc, sFreeRequested, sFreeCompleted, sFree:
		case sSegmentAlloc, sSegmentFree, sSegmentMap, sSegmentUnmap:
			if asked == nil {
				s.marker.before(e, l.tick)
			}
			return s.inEvent(i, e, s.held.event(e.act, e.size))
		case sOOM:
			s.ooms++
			return nil
		default:
			return nil
		}
		if e.has&hasAddr == 0 || e.has&hasSize == 0 {
			return s.inEvent(i, e, fault("addr or size is missing"))
		}
		if err := checkSize(e.size); err != nil {
			return s.inEvent(i, e, err)
		}
		if e.size == 0 {
			if e.act == sAlloc {
				l.count.zero++
			}
			return nil
		}
		if asked != nil && e.act == sFreeCompleted && e.addr == asked.addr {
			l.free(e.addr, claimOf(asked))
			asked = nil
			return nil
		}
		settle()
		s.marker.before(e, l.tick)
		switch e.act {
		case sAlloc:
			l.alloc(e.addr, claimOf(e), s.site(e.site))
			if s.records.stacks != nil {
				s.stackOf = append(s.stackOf, e.stack)
			}
		case sFreeRequested:
			asked = e
		default:
			l.free(e.addr, claimOf(e))
		}
		return nil
	})
	settle()
	s.bursts.event(sSnapshot, 0, s.lives.tick, s.held.net)
	return err
}

// inEvent says which event an error is about.
func (s *snapshot) inEvent(i int, e *event, err error) error {
	if err == nil {
		return nil
	}
	return fault("device %d, event %d (%s): %v", s.device, i, s.strs[e.act], err.(*Error).Msg)
}

func claimOf(e *event) claim {
	return claim{size: ir.Bytes(e.size), stream: e.stream, pool: e.pool}
}

// site names a frame as file:line function.
func (s *snapshot) site(i uint32) ir.NameID {
	if i == 0 {
		return 0
	}
	id, ok := s.sites[i]
	if !ok {
		f := s.frames.at(int(i - 1))
		id = s.names.id(fmt.Sprintf("%s:%d %s", s.strs[f.file], f.line, s.strs[f.name]))
		s.sites[i] = id
	}
	return id
}

// finish compares with the final state and completes the trace.
func (s *snapshot) finish() (*ir.Trace, error) {
	t := s.trace
	if len(s.lives.during) == 0 {
		return nil, fault("%d alloc events, all of no bytes", s.allocs).hint("the recording holds nothing to plan")
	}
	t.Marks, t.Releases = s.marker.finish(s.lives.tick), s.bursts.releases(s.held.high)
	t.Names = s.names.list
	if err := s.endState(); err != nil {
		return nil, err
	}
	if err := s.lives.finish(t); err != nil {
		return nil, err
	}
	if s.records.stacks != nil {
		t.Stacks = s.stacks(t, s.stackOf)
		t.Names = s.names.list
	}
	if err := s.reserved(); err != nil {
		return nil, err
	}
	s.ring()
	s.marker.note(t)
	if s.ooms > 0 {
		t.Notef(ir.Warn, "oom", "%d requests failed for lack of memory while this was recorded", s.ooms)
	}
	judgePeak(t)
	return t, nil
}
