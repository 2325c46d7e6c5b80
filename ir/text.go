package ir

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
)

// The one text form. A block is a head line "noun key=value …", one line for each record,
// and "end noun". Words are separated by single spaces; texts are Go-quoted; a tick is a
// number, "before" or "never"; an interval is "[a,b)". Printing and parsing are inverse,
// byte for byte. Golden files and --dump use it; it is for people and diffs, not for speed.
//
//	problem l0=3 l1=5 steps=1:3 unroll=1               (shared=500: streams share, with that AGE)
//	stream 0 0x0
//	buffer 0 [0,5) head=[0,0) size=512 stream=0 kind=persistent
//	entry 0 buffer=0 sizes=512..512 life=5 nf=0..0 stream=0 kind=persistent request=0 optional=false firm=false
//	end problem

// WriteText prints t.
func (t *Trace) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "trace format=%s device=%d events=%d onepass=%t wrapped=%t late=%t reserved=%d allocator=%s\n",
		strconv.Quote(t.Format), t.Device, t.Events, t.OnePass, t.Wrapped, t.Late, t.Reserved, strconv.Quote(t.Allocator))
	writeStreams(b, t.Streams)
	writeNames(b, t.Names)
	for i := range t.Requests {
		r := &t.Requests[i]
		fmt.Fprintf(b, "request %d size=%d alloc=%v freereq=%v free=%v stream=%d site=%d flags=%d pool=%d\n",
			i, r.Size, r.Alloc, r.FreeRequested, r.Free, r.Stream, r.Site, r.Flags, r.Pool)
	}
	for _, m := range t.Marks {
		fmt.Fprintf(b, "mark tick=%v kind=%s value=%d name=%d\n", m.Tick, markKinds[m.Kind], m.Value, m.Name)
	}
	for _, at := range t.Releases {
		fmt.Fprintf(b, "release tick=%v\n", at)
	}
	for _, n := range t.Notes {
		fmt.Fprintf(b, "note %s %s %s\n", noteLevels[n.Level], n.Code, strconv.Quote(n.Text))
	}
	fmt.Fprintln(b, "end trace")
	return b.Flush()
}

// WriteText prints p; with a layout, each buffer also says its offset.
func (p *Problem) WriteText(w io.Writer, l *Layout) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "problem l0=%d l1=%d steps=%d:%d unroll=%d", p.L0, p.L1, p.FirstStep, p.LastStep, p.Unroll)
	if p.Sharing.On {
		fmt.Fprintf(b, " shared=%d", p.Sharing.Age)
	}
	if l != nil {
		fmt.Fprintf(b, " peak=%d", l.Peak)
	}
	fmt.Fprintln(b)
	writeStreams(b, p.Streams)
	writeNames(b, p.Names)
	for i := range p.Buffers {
		u := &p.Buffers[i]
		fmt.Fprintf(b, "buffer %d [%d,%d) head=[%d,%d) size=%d stream=%d kind=%v", i, u.Start, u.End, u.HeadStart, u.HeadEnd, u.Size, u.Stream, u.Kind)
		if u.Lag > 0 {
			fmt.Fprintf(b, " lag=%d", u.Lag)
		}
		if l != nil {
			fmt.Fprintf(b, " offset=%d", l.Offsets[i])
		}
		fmt.Fprintln(b)
	}
	for i := range p.Entries {
		e := &p.Entries[i]
		buf := "none"
		if e.Buffer != NoBuffer {
			buf = strconv.Itoa(int(e.Buffer))
		}
		fmt.Fprintf(b, "entry %d buffer=%s sizes=%d..%d life=%d nf=%d..%d stream=%d kind=%v request=%d optional=%t firm=%t\n",
			i, buf, e.MinSize, e.MaxSize, e.Life, e.NfMin, e.NfMax, e.Stream, e.Kind, e.Request, e.Flags&Optional != 0, e.Flags&Firm != 0)
	}
	for _, m := range p.Marks {
		fmt.Fprintf(b, "mark entry=%d kind=%s value=%d name=%d\n", m.Entry, markKinds[m.Kind], m.Value, m.Name)
	}
	p.Constraints.writeText(b)
	fmt.Fprintln(b, "end problem")
	return b.Flush()
}

// WriteText prints p: the twin of the binary file.
func (p *Plan) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "plan profile=%s capacity=%d arena=%d bound=%d loop=%d",
		hex.EncodeToString(p.Profile[:]), p.Capacity, p.Arena, p.Bound, p.LoopStart)
	if p.SharedAge != 0 {
		fmt.Fprintf(b, " shared=%d", p.SharedAge)
	}
	fmt.Fprintln(b)
	for _, in := range p.Info {
		fmt.Fprintf(b, "info %s %s\n", in.Key, strconv.Quote(in.Value))
	}
	for i, s := range p.Streams {
		fmt.Fprintf(b, "range %d %#x [%d,%d)\n", i, s.Handle, s.Begin, s.End)
	}
	for i, s := range p.Slots {
		fmt.Fprintf(b, "slot %d lo=%d hi=%d stream=%d flags=%d list=%d", i, s.Lo, s.Hi, s.Stream, s.Flags, s.List)
		if s.Varies != 0 {
			fmt.Fprintf(b, " varies=%d", s.Varies)
		}
		fmt.Fprintln(b)
	}
	for i, l := range p.Needs {
		fmt.Fprintf(b, "needs %d", i)
		for _, r := range l {
			fmt.Fprintf(b, " [%d,%d)", r.Begin, r.End)
		}
		fmt.Fprintln(b)
	}
	for i, e := range p.Entries {
		fmt.Fprintf(b, "entry %d slot=%d life=%d firm=%t nf=%d..%d\n", i, e.Slot, e.Life, e.Firm, e.NfMin, e.NfMax)
	}
	for _, m := range p.Marks {
		fmt.Fprintf(b, "mark entry=%d kind=%s value=%d name=%#x\n", m.Entry, markKinds[m.Kind], m.Value, m.Name)
	}
	fmt.Fprintln(b, "end plan")
	return b.Flush()
}

var (
	markKinds  = []string{"none", "iteration", "phase", "enter", "leave"}
	noteLevels = []string{"info", "warn", "bad"}
)

func writeStreams(w io.Writer, streams []uint64) {
	for i, h := range streams {
		fmt.Fprintf(w, "stream %d %#x\n", i, h)
	}
}

func writeNames(w io.Writer, names []string) {
	for i, n := range names {
		if i > 0 {
			fmt.Fprintf(w, "name %d %s\n", i, strconv.Quote(n))
		}
	}
}
