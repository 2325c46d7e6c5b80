package compiler_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/profile"
)

// deferFrees makes room for a tick after each event, and lets some frees complete later than they were asked for.
func deferFrees(t *rapid.T, tr *ir.Trace) {
	tr.Events *= 2
	for i := range tr.Marks {
		tr.Marks[i].Tick *= 2
	}
	taken := make(map[ir.Tick]bool)
	for i := range tr.Requests {
		r := &tr.Requests[i]
		r.Alloc *= 2
		if r.Free == ir.Never {
			continue
		}
		r.Free *= 2
		r.FreeRequested = r.Free
		if rapid.IntRange(0, 4).Draw(t, "deferred") == 0 {
			at := r.Free + 1 + 2*ir.Tick(rapid.IntRange(0, 12).Draw(t, "by"))
			if at < ir.Tick(tr.Events) && !taken[at] {
				taken[at], r.Free = true, at
			}
		}
	}
}

// TestSharedPrograms: with streams that share, any program compiles to a plan that both judges accept (a compile
// panics where one does not), as its file gives it back, too; the runtime never hands out memory in use; a
// dynamic request has on its list all that is needed before it dies, and AGE later on other streams; the curve rises;
// and with AGE 0 sharing never costs.
func TestSharedPrograms(t *testing.T) {
	var waits, lags, lists, gains int
	rapid.Check(t, func(t *rapid.T) {
		tr, late := drawLate(t)
		if rapid.Bool().Draw(t, "marked") {
			deferFrees(t, tr)
		}
		if err := tr.Check(); err != nil {
			t.Fatalf("generator: %v", err)
		}
		o := compiler.Options{Effort: compiler.Fast, Curve: true, Sharing: ir.Sharing{On: true, Age: ir.Tick(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 3, 10, 100}).Draw(t, "age"))}}
		c, err := compiler.Compile(context.Background(), tr, o)
		if err != nil {
			t.Fatal(err)
		}
		plan := writtenPlan(t, c)
		if compiler.SharingOf(plan) != o.Sharing {
			t.Fatalf("the plan says %+v, it was made for %+v", compiler.SharingOf(plan), o.Sharing)
		}
		o, err = compiler.OptionsOf(plan, o.Rules)
		if err != nil {
			t.Fatal(err)
		}
		again, err := compiler.Analyse(context.Background(), tr, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, v, err := again.VerifyEvents(plan); err != nil || len(v) > 0 {
			t.Fatal(err, v)
		}
		var dynamic int
		replayHits(t, c, plan, !late, &dynamic)
		for i := 1; i < len(c.Curve); i++ {
			if c.Curve[i].Peak < c.Curve[i-1].Peak {
				t.Fatalf("the curve falls: %+v", c.Curve)
			}
		}
		if s := c.Summary(0, 0, 0).Shared; s.Step > 0 {
			waits++
			if s.Youngest < o.Sharing.Age {
				t.Fatalf("a wait for an event %d requests old", s.Youngest)
			}
		}
		for i := range c.Problem.Buffers {
			if c.Problem.Buffers[i].Lag > 0 {
				lags++
				break
			}
		}
		lists += needed(t, c)
		asked := tr.Asked()
		asked.Lags = nil
		if apart, err := compiler.Compile(context.Background(), asked, compiler.Options{Effort: compiler.Fast}); err != nil {
			t.Fatal(err)
		} else if o.Sharing.Age == 0 && apart.Plan.Get("kept") == plan.Get("kept") {
			if c.Layout.Peak > apart.Layout.Peak {
				t.Fatalf("shared at AGE 0: peak %d, apart %d", c.Layout.Peak, apart.Layout.Peak)
			}
			if c.Layout.Peak < apart.Layout.Peak {
				gains++
			}
		}
	})
	if !testing.Short() && (waits == 0 || lags == 0 || lists == 0 || gains == 0) { // a short run draws too few
		t.Errorf("drawn: %d with waits, %d with lags, %d lists, %d that gain: the test shows too little", waits, lags, lists, gains)
	}
}

