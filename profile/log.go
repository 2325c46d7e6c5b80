package profile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"

	"stweaver/ir"
)

// The text log of STAlloc's recorder, one line an event:
//
//	1 0x7f0000000000 2048 0                  allocates: address, bytes, stream
//	0 0x7f0000000000 2048 0                  frees
//	Iteration Index : 3                      iteration 3 begins; "end" closes the last one
//	micro-batch : F                          phase F begins, or B
//	layers.3.mlp->MoELayer Layer : F-start   a module is entered, F-end: left; so B-start, B-end
//	optimizer step                           any other text: a phase of that name begins
//
// Frees complete when they are asked for.

const layerWord = " Layer : "

var (
	iterationPrefix = []byte("Iteration Index :")
	microPrefix     = []byte("micro-batch :")
)

// sniffLog accepts text in which some early line is an event or an iteration.
func sniffLog(head []byte) bool {
	found := false
	headLines(head, func(line []byte) bool {
		_, _, ok := parseLogEvent(line)
		found = ok || bytes.HasPrefix(line, iterationPrefix) || bytes.HasPrefix(line, microPrefix)
		return !found
	})
	return found
}

type logEvent struct {
	addr, stream uint64
	size         int64
	alloc        bool
}

// isLogEvent tells lines that must be events from free text.
func isLogEvent(line []byte) bool {
	return len(line) > 1 && (line[0] == '0' || line[0] == '1') && (line[1] == ' ' || line[1] == '\t')
}

// parseLogEvent reads an event line; what names the field that is wrong.
func parseLogEvent(line []byte) (e logEvent, what string, ok bool) {
	if !isLogEvent(line) {
		return e, "", false
	}
	e.alloc = line[0] == '1'
	f := bytes.Fields(line)
	if len(f) != 4 {
		return e, fmt.Sprintf("%d fields instead of 4", len(f)), false
	}
	if e.addr, ok = parseHandle(f[1]); !ok {
		return e, "bad address " + quote(string(f[1])), false
	}
	if e.size, ok = parseInt(f[2]); !ok {
		return e, "bad size " + quote(string(f[2])), false
	}
	if e.stream, ok = parseHandle(f[3]); !ok {
		return e, "bad stream " + quote(string(f[3])), false
	}
	return e, "", true
}

// parseHandle reads a pointer as C prints it, or a decimal number.
func parseHandle(b []byte) (uint64, bool) {
	if len(b) > 2 && b[0] == '0' && (b[1] == 'x' || b[1] == 'X') {
		n, err := strconv.ParseUint(string(b[2:]), 16, 64)
		return n, err == nil
	}
	if string(b) == "(nil)" || string(b) == "nil" {
		return 0, true
	}
	return parseBits(b)
}

func readLog(r *bufio.Reader, o Options) (*ir.Trace, error) {
	if o.Device > 0 {
		return nil, fault("the log does not name devices: there is only device 0")
	}
	t := &ir.Trace{Reserved: -1}
	l := newLives()
	n := newNames()
	in := &lines{r: r}
	for {
		line, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if isLogEvent(line) {
			if err := logLine(l, line); err != nil {
				return nil, err.line(in.n)
			}
			continue
		}
		m, fail := logMark(line, n)
		if fail != nil {
			return nil, fail.line(in.n)
		}
		m.Tick = l.tick
		t.Marks = append(t.Marks, m)
	}
	if len(l.during) == 0 {
		return nil, fault("no allocations").hint("the recorder was not active")
	}
	t.Names = n.list
	if err := l.finish(t); err != nil {
		return nil, err
	}
	return t, nil
}

func logLine(l *lives, line []byte) *Error {
	e, what, ok := parseLogEvent(line)
	if !ok {
		return fault("%s", what).hint("an event is: 1 or 0, address, bytes, stream")
	}
	if err := checkSize(e.size); err != nil {
		return err.(*Error)
	}
	c := claim{size: ir.Bytes(e.size), stream: e.stream}
	switch {
	case e.size == 0:
		if e.alloc {
			l.count.zero++
		}
	case e.alloc:
		l.alloc(e.addr, c, 0)
	default:
		l.free(e.addr, c)
	}
	return nil
}

// logMark reads a line that is no event.
func logMark(line []byte, n *names) (ir.Mark, *Error) {
	if text, ok := bytes.CutPrefix(line, iterationPrefix); ok {
		text = bytes.TrimSpace(text)
		if string(text) == "end" {
			return ir.Mark{Kind: ir.MarkIteration, Value: -1}, nil
		}
		k, ok := parseInt(text)
		if !ok || k < 0 {
			return ir.Mark{}, fault("bad iteration %s", quote(string(text))).hint("an iteration is a number, or end")
		}
		return ir.Mark{Kind: ir.MarkIteration, Value: k}, nil
	}
	if text, ok := bytes.CutPrefix(line, microPrefix); ok {
		return ir.Mark{Kind: ir.MarkPhase, Name: n.id(string(bytes.TrimSpace(text)))}, nil
	}
	if module, where, ok := bytes.Cut(line, []byte(layerWord)); ok {
		way, edge, _ := bytes.Cut(bytes.TrimSpace(where), []byte("-"))
		kind := ir.MarkEnter
		switch string(edge) {
		case "start":
		case "end":
			kind = ir.MarkLeave
		default:
			return ir.Mark{}, fault("bad layer mark %s", quote(string(where))).hint("it is F-start, F-end, B-start or B-end")
		}
		// The way is in the name: forward and backward of a module are two spans.
		return ir.Mark{Kind: kind, Name: n.id(string(module) + " " + string(way))}, nil
	}
	return ir.Mark{Kind: ir.MarkPhase, Name: n.id(string(line))}, nil
}
