package profile

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"stweaver/ir"
)

// The chrome trace of torch.profiler with profile_memory=True.
//
//	{"ph":"i","name":"[memory]","ts":1669783687464300.125,"args":{"Device Type":1,
//	 "Device Id":0,"Addr":139926520725504,"Bytes":-5242880,"Total Reserved":…}}
//
// Bytes above 0 allocate, below 0 free; they are block sizes, already rounded. There is
// one event for a free, when it is asked for, and no stream. Events come from several
// threads' buffers, so the file's order is not the allocator's: they are sorted by ts, by
// "Ev Idx" where two are equal, by their order in the file where even that says nothing.
//
// The file is read one array element at a time; an element that cannot matter is told by
// a search for a few words and never parsed. Only memory events and spans are kept.

// sniffChrome accepts JSON; what it holds is found out by reading it.
func sniffChrome(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

// memEvent is one [memory] event.
type memEvent struct {
	ts    stamp
	idx   int64 // Ev Idx, -1 where absent
	addr  uint64
	bytes int64
}

// chromeDevice is what a trace says about one device.
type chromeDevice struct {
	events   []memEvent
	reserved int64 // the most, -1 where it never says
	noIdx    bool  // some event has no Ev Idx
}

type chromeFile struct {
	devices map[int64]*chromeDevice
	spans   []chromeSpan
	memory  int // [memory] events of any kind
	host    int // of the CPU
	other   int // of devices that are no CUDA devices
	noAddr  int
	oom     int
	parser  chromeParser
}

func readChrome(r *bufio.Reader, o Options) (*ir.Trace, error) {
	if b, err := r.Peek(3); err == nil && string(b) == "\xef\xbb\xbf" {
		r.Discard(3)
	}
	f := &chromeFile{devices: make(map[int64]*chromeDevice)}
	d := jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := f.scan(d); err != nil {
		return nil, chromeFault(d, err)
	}
	id, dev, err := f.pick(o.Device)
	if err != nil {
		return nil, err
	}
	return f.trace(id, dev)
}

// chromeFault words an error of the JSON decoder.
func chromeFault(d *jsontext.Decoder, err error) error {
	var own *Error
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &own):
		if own.Offset < 0 {
			own.Offset = d.InputOffset()
		}
		return own
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return readFault(io.ErrUnexpectedEOF, d.InputOffset())
	case errors.As(err, &syntax):
		return fault("bad JSON: %v", syntax.Err).at(syntax.ByteOffset).because(err).hint("the file is damaged")
	}
	return readFault(err, d.InputOffset())
}

