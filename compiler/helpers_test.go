package compiler

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
	"stweaver/profile"
)

// load reads a profile of the shared data, or skips the test.
func load(tb testing.TB, name string) *ir.Trace {
	tb.Helper()
	p := filepath.Join("../../shared/data", filepath.FromSlash(name))
	if _, err := os.Stat(p); err != nil {
		tb.Skipf("shared data not here: %v", err)
	}
	t, err := profile.ReadFile(p, profile.DefaultOptions())
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// without returns t with only the marks that keep accepts.
func without(t *ir.Trace, drop func(ir.Mark) bool) *ir.Trace {
	c := *t
	c.Marks = nil
	for _, m := range t.Marks {
		if !drop(m) {
			c.Marks = append(c.Marks, m)
		}
	}
	return &c
}

func unmarked(t *ir.Trace) *ir.Trace { return without(t, func(ir.Mark) bool { return true }) }

// tape writes a trace event by event.
type tape struct {
	t    *ir.Trace
	tick ir.Tick
}

func newTape() *tape {
	return &tape{t: &ir.Trace{Names: []string{""}, Streams: []uint64{0, 7}, Reserved: -1}}
}

func (p *tape) alloc(size ir.Bytes) int { return p.allocOn(0, size) }

func (p *tape) allocOn(stream ir.StreamID, size ir.Bytes) int {
	p.t.Requests = append(p.t.Requests, ir.Request{Size: size, Alloc: p.tick, FreeRequested: ir.Never, Free: ir.Never, Stream: stream})
	p.tick++
	return len(p.t.Requests) - 1
}

func (p *tape) free(r int) {
	p.t.Requests[r].FreeRequested, p.t.Requests[r].Free = p.tick, p.tick
	p.tick++
}

func (p *tape) mark(kind ir.MarkKind, value int64, name string) {
	id := ir.NameID(len(p.t.Names))
	for i, n := range p.t.Names {
		if n == name {
			id = ir.NameID(i)
		}
	}
	if int(id) == len(p.t.Names) {
		p.t.Names = append(p.t.Names, name)
	}
	p.t.Marks = append(p.t.Marks, ir.Mark{Tick: p.tick, Kind: kind, Value: value, Name: id})
}

func (p *tape) trace() *ir.Trace {
	p.t.Events = int64(p.tick)
	return p.t
}

// program is a small training run: layers that keep an activation each, a backward pass that
// frees them and makes gradients, an optimizer that frees those.
type program struct {
	*tape
	layers int
	extra  map[int]int // iteration: layer that asks for a run of six more, an expert
	// between is called after event n of each iteration, counted in requests.
	between func(iteration, request int)
	made    int
	it      int
}

const expertRun = 6

func (p *program) get(size ir.Bytes) int {
	if p.between != nil {
		p.between(p.it, p.made)
	}
	p.made++
	return p.alloc(size)
}

// iteration runs one; its requests number requests(layers), and expertRun more with extra.
func (p *program) iteration(i int) {
	p.it, p.made = i, 0
	var kept, grads []int
	for l := range p.layers {
		tmp := p.get(ir.Bytes(4096 * (l + 1)))
		kept = append(kept, p.get(ir.Bytes(1<<20+l<<14)))
		p.free(tmp)
		if at, ok := p.extra[i]; ok && at == l {
			for x := range expertRun {
				p.free(p.get(ir.Bytes(777 * (x + 1))))
			}
		}
	}
	for l := p.layers - 1; l >= 0; l-- {
		g := p.get(ir.Bytes(1 << 19))
		p.free(kept[l])
		grads = append(grads, p.get(ir.Bytes(1<<16+l<<12)))
		p.free(g)
	}
	for _, g := range grads {
		tmp := p.get(1 << 14)
		p.free(tmp)
		p.free(g)
	}
}

func (p *program) requests() int { return 5 * p.layers }

func newProgram(layers int) *program {
	p := &program{tape: newTape(), layers: layers, extra: map[int]int{}}
	for l := range layers {
		p.alloc(ir.Bytes(2<<20 + l<<13)) // the weights
	}
	return p
}

// cut returns the part of t with ticks [from, to), as a recorder that ran only then sees it.
func cut(t *ir.Trace, from, to ir.Tick) *ir.Trace {
	c := *t
	c.Requests, c.Marks, c.Events, c.Late = nil, nil, int64(to-from), true
	var old []ir.Request
	for _, r := range t.Requests {
		if r.Alloc >= to || r.Free < from {
			continue
		}
		if r.Free >= to {
			r.Free, r.FreeRequested = ir.Never, ir.Never
		} else if r.Free != ir.Never {
			r.Free, r.FreeRequested = r.Free-from, r.FreeRequested-from
		}
		if r.Alloc < from {
			r.Alloc = ir.Before
			old = append(old, r)
			continue
		}
		r.Alloc -= from
		c.Requests = append(c.Requests, r)
	}
	c.Requests = append(old, c.Requests...)
	for _, m := range t.Marks {
		if m.Tick >= from && m.Tick < to {
			m.Tick -= from
			c.Marks = append(c.Marks, m)
		}
	}
	return &c
}

func mustCheck(tb testing.TB, t *ir.Trace) {
	tb.Helper()
	if err := t.Check(); err != nil {
		tb.Fatal(err)
	}
}

// randomTrace draws a valid trace: bursts of requests that may or may not repeat, with marks
// of all kinds in likely and unlikely places.
func randomTrace(t *rapid.T) *ir.Trace {
	p := newTape()
	small := rapid.IntRange(0, 3)
	names := []string{"iter 1", "iter 2", "Step #3", "step=4", "Optimizer.step#SGD.step", "F", "B", "ProfilerStep#9", ""}
	body := rapid.SliceOfN(rapid.IntRange(0, 40), 0, 80).Draw(t, "body")
	rounds := rapid.IntRange(0, 7).Draw(t, "rounds")
	for range small.Draw(t, "resident") {
		p.t.Requests = append(p.t.Requests, ir.Request{Size: 4096, Alloc: ir.Before, FreeRequested: ir.Never, Free: ir.Never})
	}
	live := make([]int, len(p.t.Requests))
	for i := range live {
		live[i] = i
	}
	noise := rapid.IntRange(0, 9).Draw(t, "noise")
	for range rounds {
		for _, op := range body {
			if rapid.IntRange(0, 99).Draw(t, "skip") < noise {
				op = rapid.IntRange(0, 60).Draw(t, "op")
			}
			switch {
			case op < 18 || len(live) == 0:
				live = append(live, p.allocOn(ir.StreamID(op%2), ir.Bytes(1+op*700)))
				if op == 7 {
					p.t.Requests[len(p.t.Requests)-1].Pool = 3
				}
			case op < 38:
				k := len(live) - 1 - op%len(live)
				p.free(live[k])
				live = append(live[:k], live[k+1:]...)
			case op == 38:
				p.mark(ir.MarkIteration, int64(small.Draw(t, "number"))-1, "")
			case op == 39:
				p.mark(ir.MarkPhase, 0, names[5+small.Draw(t, "phase")%2])
			default:
				p.mark(ir.MarkEnter+ir.MarkKind(op%2), 0, rapid.SampledFrom(names).Draw(t, "name"))
			}
		}
	}
	tr := p.trace()
	tr.Late, tr.Wrapped = small.Draw(t, "late") == 1, small.Draw(t, "wrapped") == 1
	if err := tr.Check(); err != nil {
		t.Fatal(err)
	}
	return tr
}
