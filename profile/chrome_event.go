package profile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"stweaver/ir"
)

// chromeEvent is the part of a trace element that can matter.
type chromeEvent struct {
	name, cat  []byte // good until the next parse
	ph         byte
	ts, dur    stamp
	idx        int64 // -1 where absent
	addr       uint64
	bytes      int64
	reserved   int64 // -1 where absent
	deviceType int64
	deviceID   int64
	has        struct{ ts, addr, bytes, device bool }
}

// chromeParser parses elements, reusing its buffers.
type chromeParser struct {
	d  *jsontext.Decoder
	in bytes.Reader
	e  chromeEvent
}

func (p *chromeParser) parse(v jsontext.Value) (*chromeEvent, error) {
	p.in.Reset(v)
	opts := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	if p.d == nil {
		p.d = jsontext.NewDecoder(&p.in, opts...)
	} else {
		p.d.Reset(&p.in, opts...)
	}
	p.e = chromeEvent{name: p.e.name[:0], cat: p.e.cat[:0], idx: -1, reserved: -1}
	return &p.e, p.object(p.top)
}

// object reads an object and hands each member to f, which must read the value.
func (p *chromeParser) object(f func(key string) error) error {
	if _, err := p.d.ReadToken(); err != nil {
		return err
	}
	for p.d.PeekKind() != '}' {
		key, err := p.d.ReadValue()
		if err != nil {
			return err
		}
		if err := f(keyName(key)); err != nil {
			return err
		}
	}
	_, err := p.d.ReadToken()
	return err
}

// chromeKeys are the member names that matter, quoted as they stand in the file.
var chromeKeys = []string{
	"ph", "name", "cat", "ts", "dur", "args",
	"Addr", "Bytes", "Total Reserved", "Device Type", "Device Id", "Ev Idx", "Profiler Event Index",
}

// keyName returns the known name that key spells, without allocating; "" for others.
func keyName(key []byte) string {
	if len(key) < 2 {
		return ""
	}
	key = key[1 : len(key)-1]
	for _, k := range chromeKeys {
		if string(key) == k {
			return k
		}
	}
	return ""
}

// top reads a member of the element itself.
func (p *chromeParser) top(key string) error {
	if key == "args" && p.d.PeekKind() == '{' {
		return p.object(p.arg)
	}
	v, err := p.d.ReadValue()
	if err != nil {
		return err
	}
	ok := true
	switch key {
	case "ph":
		if len(v) > 2 && v[0] == '"' {
			p.e.ph = v[1]
		}
	case "name":
		p.e.name = unquote(p.e.name, v)
	case "cat":
		p.e.cat = unquote(p.e.cat, v)
	case "ts":
		p.e.ts, ok = parseStamp(bare(v))
		p.e.has.ts = true
	case "dur":
		p.e.dur, ok = parseStamp(bare(v))
	}
	if !ok {
		return fmt.Errorf("%q is no time: %s", key, quote(string(v)))
	}
	return nil
}

// arg reads a member of args.
func (p *chromeParser) arg(key string) error {
	v, err := p.d.ReadValue()
	if err != nil {
		return err
	}
	ok := true
	switch key {
	case "Addr":
		p.e.addr, ok = parseBits(bare(v))
		p.e.has.addr = true
	case "Bytes":
		p.e.bytes, ok = parseInt(bare(v))
		p.e.has.bytes = true
	case "Total Reserved":
		p.e.reserved, ok = parseInt(bare(v))
	case "Device Type":
		p.e.deviceType, ok = parseInt(bare(v))
		p.e.has.device = true
	case "Device Id":
		p.e.deviceID, ok = parseInt(bare(v))
	case "Ev Idx", "Profiler Event Index":
		p.e.idx, ok = parseInt(bare(v))
	}
	// Spans carry arguments of their own under any name: only memory events must be right.
	if !ok && (len(p.e.name) == 0 || p.e.name[0] == '[') {
		return fmt.Errorf("%q is no integer of 64 bits: %s", key, quote(string(v)))
	}
	return nil
}

// bare strips the quotes that some writers put around numbers.
func bare(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

func unquote(to []byte, v jsontext.Value) []byte {
	if v.Kind() != '"' {
		return to
	}
	to, _ = jsontext.AppendUnquote(to, v)
	return to
}

// chromeSpan is a span of the user's: a profiler step or an annotation.
type chromeSpan struct {
	start, end stamp
	name       string
}

const stepPrefix = "ProfilerStep#"

// chromeMarks places spans among the events: each end before the first event that is not
// earlier. ProfilerStep#n is iteration n, begun where the first span of that name begins
// and ended, the last one, where its span ends; other spans are entered and left.
type chromeMarks struct {
	points []chromePoint
	names  *names
	marks  []ir.Mark
}

type chromePoint struct {
	at   stamp
	rank int // at one time: what ends, then what begins, then what ends without having lasted
	mark ir.Mark
}

func newChromeMarks(spans []chromeSpan) *chromeMarks {
	m := &chromeMarks{names: newNames()}
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b chromeSpan) int { return a.start.compare(b.start) })
	seen := map[int64]bool{}
	var last stamp
	for _, s := range spans {
		rank := 0
		if s.start == s.end {
			rank = 2
		}
		if text, ok := strings.CutPrefix(s.name, stepPrefix); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
				if last.compare(s.end) < 0 {
					last = s.end
				}
				if !seen[n] {
					seen[n] = true
					m.points = append(m.points, chromePoint{s.start, 1, ir.Mark{Kind: ir.MarkIteration, Value: n}})
				}
				continue
			}
		}
		id := m.names.id(s.name)
		m.points = append(m.points,
			chromePoint{s.start, 1, ir.Mark{Kind: ir.MarkEnter, Name: id}},
			chromePoint{s.end, rank, ir.Mark{Kind: ir.MarkLeave, Name: id}})
	}
	if len(seen) > 0 {
		m.points = append(m.points, chromePoint{last, 0, ir.Mark{Kind: ir.MarkIteration, Value: -1}})
	}
	slices.SortStableFunc(m.points, func(a, b chromePoint) int {
		if c := a.at.compare(b.at); c != 0 {
			return c
		}
		return a.rank - b.rank
	})
	return m
}

// before places what belongs before an event at time at with tick t.
func (m *chromeMarks) before(at stamp, t ir.Tick) {
	for len(m.points) > 0 && m.points[0].at.compare(at) <= 0 {
		p := m.points[0]
		m.points = m.points[1:]
		p.mark.Tick = t
		m.marks = append(m.marks, p.mark)
	}
}

// finish places the rest at the end.
func (m *chromeMarks) finish(end ir.Tick) ([]ir.Mark, []string) {
	for _, p := range m.points {
		p.mark.Tick = end
		m.marks = append(m.marks, p.mark)
	}
	m.points = nil
	return m.marks, m.names.list
}
