package heuristics

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"stweaver/internal/testkit"
)

// TestGoldenPeaks pins the peak of every packer on a few instances, so that a change in
// an order or a fit shows as bytes. UPDATE_GOLDEN=1 rewrites the file.
func TestGoldenPeaks(t *testing.T) {
	const file = "testdata/peaks.golden"
	var out strings.Builder
	for _, in := range goldenInstances(t) {
		fmt.Fprintf(&out, "%s: %d buffers, live peak %d\n", in.name, len(in.buffers), LivePeak(in.buffers, in.horizon))
		for _, p := range Packers() {
			l := p.Layout(in.buffers, in.horizon)
			if bad := violation(in.buffers, l); bad != "" {
				t.Errorf("%s: %s: %s", in.name, p.Name, bad)
			}
			fmt.Fprintf(&out, "  %-16s %d\n", p.Name, l.Peak)
		}
		r := Pack(in.buffers, in.horizon, Options{Effort: 3})
		fmt.Fprintf(&out, "  %-16s %d  %s, %d tries\n", "= effort 3", r.Layout.Peak, r.Packer, r.Tries)
	}
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, old := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	for k := range max(len(got), len(old)) {
		switch {
		case k >= len(got):
			t.Fatalf("%s:%d: %q is missing", file, k+1, old[k])
		case k >= len(old) || got[k] != old[k]:
			t.Fatalf("%s:%d: got %q (UPDATE_GOLDEN=1 accepts)", file, k+1, got[k])
		}
	}
}

type named struct {
	name string
	problem
}

// goldenInstances are generated, but for two: the lifetimes of a small inference and of a
// training step, taken from public torch traces, numbers only.
func goldenInstances(t *testing.T) []named {
	var out []named
	for _, s := range shapes {
		out = append(out, named{s.name, s.draw(1, 400)})
	}
	for _, s := range []struct {
		name string
		testkit.Schedule
	}{
		{"1f1b", testkit.Schedule{Layers: 6, Micro: 8, Warm: 4, Iterations: 2}},
		{"1f1b-recompute", testkit.Schedule{Layers: 6, Micro: 8, Warm: 4, Iterations: 2, Recompute: true}},
		{"1f1b-uneven", testkit.Schedule{Layers: 6, Micro: 8, Warm: 4, Iterations: 2, Uneven: true}},
	} {
		b, h := testkit.Pipeline(1, s.Schedule)
		out = append(out, named{s.name, problem{b, h, 0}})
	}
	for _, name := range []string{"octree_infer_small", "alexnet_train"} {
		b, h := testkit.ReadIntervals(t, "testdata/"+name+".csv")
		out = append(out, named{name, problem{b, h, 0}})
	}
	return out
}
