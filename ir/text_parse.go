package ir

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Text is what ParseText found: one of the three is set.
type Text struct {
	Trace   *Trace
	Problem *Problem
	Layout  *Layout // with Problem, where it says offsets
	Plan    *Plan
}

// ParseText reads one block of the text form. Errors name the line. The result is parsed,
// not checked: call its Check.
func ParseText(r io.Reader) (*Text, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<16), 1<<24)
	p := &textParser{}
	for n := 1; sc.Scan(); n++ {
		if err := p.line(sc.Text()); err != nil {
			return nil, fmt.Errorf("ir: text: line %d: %w", n, err)
		}
		if p.done {
			return &p.out, nil
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("ir: text: %w", err)
	}
	return nil, fmt.Errorf("ir: text: no \"end\" line: the text is cut off")
}

type textParser struct {
	out  Text
	done bool
	f    fields
}

// fields of one line: bare words in order, and key=value pairs, each taken once.
type fields struct {
	words []string
	keys  []string
	vals  []string
	err   error
}

func splitLine(s string) (fields, error) {
	var f fields
	for s != "" {
		var key string
		if i := strings.IndexAny(s, "= \""); i >= 0 && s[i] == '=' {
			key, s = s[:i], s[i+1:]
		}
		var val string
		if strings.HasPrefix(s, "\"") {
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return f, fmt.Errorf("a text that does not end: %.20q", s)
			}
			val, _ = strconv.Unquote(q)
			s = s[len(q):]
			if s != "" && s[0] != ' ' {
				return f, fmt.Errorf("no space after %q", q)
			}
			s = strings.TrimPrefix(s, " ")
		} else {
			val, s, _ = strings.Cut(s, " ")
		}
		if key != "" {
			f.keys, f.vals = append(f.keys, key), append(f.vals, val)
		} else {
			f.words = append(f.words, val)
		}
	}
	return f, nil
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

func (f *fields) word() string {
	if len(f.words) == 0 {
		f.fail("a word is missing")
		return ""
	}
	w := f.words[0]
	f.words = f.words[1:]
	return w
}

func (f *fields) str(key string) string {
	i := slices.Index(f.keys, key)
	if i < 0 {
		f.fail("%s= is missing", key)
		return ""
	}
	v := f.vals[i]
	f.keys, f.vals = slices.Delete(f.keys, i, i+1), slices.Delete(f.vals, i, i+1)
	return v
}

func (f *fields) has(key string) bool { return slices.Contains(f.keys, key) }

func (f *fields) num(s string, lo, hi int64) int64 {
	v, err := strconv.ParseInt(s, 0, 64)
	if err != nil || v < lo || v > hi {
		f.fail("%q is not a number from %d to %d", s, lo, hi)
		return lo
	}
	return v
}

func (f *fields) u64(s string) uint64 {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		f.fail("%q is not a 64-bit number", s)
	}
	return v
}

const (
	max32 = 1<<32 - 1
	max63 = 1<<63 - 1
)

func (f *fields) int(key string, lo, hi int64) int64 { return f.num(f.str(key), lo, hi) }
func (f *fields) bytes(key string) Bytes             { return Bytes(f.int(key, 0, max63)) }

func (f *fields) tick(key string) Tick {
	switch s := f.str(key); s {
	case "before":
		return Before
	case "never":
		return Never
	default:
		return Tick(f.num(s, 0, max63))
	}
}

func (f *fields) bool(key string) bool {
	switch s := f.str(key); s {
	case "true":
		return true
	case "false":
	default:
		f.fail("%s=%s is neither true nor false", key, s)
	}
	return false
}

func (f *fields) oneOf(s string, names []string) int {
	i := slices.Index(names, s)
	if i < 0 {
		f.fail("%q is not one of %s", s, strings.Join(names, ", "))
		return 0
	}
	return i
}

func (f *fields) kind(key string) Kind {
	s := f.str(key)
	for _, k := range Kinds {
		if k.String() == s {
			return k
		}
	}
	f.fail("kind %q is unknown", s)
	return Dynamic
}

// interval reads "[a,b)".
func (f *fields) interval(s string) (a, b int64) {
	in, ok := strings.CutPrefix(s, "[")
	in, ok2 := strings.CutSuffix(in, ")")
	x, y, ok3 := strings.Cut(in, ",")
	if !ok || !ok2 || !ok3 {
		f.fail("%q is not an interval [a,b)", s)
		return 0, 0
	}
	return f.num(x, 0, max63), f.num(y, 0, max63)
}

