package compiler_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"stweaver/compiler"
	"stweaver/ir"
)

// Where dynamic requests leave a choice, the layout kept reserves no more in rehearsal than any other
// that was compared.
func TestChoiceOfLayouts(t *testing.T) {
	compared, mattered := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		tr := drawProgram(t)
		for _, effort := range []compiler.Effort{compiler.Fast, compiler.Default} {
			c, err := compiler.Compile(context.Background(), tr, compiler.Options{Effort: effort})
			if err != nil {
				t.Fatal(err)
			}
			r := c.Rehearsal
			if r == nil {
				return
			}
			best := r.Plan
			if r.Varying > 0 {
				best = r.Varying
			}
			if best > r.Worst || best < r.Live || r.Layouts < 1 || effort == compiler.Fast && r.Layouts != 1 {
				t.Fatalf("%s: %+v", effort, *r)
			}
			if r.Layouts > 1 {
				compared++
			}
			if r.Worst > best {
				mattered++
			}
		}
	})
	if compared == 0 || mattered == 0 {
		t.Errorf("of the programs drawn %d had a choice, and for %d it mattered", compared, mattered)
	}
}

// A compile that is told to stop before it searches still makes a plan, and says what happened.
func TestStopKeepsAPlan(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	interrupted := 0
	rapid.Check(t, func(t *rapid.T) {
		tr := drawProgram(t)
		c, err := compiler.Compile(context.Background(), tr, compiler.Options{Effort: compiler.Max, Stop: stop})
		if err != nil {
			t.Fatal(err)
		}
		if v := ir.Verify(c.Problem, nil, c.Layout); len(v) > 0 {
			t.Fatal(v)
		}
		if c.Interrupted != (c.Plan.Get("interrupted") == "true") {
			t.Fatalf("interrupted %v, and the plan says %q", c.Interrupted, c.Plan.Get("interrupted"))
		}
		if c.Layout.Peak == c.Bound() && c.Interrupted {
			t.Fatal("interrupted, but there was nothing left to search")
		}
		if c.Interrupted {
			interrupted++
		}
	})
	t.Logf("%d interrupted", interrupted)
}

// Room that a rule reserves is in every stream's part of the arena, of the size that the rule gives,
// clear of planned requests, and of use to the runtime; and the plan with it is as sound as any.
func TestReserve(t *testing.T) {
	reserved, cheaper := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		tr := drawProgram(t)
		rule := ir.Reserve{Quantile: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "quantile"), Headroom: rapid.SampledFrom([]float64{0.1, 1, 1.3}).Draw(t, "headroom")}
		if rapid.Bool().Draw(t, "cap") {
			rule.Cap = 2048
		}
		c, err := compiler.Compile(context.Background(), tr, compiler.Options{Effort: compiler.Fast, Rules: ir.Rules{Reserve: rule}})
		if err != nil {
			t.Fatal(err)
		}
		if c.Reserved == nil {
			if c.Arena() != c.Layout.Peak {
				t.Fatalf("nothing reserved: arena %d, peak %d", c.Arena(), c.Layout.Peak)
			}
			return
		}
		reserved++
		if c.Reserved.With < c.Reserved.Without {
			cheaper++
		}
		top := make([]ir.Offset, len(c.Streams)) // of the planned buffers
		for s := range top {
			top[s] = c.Streams[s].Begin
		}
		for i := range c.Problem.Buffers {
			b := &c.Problem.Buffers[i]
			top[b.Stream] = max(top[b.Stream], c.Layout.Offsets[i]+ir.Offset(b.Size))
		}
		var room ir.Bytes
		for s := range top {
			own := ir.Bytes(c.Streams[s].End - top[s])
			if own < 0 || rule.Cap > 0 && own > rule.Cap {
				t.Fatalf("stream %d: room of %d bytes, the cap is %d", s, own, rule.Cap)
			}
			room += own
		}
		if room != c.Reserved.Bytes {
			t.Fatalf("%d bytes above the planned buffers, %d are said to be reserved", room, c.Reserved.Bytes)
		}
		dynamic := 0
		replayHits(t, c, writtenPlan(t, c), false, &dynamic)
	})
	if reserved == 0 {
		t.Error("no program had anything to reserve for")
	}
	t.Logf("%d with room, of which %d gained by it", reserved, cheaper)
}
