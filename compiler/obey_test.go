package compiler

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"stweaver/internal/testkit"
	"stweaver/ir"
	"stweaver/runtime/model"
)

// under compiles t with constraints that derive makes of the layout that a compile without any finds.
func under(t *rapid.T, tr *ir.Trace, o Options, derive func(p *ir.Problem, l *ir.Layout) *ir.Constraints) (*Compiled, error) {
	plain, err := Compile(context.Background(), tr, o)
	if err != nil {
		t.Skip(err)
	}
	c, err := start(tr, o)
	if err != nil {
		t.Fatal(err)
	}
	c.options.Keep = plain.Plan.Get("kept")
	if err := c.runPasses(context.Background(), passes[:4]); err != nil {
		t.Fatal(err)
	}
	if len(c.Problem.Buffers) != len(plain.Problem.Buffers) {
		t.Fatalf("%d buffers, then %d", len(plain.Problem.Buffers), len(c.Problem.Buffers))
	}
	c.options.Keep = ""
	c.Problem.Constraints = derive(c.Problem, plain.Layout)
	return c, c.runPasses(context.Background(), passes[4:])
}

// A program under constraints that one of its layouts obeys: the plan obeys them, no contradiction is claimed, and most
// compiles find a layout.
func TestCompileUnderConstraints(t *testing.T) {
	tried, found, kept := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		tr := randomTrace(t)
		if rapid.Bool().Draw(t, "program") {
			p := newProgram(rapid.IntRange(1, 6).Draw(t, "layers"))
			for i := range 4 {
				p.mark(ir.MarkIteration, int64(i), "")
				p.iteration(i)
			}
			p.mark(ir.MarkIteration, 4, "")
			tr = p.trace()
		}
		r := testkit.Rand(rapid.Uint64().Draw(t, "seed"))
		o := Options{Effort: Fast, OnePass: rapid.Bool().Draw(t, "one pass")}
		if rapid.IntRange(0, 2).Draw(t, "sharing") == 0 {
			o.Sharing = ir.Sharing{On: true, Age: ir.Tick(rapid.IntRange(0, 6).Draw(t, "age"))}
		}
		c, err := under(t, tr, o, func(p *ir.Problem, l *ir.Layout) *ir.Constraints {
			return testkit.Derive(&r, p, l, 8)
		})
		tried++
		if err != nil {
			var no *InfeasibleError
			if !errors.As(err, &no) {
				t.Fatal(err)
			}
			if len(no.Rules) > 0 && !ties(c) {
				t.Fatalf("rules that are obeyed contradict each other: %v", err)
			}
			return
		}
		found++
		if v := ir.Verify(c.Problem, nil, c.Layout); len(v) > 0 {
			t.Fatal(v)
		}
		if l, err := c.Plan.LayoutOf(c.Problem); err != nil || len(ir.Verify(c.Problem, nil, l)) > 0 {
			t.Fatalf("the plan's layout: %v", err)
		}
		data, err := ir.EncodePlan(c.Plan)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ir.DecodePlan(data); err != nil {
			t.Fatal(err)
		}
		kept += len(c.keptSlots())
	})
	t.Logf("%d of %d found, %d ranges kept", found, tried, kept)
	if found < tried*6/10 || kept == 0 {
		t.Errorf("of %d compiles %d found a layout, with %d ranges kept", tried, found, kept)
	}
}

// ties reports whether a rule ties buffers of several streams: no plan can say that, though a layout may obey it.
func ties(c *Compiled) bool {
	for s := range c.shares {
		if _, cut := c.Problem.Constraints.Within(c.shares[s].ids, len(c.Problem.Buffers)); len(cut) > 0 {
			return true
		}
	}
	return false
}

// What is kept is never lent: requests that no entry explains, displaced ones and dynamic ones stay out of it,
// however much of the arena is idle.
func TestKeptIsNotLent(t *testing.T) {
	guests, near := uint64(0), 0
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram(rapid.IntRange(2, 4).Draw(t, "layers"))
		for i := range 5 {
			p.mark(ir.MarkIteration, int64(i), "")
			if i%2 == 0 {
				p.extra[i] = 1
			}
			p.iteration(i)
		}
		p.mark(ir.MarkIteration, 5, "")
		r := testkit.Rand(rapid.Uint64().Draw(t, "seed"))
		c, err := under(t, p.trace(), Options{Effort: Fast}, func(q *ir.Problem, l *ir.Layout) *ir.Constraints {
			k := ir.Keep{}
			for range 3 {
				id := ir.BufferID(r.Below(len(q.Buffers)))
				if len(k.Buffers) == 0 || k.Buffers[len(k.Buffers)-1] < id {
					k.Buffers = append(k.Buffers, id)
				}
			}
			return &ir.Constraints{Keeps: []ir.Keep{k}}
		})
		if err != nil {
			t.Fatal(err)
		}
		a, err := model.New(ModelPlan(c.Plan), model.Options{Granularity: 512, HeapBytes: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.Workload(WorkloadOptions{Iterations: 6})
		if err != nil {
			t.Fatal(err)
		}
		slots := c.keptSlots()
		meets := func(at, size uint64) bool {
			for _, s := range slots {
				if at < uint64(s.Lo+s.Hi) && uint64(s.Lo) < at+size {
					return true
				}
			}
			return false
		}
		keeps := func(entry int) bool {
			s := c.Plan.Slots[c.Plan.Entries[entry].Slot]
			return s.Flags&ir.SlotPlanned != 0 && meets(uint64(s.Lo), 1)
		}
		ask := func(size uint64, stream uint64) (model.Addr, bool) {
			at, ok := a.Malloc(size, stream)
			if ok && at.Space == 0 {
				last := a.Last()
				hit := last.Class == model.Hit
				if meets(at.Offset, (size+511)/512*512) && !(hit && keeps(last.Entry)) {
					t.Fatalf("%d bytes lie at %d, which is kept: %+v", size, at.Offset, last)
				}
				if !hit {
					near++
				}
			}
			return at, ok
		}
		live := map[uint32]model.Addr{}
		var strays []model.Addr
		for _, ev := range w.Events {
			switch ev.Kind {
			case ir.EvAlloc:
				if r.Below(4) == 0 { // one that nobody planned
					if at, ok := ask(uint64(512*(1+r.Below(3000))), c.Trace.Streams[ev.Stream]); ok {
						strays = append(strays, at)
					}
				}
				if at, ok := ask(uint64(ev.Size), c.Trace.Streams[ev.Stream]); ok {
					live[ev.ID] = at
				}
			case ir.EvFree:
				if at, ok := live[ev.ID]; ok {
					a.Free(at)
					delete(live, ev.ID)
				}
			}
			if len(strays) > 0 && r.Below(3) == 0 {
				a.Free(strays[0])
				strays = strays[1:]
			}
		}
		guests += a.Stats().Guests
	})
	t.Logf("%d guests, %d addresses of the arena that were not planned", guests, near)
	if guests == 0 || near == 0 {
		t.Error("nothing was lent: the test shows nothing")
	}
}