// span reads "a..b" (or "a:b").
func (f *fields) span(key, sep string, hi int64) (a, b int64) {
	s := f.str(key)
	x, y, ok := strings.Cut(s, sep)
	if !ok {
		f.fail("%s=%s is not a%sb", key, s, sep)
		return 0, 0
	}
	return f.num(x, 0, hi), f.num(y, 0, hi)
}

func (f *fields) index(want int) {
	if got := f.num(f.word(), 0, max32); got != int64(want) {
		f.fail("number %d where %d is due", got, want)
	}
}

func (f *fields) rest() error {
	if f.err == nil && len(f.words)+len(f.keys) > 0 {
		f.fail("unknown %q", append(f.words, f.keys...))
	}
	return f.err
}

func (p *textParser) line(s string) error {
	f, err := splitLine(s)
	if err != nil {
		return err
	}
	p.f = f
	verb := p.f.word()
	switch {
	case verb == "":
		p.f.err = nil // an empty line
	case p.out.Trace == nil && p.out.Problem == nil && p.out.Plan == nil:
		p.head(verb)
	case verb == "end":
		p.f.word()
		p.done = true
	case p.out.Trace != nil:
		p.trace(verb)
	case p.out.Problem != nil:
		p.problem(verb)
	default:
		p.plan(verb)
	}
	return p.f.rest()
}

func (p *textParser) head(verb string) {
	f := &p.f
	switch verb {
	case "trace":
		p.out.Trace = &Trace{Names: []string{""}, Format: f.str("format"), Device: int(f.int("device", -1, max32)),
			Events: f.int("events", 0, max63), OnePass: f.bool("onepass"), Wrapped: f.bool("wrapped"), Late: f.bool("late"),
			Reserved: Bytes(f.int("reserved", -1, max63)), Allocator: f.str("allocator")}
	case "problem":
		q := &Problem{L0: f.tick("l0"), L1: f.tick("l1"), Unroll: int(f.int("unroll", 0, max32)), Names: []string{""}}
		a, b := f.span("steps", ":", max32)
		q.FirstStep, q.LastStep = int(a), int(b)
		if f.has("shared") {
			q.Sharing = Sharing{On: true, Age: Tick(f.int("shared", 0, max32))}
		}
		p.out.Problem = q
		if f.has("peak") {
			p.out.Layout = &Layout{Peak: f.bytes("peak")}
		}
	case "plan":
		q := &Plan{Capacity: 0, LoopStart: 0}
		sum, err := hex.DecodeString(f.str("profile"))
		if err != nil || len(sum) != 32 {
			f.fail("profile= is not 64 hexadecimal digits")
		}
		copy(q.Profile[:], sum)
		q.Capacity, q.Arena, q.Bound = f.bytes("capacity"), f.bytes("arena"), f.bytes("bound")
		q.LoopStart = uint32(f.int("loop", 0, max32))
		if f.has("shared") {
			q.SharedAge = uint32(f.int("shared", 1, max32))
		}
		p.out.Plan = q
	default:
		f.fail("%q does not begin a trace, problem or plan", verb)
	}
}

func (p *textParser) trace(verb string) {
	f, t := &p.f, p.out.Trace
	switch verb {
	case "stream":
		f.index(len(t.Streams))
		t.Streams = append(t.Streams, f.u64(f.word()))
	case "name":
		f.index(len(t.Names))
		t.Names = append(t.Names, f.word())
	case "request":
		f.index(len(t.Requests))
		t.Requests = append(t.Requests, Request{Size: f.bytes("size"), Alloc: f.tick("alloc"), FreeRequested: f.tick("freereq"),
			Free: f.tick("free"), Stream: StreamID(f.int("stream", 0, max32)), Site: NameID(f.int("site", 0, max32)),
			Flags: RequestFlags(f.int("flags", 0, max32)), Pool: uint32(f.int("pool", 0, max32))})
	case "mark":
		t.Marks = append(t.Marks, Mark{Tick: f.tick("tick"), Kind: MarkKind(f.oneOf(f.str("kind"), markKinds)),
			Value: f.int("value", -1<<63, max63), Name: NameID(f.int("name", 0, max32))})
	case "release":
		t.Releases = append(t.Releases, f.tick("tick"))
	case "note":
		t.Notes = append(t.Notes, Note{NoteLevel(f.oneOf(f.word(), noteLevels)), f.word(), f.word()})
	default:
		f.fail("%q is not a record of a trace", verb)
	}
}

