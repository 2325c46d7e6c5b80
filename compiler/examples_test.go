package compiler

import (
	"context"
	"strings"
	"testing"

	"stweaver/ir"
	"stweaver/lang"
)

// The worked examples fit the profiles that they are about: each of their rules takes something.
func TestWorkedExamples(t *testing.T) {
	for name, in := range map[string]string{
		"dense": "phantom/llama24_ckpt.pickle.gz",
		"moe":   "frameworks/qwen-R-rank0.pickle.gz",
		"zero3": "frameworks/ds-z3-gpt2xl.pickle.gz",
	} {
		t.Run(name, func(t *testing.T) {
			tr := load(t, in)
			p := lang.Load(lang.OpenFile, "../lang/examples/"+name+".rules")
			if err := p.Err(); err != nil {
				t.Fatal(err)
			}
			c, err := Analyse(context.Background(), tr, Options{Rules: p.Rules})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.RuleNotes) > 0 {
				t.Errorf("notes: %s", strings.Join(c.RuleNotes, "\n"))
			}
			if c.Problem.Constraints.Empty() {
				t.Error("nothing is asked for")
			}
		})
	}
}

// The dense example costs nothing: weights in one run from address 0, optimizer state together, and the peak
// is still the live peak.
func TestDenseExample(t *testing.T) {
	if testing.Short() {
		t.Skip("it packs for seconds")
	}
	tr := load(t, "phantom/llama24_ckpt.pickle.gz")
	p := lang.Load(lang.OpenFile, "../lang/examples/dense.rules")
	c, err := Compile(context.Background(), tr, Options{Rules: p.Rules, Effort: Fast})
	if err != nil {
		t.Fatal(err)
	}
	end := ir.Offset(0)
	pin := c.Problem.Constraints.Pins[0]
	for _, id := range pin.Buffers {
		if c.Layout.Offsets[id] != end {
			t.Fatalf("weight %d is at %d, not at %d", id, c.Layout.Offsets[id], end)
		}
		end += ir.Offset(c.Problem.Buffers[id].Size)
	}
	if len(pin.Buffers) < 100 || c.Arena() > 52309304832+52309304832/1000 {
		t.Errorf("%d weights, plan peak %d", len(pin.Buffers), c.Arena())
	}
}
