package ir_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

func drawTrace(t *rapid.T) *ir.Trace {
	tr := &ir.Trace{Format: "made up", Names: []string{"", "a b", "q\"\n=x"}, Streams: []uint64{0, 1 << 63}, Reserved: -1,
		Allocator: "native", Late: rapid.Bool().Draw(t, "late"), OnePass: rapid.Bool().Draw(t, "onepass")}
	for range rapid.IntRange(0, 2).Draw(t, "before") {
		tr.Requests = append(tr.Requests, ir.Request{Size: 100, Alloc: ir.Before, FreeRequested: ir.Never, Free: ir.Never, Flags: ir.Ghost})
	}
	var open []int
	for range rapid.IntRange(0, 30).Draw(t, "events") {
		at := ir.Tick(tr.Events)
		if len(open) > 0 && rapid.Bool().Draw(t, "free") {
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			r := &tr.Requests[open[i]]
			if r.FreeRequested == ir.Never {
				r.FreeRequested = at
				if rapid.Bool().Draw(t, "deferred") {
					tr.Events++
					continue
				}
			}
			r.Free = at
			open = append(open[:i], open[i+1:]...)
		} else {
			open = append(open, len(tr.Requests))
			tr.Requests = append(tr.Requests, ir.Request{Size: ir.Bytes(rapid.IntRange(1, 5000).Draw(t, "size")), Alloc: at,
				FreeRequested: ir.Never, Free: ir.Never, Stream: ir.StreamID(rapid.IntRange(0, 1).Draw(t, "stream")), Site: 1})
		}
		if rapid.IntRange(0, 5).Draw(t, "mark") == 0 {
			tr.Marks = append(tr.Marks, ir.Mark{Tick: at, Kind: ir.MarkIteration, Value: -1, Name: 2})
		}
		if rapid.IntRange(0, 9).Draw(t, "release") == 0 {
			tr.Releases = append(tr.Releases, at)
		}
		tr.Events++
	}
	tr.Notef(ir.Warn, "late", "began %d events late", 7)
	return tr
}

func parse(t interface{ Fatalf(string, ...any) }, s string) *ir.Text {
	x, err := ir.ParseText(strings.NewReader(s))
	if err != nil {
		t.Fatalf("%v in\n%s", err, s)
	}
	return x
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		tr := drawTrace(t)
		if err := tr.Check(); err != nil {
			t.Fatalf("generator: %v", err)
		}
		tr.WriteText(&b)
		if got := parse(t, b.String()).Trace; !same(got, tr) {
			t.Fatalf("trace differs:\n%+v\n%+v", got, tr)
		}
		p := drawProblem(t)
		if l, _ := stack(p); rapid.Bool().Draw(t, "constraints") {
			r := testkit.Rand(rapid.Uint64().Draw(t, "seed"))
			if c := testkit.Derive(&r, p, l, 12); !c.Empty() {
				p.Constraints = c
			}
		}
		b.Reset()
		p.WriteText(&b, nil)
		x := parse(t, b.String())
		if !same(x.Problem, p) || x.Layout != nil {
			t.Fatalf("problem differs:\n%+v\n%+v", x.Problem, p)
		}
		l, _ := stack(p)
		b.Reset()
		p.WriteText(&b, l)
		if x = parse(t, b.String()); len(p.Buffers) > 0 && !same(x.Layout, l) {
			t.Fatalf("layout differs:\n%+v\n%+v", x.Layout, l)
		}
		plan := drawPlan(t)
		b.Reset()
		plan.WriteText(&b)
		if got := parse(t, b.String()).Plan; !same(got, plan) {
			t.Fatalf("plan differs:\n%+v\n%+v", got, plan)
		}
	})
}

func TestParseTextErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "no \"end\" line",
		"nonsense":                   "line 1: \"nonsense\" does not begin",
		"problem l0=1 l1=x unroll=1": "line 1: \"x\" is not a number",
		"problem l0=0 l1=0 unroll=1": "line 1: steps= is missing",
		"plan profile=00":            "64 hexadecimal digits",
		"problem l0=0 l1=0 steps=0:0 unroll=1\nbuffer 1 [0,1)":                                                        "line 2: number 1 where 0 is due",
		"problem l0=0 l1=0 steps=0:0 unroll=1\nbuffer 0 [0;1) head=[0,0) size=512 stream=0 kind=transient":            "not an interval",
		"problem l0=0 l1=0 steps=0:0 unroll=1\nbuffer 0 [0,1) head=[0,0) size=512 stream=0 kind=odd":                  "kind \"odd\" is unknown",
		"problem l0=0 l1=0 steps=0:0 unroll=1\nbuffer 0 [0,1) head=[0,0) size=512 stream=0 kind=carried colour=green": "unknown [\"colour\"]",
		"trace format=\"x device=0": "does not end",
	} {
		_, err := ir.ParseText(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func FuzzParseText(f *testing.F) {
	f.Add("problem l0=0 l1=1 steps=0:0 unroll=1\nstream 0 0x0\nbuffer 0 [0,1) head=[0,0) size=512 stream=0 kind=transient\n" +
		"entry 0 buffer=0 sizes=512..512 life=1 nf=0..0 stream=0 kind=transient request=0 optional=false firm=true\nend problem\n")
	f.Add("problem l0=0 l1=1 steps=0:0 unroll=1\ncapacity 512 rule=none\npin [0,4096) rule=1 buffers=2..5,9\npin 512 rule=2 buffers=0\nregion size=0 piece=512 rule=2 buffers=0..3\n" +
		"together rule=3 buffers=7,6\napart rule=4 sets=0,1;4..6\nkeep rule=5 buffers=8\nguard ticks=16 rule=6 buffers=0\nalign bytes=4096 rule=7 buffers=3\nend problem\n")
	f.Add("trace format=\"x\" device=0 events=1 onepass=false wrapped=false late=false reserved=-1 allocator=\"\"\n" +
		"stream 0 0x0\nrequest 0 size=1 alloc=0 freereq=never free=never stream=0 site=0 flags=0 pool=0\nmark tick=0 kind=phase value=0 name=0\nend trace\n")
	f.Add("plan profile=" + strings.Repeat("0", 64) + " capacity=0 arena=0 bound=0 loop=0\ninfo a \"b\"\nend plan\n")
	f.Add("plan profile=" + strings.Repeat("0", 64) + " capacity=0 arena=0 bound=0 loop=0 shared=501\nend plan\n")
	f.Fuzz(func(t *testing.T, s string) {
		x, err := ir.ParseText(strings.NewReader(s))
		if err != nil {
			return
		}
		var b bytes.Buffer
		switch {
		case x.Trace != nil:
			x.Trace.Check()
			x.Trace.WriteText(&b)
		case x.Problem != nil:
			x.Problem.Check()
			if x.Layout != nil && len(x.Layout.Offsets) != len(x.Problem.Buffers) {
				return
			}
			x.Problem.WriteText(&b, x.Layout)
		default:
			x.Plan.WriteText(&b)
		}
		if y, err := ir.ParseText(&b); err != nil || !same(x, y) {
			t.Fatalf("printed and parsed again: %v\n%s", err, b.String())
		}
	})
}
