package compiler_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/runtime/model"
)

// A made-up training program: weights, a cold first iteration, then iterations that differ only
// in what is declared to differ. It is told apart from real ones by knowing the answer.
type program struct {
	t       *ir.Trace
	next    ir.Tick
	streams int
}

func (p *program) alloc(size ir.Bytes, stream int) uint32 {
	p.t.Requests = append(p.t.Requests, ir.Request{Size: size, Alloc: p.next, FreeRequested: ir.Never, Free: ir.Never, Stream: ir.StreamID(stream)})
	p.next++
	return uint32(len(p.t.Requests) - 1)
}

func (p *program) free(r uint32) {
	p.t.Requests[r].FreeRequested, p.t.Requests[r].Free = p.next, p.next
	p.next++
}

func (p *program) mark(kind ir.MarkKind, value int64, name ir.NameID) {
	p.t.Marks = append(p.t.Marks, ir.Mark{Tick: p.next, Kind: kind, Value: value, Name: name})
}

// op is one step of an iteration: allocate slot i, or free what slot i holds.
type op struct {
	slot int
	free bool
}

// drawProgram draws a step of a few slots. A slot's free may come before its alloc in the step:
// then it frees the instance of the step before (carried), or, held in a queue of two, of the one
// before that.
func drawProgram(t *rapid.T) *ir.Trace {
	tr, _ := drawLate(t)
	return tr
}

// drawLate draws a program, and says whether one of its steps frees something only when the next has begun.
func drawLate(t *rapid.T) (trace *ir.Trace, isLate bool) {
	p := &program{t: &ir.Trace{Names: []string{"", "F", "B"}, Format: "made up", Reserved: -1, Streams: []uint64{0}}}
	p.streams = rapid.IntRange(1, 2).Draw(t, "streams")
	for s := 1; s < p.streams; s++ {
		p.t.Streams = append(p.t.Streams, uint64(s)<<20)
	}
	for range rapid.IntRange(0, 4).Draw(t, "weights") {
		p.alloc(ir.Bytes(rapid.IntRange(1, 9000).Draw(t, "weight")), rapid.IntRange(0, p.streams-1).Draw(t, "stream"))
	}
	n := rapid.IntRange(4, 14).Draw(t, "slots")
	size := make([]ir.Bytes, n)
	stream := make([]int, n)
	keep := make([]int, n) // instances that outlive their own step: 0, 1 (carried) or 2
	vary := make([]bool, n)
	var ops []op
	for i := range n {
		size[i] = ir.Bytes(rapid.IntRange(1, 40).Draw(t, "size")) * 500
		stream[i] = rapid.IntRange(0, p.streams-1).Draw(t, "stream")
		vary[i] = rapid.IntRange(0, 5).Draw(t, "vary") == 0
		keep[i] = max(0, rapid.IntRange(-4, 2).Draw(t, "keep"))
		ops = append(ops, op{slot: i})
	}
	for i := range n { // frees at random places: before the own alloc only where an older instance is held
		at := rapid.IntRange(0, len(ops)).Draw(t, "at")
		if keep[i] == 0 {
			for at <= indexOf(ops, i) {
				at++
			}
		}
		ops = append(ops[:at], append([]op{{slot: i, free: true}}, ops[at:]...)...)
	}
	held := make([][]uint32, n)
	cold := rapid.IntRange(0, 3).Draw(t, "state") // optimizer state that the first step makes
	steps := rapid.IntRange(5, 7).Draw(t, "steps")
	late := rapid.IntRange(0, 3*n).Draw(t, "late") // a slot that one step frees only when the next has begun
	lateStep := rapid.IntRange(0, steps-1).Draw(t, "late step")
	var deferred []uint32
	for k := range steps {
		p.mark(ir.MarkIteration, int64(k), 0)
		for _, r := range deferred {
			p.free(r)
		}
		deferred = nil
		p.mark(ir.MarkPhase, 0, 1)
		for j, o := range ops {
			if j == len(ops)/2 {
				p.mark(ir.MarkPhase, 0, 2)
			}
			if o.free {
				older := keep[o.slot]
				if indexOf(ops, o.slot) < j { // its own alloc has been
					older++
				}
				for older = max(older, 1); len(held[o.slot]) >= older && len(held[o.slot]) > 0; held[o.slot] = held[o.slot][1:] {
					if o.slot == late && k == lateStep {
						deferred = append(deferred, held[o.slot][0])
						isLate = true
						continue
					}
					p.free(held[o.slot][0])
				}
				continue
			}
			z := size[o.slot]
			if vary[o.slot] {
				z += ir.Bytes(rapid.IntRange(0, 20).Draw(t, "more")) * 700
			}
			held[o.slot] = append(held[o.slot], p.alloc(z, stream[o.slot]))
		}
		if k == 0 {
			for range cold {
				p.alloc(3000, 0)
			}
		}
	}
	p.mark(ir.MarkIteration, -1, 0)
	p.t.Events = int64(p.next)
	return p.t, isLate
}

func indexOf(ops []op, slot int) int {
	for j, o := range ops {
		if o.slot == slot && !o.free {
			return j
		}
	}
	return -1
}