// needed checks the lists of the dynamic entries of the loop against all that is planned, entry by entry.
func needed(t *rapid.T, c *compiler.Compiled) (lists int) {
	p, turn := c.Problem, int(c.Problem.L1-c.Problem.L0)
	for k := int(p.L0); k < int(p.L1); k++ {
		e, s := &p.Entries[k], &c.Plan.Slots[c.Plan.Entries[k].Slot]
		if e.Buffer != ir.NoBuffer || s.List == 0 {
			continue
		}
		lists++
		death := k + int(e.Life)
		for n := k + 1; n <= k+turn; n++ {
			o := &p.Entries[int(p.L0)+(n-int(p.L0))%turn]
			until := death
			if o.Stream != e.Stream {
				until += int(p.Sharing.Age)
			}
			if o.Buffer == ir.NoBuffer || n >= until {
				continue
			}
			from := c.Layout.Offsets[o.Buffer]
			to := from + ir.Offset(p.Buffers[o.Buffer].Size)
			for _, r := range c.Plan.Needs[s.List-1] {
				if r.Begin <= from && from < r.End {
					from = min(r.End, to)
				}
			}
			if from < to {
				t.Fatalf("dynamic entry %d dies at %d, and entry %d uses [%d, %d) before that, which is not on its list", k, death, n, from, to)
			}
		}
	}
	return lists
}

// newStreams begins a program on so many streams.
func newStreams(n int) *program {
	p := &program{t: &ir.Trace{Names: []string{""}, Format: "made up", Reserved: -1}, streams: n}
	for s := range n {
		p.t.Streams = append(p.t.Streams, uint64(s)<<20)
	}
	return p
}

// end is the program's recording.
func (p *program) end() *ir.Trace {
	p.mark(ir.MarkIteration, -1, 0)
	p.t.Events = int64(p.next)
	return p.t
}

// TestSecondJudgeKnowsAges: a plan that says that its waits are older than they are is caught by the events alone.
func TestSecondJudgeKnowsAges(t *testing.T) {
	p := newStreams(2)
	for i := range 4 {
		p.mark(ir.MarkIteration, int64(i), 0)
		p.free(p.alloc(1<<20, 0))
		p.free(p.alloc(512, 0))
		p.free(p.alloc(1<<20, 1))
		p.free(p.alloc(1024, 1))
	}
	c, err := compiler.Compile(context.Background(), p.end(), compiler.Options{Sharing: ir.Sharing{On: true}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Layout.Peak != 1<<20 {
		t.Fatalf("peak %d: nothing is shared", c.Layout.Peak)
	}
	if _, v, err := c.VerifyEvents(c.Plan); err != nil || len(v) > 0 {
		t.Fatal(err, v)
	}
	c.Plan.SharedAge += 2
	if _, v, err := c.VerifyEvents(c.Plan); err != nil || len(v) == 0 {
		t.Fatal("reuse that is too young is not seen", err)
	}
}

// TestSharedRecordings holds the peaks of real sharded training to what a plain prototype reaches (survey -table
// streams prints all of them).
func TestSharedRecordings(t *testing.T) {
	if testing.Short() {
		t.Skip("packs large recordings")
	}
	for _, x := range []struct {
		file string
		age  ir.Tick
		most float64 // GiB
	}{
		{"frameworks/titan-llama3-8b-fsdp8", 0, 36.14},
		{"frameworks/titan-llama3-8b-fsdp8", 500, 38.34},
		{"frameworks/titan-llama3-8b-fsdp8", 2000, 41.145},
		{"frameworks/ds-z2-llama7b-ckpt", 200, 34.08},
		{"phantom/llama7b_fsdp8_nccl", 0, 34.81},
		{"frameworks/gpt2-ZR-rs300-rank0", 0, 9.672},
	} {
		tr, err := profile.ReadFile(filepath.Join("..", "..", "shared", "data", x.file+".pickle.gz"), profile.DefaultOptions())
		if err != nil {
			t.Skip(err)
		}
		c, err := compiler.Compile(context.Background(), tr, compiler.Options{Effort: compiler.Fast, Sharing: ir.Sharing{On: true, Age: x.age}})
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(c.Arena()) / (1 << 30); got > x.most {
			t.Errorf("%s, AGE %d: %.3f GiB, want at most %.3f", x.file, x.age, got, x.most)
		}
	}
}

// TestSharedSameBytes: a compile with streams that share is a function of its input.
func TestSharedSameBytes(t *testing.T) {
	p := newStreams(3)
	for i := range 5 {
		p.mark(ir.MarkIteration, int64(i), 0)
		var held []uint32
		for k := range 60 {
			held = append(held, p.alloc(ir.Bytes(512*(1+k*k%37)), k%3))
			if k%4 == 3 {
				p.free(held[0])
				held = held[1:]
			}
		}
		for _, r := range held {
			p.free(r)
		}
	}
	tr := p.end()
	var want []byte
	for range 5 {
		c, err := compiler.Compile(context.Background(), tr, compiler.Options{Sharing: ir.Sharing{On: true, Age: 7}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ir.EncodePlan(c.Plan)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Fatal("other bytes")
		}
	}
}