func (p *textParser) problem(verb string) {
	f, q := &p.f, p.out.Problem
	switch verb {
	case "stream":
		f.index(len(q.Streams))
		q.Streams = append(q.Streams, f.u64(f.word()))
	case "name":
		f.index(len(q.Names))
		q.Names = append(q.Names, f.word())
	case "buffer":
		f.index(len(q.Buffers))
		a, b := f.interval(f.word())
		c, d := f.interval(f.str("head"))
		q.Buffers = append(q.Buffers, Buffer{Size: f.bytes("size"), Start: Tick(a), End: Tick(b), HeadStart: Tick(c), HeadEnd: Tick(d),
			Stream: StreamID(f.int("stream", 0, max32)), Kind: f.kind("kind")})
		if f.has("lag") {
			q.Buffers[len(q.Buffers)-1].Lag = uint16(f.int("lag", 1, MaxLag))
		}
		if p.out.Layout != nil {
			p.out.Layout.Offsets = append(p.out.Layout.Offsets, Offset(f.int("offset", -1, max63)))
		}
	case "entry":
		f.index(len(q.Entries))
		e := Entry{Buffer: NoBuffer}
		if s := f.str("buffer"); s != "none" {
			e.Buffer = BufferID(f.num(s, 0, max32-1))
		}
		a, b := f.span("sizes", "..", max63)
		e.MinSize, e.MaxSize = Bytes(a), Bytes(b)
		e.Life = uint32(f.int("life", 0, max32))
		a, b = f.span("nf", "..", 3)
		e.NfMin, e.NfMax = uint8(a), uint8(b)
		e.Stream, e.Kind = StreamID(f.int("stream", 0, max32)), f.kind("kind")
		e.Request = uint32(f.int("request", 0, max32))
		if f.bool("optional") {
			e.Flags |= Optional
		}
		if f.bool("firm") {
			e.Flags |= Firm
		}
		q.Entries = append(q.Entries, e)
	case "mark":
		q.Marks = append(q.Marks, EntryMark{Entry: uint32(f.int("entry", 0, max32)), Kind: MarkKind(f.oneOf(f.str("kind"), markKinds)),
			Value: f.int("value", -1<<63, max63), Name: NameID(f.int("name", 0, max32))})
	default:
		if !p.constraint(verb) {
			f.fail("%q is not a record of a problem", verb)
		}
	}
}

func (p *textParser) plan(verb string) {
	f, q := &p.f, p.out.Plan
	switch verb {
	case "info":
		q.Info = append(q.Info, Fact{f.word(), f.word()})
	case "range":
		f.index(len(q.Streams))
		h := f.u64(f.word())
		a, b := f.interval(f.word())
		q.Streams = append(q.Streams, PlanStream{h, Offset(a), Offset(b)})
	case "slot":
		f.index(len(q.Slots))
		s := Slot{f.int("lo", 0, max63), f.int("hi", 0, max63),
			StreamID(f.int("stream", 0, max32)), SlotFlags(f.int("flags", 0, 1<<16-1)), uint32(f.int("list", 0, max32)), 0}
		if f.has("varies") {
			s.Varies = uint16(f.int("varies", 1, 1<<16-1))
		}
		q.Slots = append(q.Slots, s)
	case "needs":
		f.index(len(q.Needs))
		list := []NeedRange{}
		for len(f.words) > 0 && f.err == nil {
			a, b := f.interval(f.word())
			list = append(list, NeedRange{Offset(a), Offset(b)})
		}
		q.Needs = append(q.Needs, list)
	case "entry":
		f.index(len(q.Entries))
		e := PlanEntry{Slot: uint32(f.int("slot", 0, max32)), Life: uint32(f.int("life", 0, MaxLife)), Firm: f.bool("firm")}
		a, b := f.span("nf", "..", 3)
		e.NfMin, e.NfMax = uint8(a), uint8(b)
		q.Entries = append(q.Entries, e)
	case "mark":
		q.Marks = append(q.Marks, PlanMark{Entry: uint32(f.int("entry", 0, max32)), Kind: MarkKind(f.oneOf(f.str("kind"), markKinds)),
			Value: f.int("value", -1<<63, max63), Name: f.u64(f.str("name"))})
	default:
		f.fail("%q is not a record of a plan", verb)
	}
}