// scan walks the top level: an object with "traceEvents", or the bare array of them.
func (f *chromeFile) scan(d *jsontext.Decoder) error {
	t, err := d.ReadToken()
	if err != nil {
		return err
	}
	if t.Kind() == '[' {
		return f.scanEvents(d)
	}
	found := false
	for d.PeekKind() != '}' {
		key, err := d.ReadValue()
		if err != nil {
			return err
		}
		if string(key) != `"traceEvents"` || d.PeekKind() != '[' {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		found = true
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		if err := f.scanEvents(d); err != nil {
			return err
		}
	}
	if !found {
		return fault("JSON without traceEvents").hint("pass what torch.profiler's export_chrome_trace wrote")
	}
	return nil
}

// scanEvents reads the elements of the array that d is in, and its end.
func (f *chromeFile) scanEvents(d *jsontext.Decoder) error {
	for d.PeekKind() == '{' {
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		if !relevant(v) {
			continue
		}
		if err := f.event(v); err != nil {
			return fault("%v", err).at(d.InputOffset() - int64(len(v)))
		}
	}
	t, err := d.ReadToken()
	if err == nil && t.Kind() != ']' {
		return fault("the array holds no events").
			hint("a memory timeline export has no addresses; pass a snapshot or export_chrome_trace's file")
	}
	return err
}

// relevant tells whether an element may be one that is kept, at the speed of a search.
func relevant(v []byte) bool {
	return bytes.Contains(v, []byte("[memory]")) || bytes.Contains(v, []byte("user_annotation")) ||
		bytes.Contains(v, []byte("ProfilerStep#")) || bytes.Contains(v, []byte("[OutOfMemory]"))
}

// event keeps one element, if it is of a kind that is.
func (f *chromeFile) event(v jsontext.Value) error {
	e, err := f.parser.parse(v)
	if err != nil {
		return err
	}
	switch name := string(e.name); {
	case name == "[OutOfMemory]":
		f.oom++
	case name == "[memory]":
		return f.memoryEvent(e)
	case e.ph == 'X' && string(e.cat) != "gpu_user_annotation" &&
		(string(e.cat) == "user_annotation" || strings.HasPrefix(name, stepPrefix)):
		if !e.has.ts {
			return fmt.Errorf("the span %s has no ts", quote(name))
		}
		f.spans = append(f.spans, chromeSpan{e.ts, e.ts.add(e.dur), name})
	}
	return nil
}

func (f *chromeFile) memoryEvent(e *chromeEvent) error {
	f.memory++
	switch {
	case !e.has.addr:
		f.noAddr++
		return nil
	case !e.has.device || e.deviceType == 0:
		f.host++
		return nil
	case e.deviceType != 1:
		f.other++
		return nil
	case !e.has.bytes || !e.has.ts:
		return errors.New("a [memory] event without Bytes or ts")
	case e.bytes == math.MinInt64:
		return fmt.Errorf("a [memory] event of %d bytes", e.bytes)
	}
	size := max(e.bytes, -e.bytes)
	if err := checkSize(size); err != nil {
		return fmt.Errorf("a [memory] event: %s", err.(*Error).Msg)
	}
	dev := f.devices[e.deviceID]
	if dev == nil {
		dev = &chromeDevice{reserved: -1}
		f.devices[e.deviceID] = dev
	}
	dev.events = append(dev.events, memEvent{e.ts, e.idx, e.addr, e.bytes})
	dev.reserved = max(dev.reserved, e.reserved)
	dev.noIdx = dev.noIdx || e.idx < 0
	return nil
}

// pick chooses the device as Options says.
func (f *chromeFile) pick(want int) (int64, *chromeDevice, error) {
	if len(f.devices) == 0 {
		switch {
		case f.memory == 0:
			return 0, nil, fault("no [memory] events").hint("record with torch.profiler.profile(profile_memory=True); a pluggable allocator does not report to it")
		case f.noAddr > 0:
			return 0, nil, fault("no addresses: frees cannot be paired").hint("record with a newer torch, or take a memory snapshot")
		}
		return 0, nil, fault("%d [memory] events, none of a CUDA device", f.memory).hint("record the CUDA run itself, or take a memory snapshot")
	}
	ids := slices.Sorted(maps.Keys(f.devices))
	best := ids[0]
	for _, id := range ids {
		if len(f.devices[id].events) > len(f.devices[best].events) {
			best = id
		}
	}
	if want >= 0 {
		if f.devices[int64(want)] == nil {
			return 0, nil, fault("no [memory] events of device %d", want).hint(fmt.Sprintf("device %d has %d events", best, len(f.devices[best].events)))
		}
		best = int64(want)
	}
	return best, f.devices[best], nil
}

// trace replays the events of one device.
func (f *chromeFile) trace(id int64, dev *chromeDevice) (*ir.Trace, error) {
	if id < 0 || id > math.MaxInt32 {
		return nil, fault("a [memory] event of device %d", id)
	}
	slices.SortStableFunc(dev.events, func(a, b memEvent) int {
		if c := a.ts.compare(b.ts); c != 0 || dev.noIdx {
			return c
		}
		return cmp.Compare(a.idx, b.idx)
	})
	t := &ir.Trace{Device: int(id), Reserved: ir.Bytes(dev.reserved)}
	l := newLives()
	l.flags = ir.Sized
	marks := newChromeMarks(f.spans)
	for _, e := range dev.events {
		marks.before(e.ts, l.tick)
		switch {
		case e.bytes > 0:
			l.alloc(e.addr, claim{size: ir.Bytes(e.bytes)}, 0)
		case e.bytes < 0:
			l.free(e.addr, claim{size: ir.Bytes(-e.bytes)})
		default:
			l.count.zero++
		}
	}
	if len(l.during) == 0 {
		return nil, fault("device %d has frees but no allocations", id).hint("begin recording before the step")
	}
	t.Marks, t.Names = marks.finish(l.tick)
	f.note(t, id)
	if err := l.finish(t); err != nil {
		return nil, err
	}
	judgePeak(t)
	return t, nil
}

// note tells what was left out.
func (f *chromeFile) note(t *ir.Trace, id int64) {
	var others []string
	for _, d := range slices.Sorted(maps.Keys(f.devices)) {
		if d != id {
			others = append(others, fmt.Sprintf("%d (%d events)", d, len(f.devices[d].events)))
		}
	}
	if len(others) > 0 {
		t.Notef(ir.Info, "devices", "this is device %d; the file also has device %s", id, strings.Join(others, ", "))
	}
	if f.host > 0 {
		t.Notef(ir.Info, "host", "%d events of host memory are left out", f.host)
	}
	if f.other > 0 {
		t.Notef(ir.Info, "devices", "%d events of devices that are not CUDA are left out", f.other)
	}
	if f.noAddr > 0 {
		t.Notef(ir.Warn, "no-address", "%d events without an address are left out", f.noAddr)
	}
	if f.oom > 0 {
		t.Notef(ir.Warn, "oom", "%d requests failed for lack of memory while this was recorded", f.oom)
	}
}