// writtenPlan is the plan as its file gives it back, whose layout must verify.
func writtenPlan(t rapid.TB, c *compiler.Compiled) *ir.Plan {
	t.Helper()
	data, err := ir.EncodePlan(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := ir.DecodePlan(data)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := plan.LayoutOf(c.Problem)
	if err != nil {
		t.Fatal(err)
	}
	if v := ir.Verify(c.Problem, nil, layout); len(v) > 0 {
		t.Fatal(v)
	}
	return plan
}

// TestCompilePrograms: any such program compiles to a plan that verifies, by itself and on its
// own events; encodes, decodes and lays out the same; the runtime never hands out memory in use; and
// where every iteration asks for the same entries it hits every planned one of ten iterations. (Where
// some are optional, requests of one size can be told apart only by guessing.)
func TestCompilePrograms(t *testing.T) {
	var loops, unrolled, carried, dynamic int
	rapid.Check(t, func(t *rapid.T) {
		tr, late := drawLate(t)
		if err := tr.Check(); err != nil {
			t.Fatalf("generator: %v", err)
		}
		o := compiler.Options{Effort: compiler.Fast}
		if rapid.IntRange(0, 3).Draw(t, "some steps") == 0 {
			o.From = rapid.IntRange(1, 3).Draw(t, "from")
			o.To = rapid.IntRange(o.From+1, 5).Draw(t, "to")
		}
		c, err := compiler.Compile(context.Background(), tr, o)
		if err != nil {
			t.Fatal(err)
		}
		plan := writtenPlan(t, c)
		if c.Problem.L1 > c.Problem.L0 {
			loops++
		}
		if c.Problem.Unroll > 1 {
			unrolled++
		}
		for i := range c.Problem.Buffers {
			if c.Problem.Buffers[i].HasHead() {
				carried++
				break
			}
		}
		replayHits(t, c, plan, !late, &dynamic)
	})
	if loops == 0 || unrolled == 0 || carried == 0 || dynamic == 0 {
		t.Errorf("drawn: %d loops, %d unrolled, %d with carried buffers, %d dynamic requests: the test shows too little", loops, unrolled, carried, dynamic)
	}
}

// replayHits runs ten iterations through the model: no memory in use is handed out; and where all
// iterations are alike, every planned request gets its planned address.
func replayHits(t rapid.TB, c *compiler.Compiled, plan *ir.Plan, alike bool, dynamic *int) {
	w, err := c.Workload(compiler.WorkloadOptions{Iterations: 10, Marks: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := model.New(compiler.ModelPlan(plan), model.Options{Granularity: 512})
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[uint32]model.Addr)
	certain := alike
	for k := range c.Problem.Entries {
		certain = certain && c.Problem.Entries[k].Flags&ir.Optional == 0
	}
	var items []ir.Placed
	index := make(map[uint32]int)
	for k := range w.Events {
		switch ev := &w.Events[k]; ev.Kind {
		case ir.EvAlloc:
			addr, ok := a.Malloc(uint64(ev.Size), c.Trace.Streams[ev.Stream])
			if !ok {
				t.Fatalf("event %d: no address", k)
			}
			at[ev.ID] = addr
			from := ir.Offset(addr.Space)<<45 + ir.Offset(addr.Offset)
			index[ev.ID] = len(items)
			items = append(items, ir.Placed{ID: ev.ID, Start: ir.Tick(k), End: ir.Never, From: from, To: from + ir.Offset(ir.RoundUp(ev.Size))})
			if ev.Entry == ir.NoEntry {
				t.Fatalf("event %d: request %d is in no entry", k, ev.ID)
			}
			s := plan.Slots[plan.Entries[ev.Entry].Slot]
			if s.Flags&ir.SlotPlanned == 0 {
				*dynamic++
			} else if certain && (addr.Space != 0 || int64(addr.Offset) != s.Lo) {
				t.Fatalf("event %d: entry %d is planned at %d, the runtime gave %+v", k, ev.Entry, s.Lo, addr)
			}
		case ir.EvFree:
			items[index[ev.ID]].End = ir.Tick(k)
			if !a.Free(at[ev.ID]) {
				t.Fatalf("event %d: request %d is not live", k, ev.ID)
			}
		case ir.EvMark:
			kind := model.MarkPhase
			if ev.Mark == ir.MarkIteration {
				kind = model.MarkIteration
			}
			a.Mark(kind, ev.Value, c.Trace.Names[ev.Name])
		}
	}
	if bad := ir.VerifyPlaced(items, 1); len(bad) > 0 {
		t.Fatalf("memory in use was handed out: %+v", bad[0])
	}
	if s := a.Stats(); certain && s.Conflicts+s.TooLarge+s.Unknown > 0 {
		t.Fatalf("in step, but: %+v", s)
	}
}

// Rules over made-up programs: see UnderRules.
func TestProgramsUnderRules(t *testing.T) {
	var u compiler.UnderRules
	rapid.Check(t, func(t *rapid.T) { u.Compile(t, drawProgram(t)) })
	u.Check(t)
}
