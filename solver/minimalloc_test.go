package solver

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// hard are MiniMalloc's instances, with the nodes that an earlier implementation of its
// rules took at their capacity.
var hard = []struct {
	name string
	most int64
}{
	{"A", 116432}, {"B", 102681}, {"C", 30655}, {"D", 11591}, {"E", 154638}, {"F", 52466},
	{"G", 5470}, {"H", 4236}, {"I", 14515}, {"J", 2048}, {"K", 10085},
}

const hardCapacity = 1048576

// TestMiniMalloc solves them within those nodes; the golden file has the counts.
func TestMiniMalloc(t *testing.T) {
	const file = "testdata/minimalloc.golden"
	var out strings.Builder
	for _, c := range hard {
		b, h := readCSV(t, "minimalloc/"+c.name+".1048576.csv")
		r := Solve(background, b, h, Options{Nodes: 400_000, Capacity: hardCapacity, Decide: true})
		if r.Status != Feasible && r.Status != Optimal || r.Layout.Peak > hardCapacity {
			t.Errorf("%s: %v, peak %d", c.name, r.Status, r.Layout.Peak)
			continue
		}
		if bad := violation(b, r.Layout, nil); bad != "" {
			t.Errorf("%s: %s", c.name, bad)
		}
		if r.Nodes > c.most {
			t.Errorf("%s: %d nodes, more than %d", c.name, r.Nodes, c.most)
		}
		fmt.Fprintf(&out, "%s: %v, peak %d, bound %d, %d nodes, %d backtracks\n", c.name, r.Status, r.Layout.Peak, r.Bound, r.Nodes, r.Backtracks)
	}
	golden(t, file, out.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if testkit.Updating() {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (UPDATE_GOLDEN=1 rewrites it); got:\n%s", file, got)
	}
}

// TestOctree: its optimum lies above the live peak. SAT on its largest buffers says how
// far, and a layout is within 0.01 % of that.
func TestOctree(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	b, h := readCSV(t, "pytorch/octree_infer_small.csv")
	r := Solve(background, b, h, Options{Nodes: 20_000, SAT: true})
	if bad := violation(b, r.Layout, nil); bad != "" {
		t.Fatal(bad)
	}
	t.Logf("%v: peak %d, bound %d (%s), %d nodes", r.Status, r.Layout.Peak, r.Bound, r.BoundKind, r.Nodes)
	if r.BoundKind != Core && r.BoundKind != Proved {
		t.Errorf("bound %d is a %s", r.Bound, r.BoundKind)
	}
	if gap := float64(r.Layout.Peak-r.Bound) / float64(r.Bound); gap > 1e-4 {
		t.Errorf("peak %d is %.6f above the bound %d", r.Layout.Peak, gap, r.Bound)
	}
}

// TestAmp: no packer of order and fit reaches the live peak of this training run; the
// search does without a step back.
func TestAmp(t *testing.T) {
	b, h := readCSV(t, "pytorch/gpt_small_ctx200_amp_3steps.csv")
	r := Solve(background, b, h, Options{Nodes: int64(8 * len(b))})
	if bad := violation(b, r.Layout, nil); bad != "" {
		t.Fatal(bad)
	}
	if r.Status != Optimal || r.Layout.Peak != ir.Bytes(977174528) {
		t.Errorf("%v, peak %d, bound %d", r.Status, r.Layout.Peak, r.Bound)
	}
}
