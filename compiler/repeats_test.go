package compiler

import (
	"strings"
	"testing"

	"stweaver/heuristics"
	"stweaver/internal/testkit"
	"stweaver/ir"
)

// copies puts n copies of a tight packing one after the other.
func copies(seed uint64, n int) ([]ir.Buffer, ir.Tick) {
	one, width, _ := testkit.Rectangle(seed, 40, 60, 40)
	var out []ir.Buffer
	for k := range n {
		for _, b := range one {
			b.Start, b.End = b.Start+ir.Tick(k)*width, b.End+ir.Tick(k)*width
			out = append(out, b)
		}
	}
	return out, ir.Tick(n) * width
}

// Congruent blocks that the packers leave above their live peak are solved by the exact search, once.
func TestBlocksAreSolvedExactly(t *testing.T) {
	lowered := 0
	for seed := range uint64(60) {
		buffers, horizon := copies(seed, 40)
		plain, _ := heuristics.Repeats(buffers, horizon, heuristics.Options{})
		exact, _ := heuristics.Repeats(buffers, horizon, heuristics.Options{Exact: exactBlock})
		if len(plain) != len(exact) {
			t.Fatalf("seed %d: %d kinds, %d with the exact search", seed, len(plain), len(exact))
		}
		var before, after ir.Bytes
		for i := range exact {
			before += plain[i].Height
			after += exact[i].Height
			if exact[i].Height < exact[i].Load {
				t.Fatalf("seed %d: a block of height %d, below its live peak %d", seed, exact[i].Height, exact[i].Load)
			}
			if exact[i].Exact {
				lowered++
			}
		}
		if after > before {
			t.Fatalf("seed %d: heights sum to %d, %d with the exact search", seed, before, after)
		}
	}
	if lowered == 0 {
		t.Error("the exact search lowered no block")
	}
	t.Logf("%d blocks lowered", lowered)
}

func TestRepeatsLine(t *testing.T) {
	x := newRepeats([]heuristics.BlockClass{{Members: 10, Instances: 5, Height: 1024, Load: 1024}}, []heuristics.GroupClass{{Members: 4, Instances: 3, Bytes: 4096, TMP: 0.9}})
	if x.Blocks != 5 || x.Members != 50 || x.Solved != 10 || x.Tight != 1 || x.GroupMembers != 12 {
		t.Errorf("%+v", *x)
	}
	x.FlatPeak, x.Peak, x.Winner = 4096, 2048, true
	for _, want := range []string{"5 blocks of 1 kinds", "3 groups of 1 kinds", "saved 2.00 KiB"} {
		if !strings.Contains(x.String(), want) {
			t.Errorf("%q lacks %q", x.String(), want)
		}
	}
}
