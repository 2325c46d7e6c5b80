package heuristics_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stweaver/compiler"
	"stweaver/heuristics"
	"stweaver/ir"
	"stweaver/profile"
)

// TestAims packs the loops of the real profiles that are hard: deep interleavings, groups
// that die beside the largest transients, zero slack again and again. The ratios are what
// the default effort reaches, with a margin for a change of the draws; the ones at 1 are
// optimal.
func TestAims(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and packs large profiles")
	}
	const dir = "../../shared/data"
	for _, c := range []struct {
		file  string
		ratio float64
	}{
		{"phantom/gpt2m_frames.pickle.gz", 1},
		{"frameworks/gpt2-V-rank4.pickle.gz", 1},
		{"frameworks/gpt2-ZR-rs300-rank0.pickle.gz", 1},
		{"frameworks/gpt2-N-rank0.pickle.gz", 1.0025},
		{"frameworks/llama2-N-rank0.pickle.gz", 1.001},
		{"snapshots/gpt_small_ctx200_amp_3steps.pickle", 1.0001},
		{"megatron/llama7b-ZR-tp2-pp2-s1.txt.gz", 1},
		{"megatron/gpt2-N-tp4-pp2-s0.txt.gz", 1},
		{"megatron/gpt2-V-tp4-pp2-s1.txt.gz", 1},
		{"megatron/gpt2-V-tp4-pp2-s0.txt.gz", 1},
		{"megatron/llama7b-N-tp4-pp2-s0.txt.gz", 1},
		{"megatron/llama7b-V-tp4-pp2-s0.txt.gz", 1},
		{"megatron/qwenmoe-N-tp4-pp2-s0.txt.gz", 1},
		{"megatron/qwenmoe-V-tp4-pp2-s0.txt.gz", 1},
	} {
		t.Run(strings.ReplaceAll(c.file, "/", "_"), func(t *testing.T) {
			file := filepath.Join(dir, c.file)
			if _, err := os.Stat(file); err != nil {
				t.Skipf("no %s", file)
			}
			trace, err := profile.ReadFile(file, profile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			a, err := compiler.Analyse(context.Background(), trace, compiler.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p := a.Problem
			if len(p.Streams) != 1 {
				t.Fatalf("%d streams", len(p.Streams))
			}
			r := heuristics.Pack(p.Buffers, p.L1, heuristics.Options{Effort: heuristics.EffortDefault})
			if bad := ir.Verify(p, nil, &r.Layout); len(bad) > 0 {
				t.Fatal(bad[0])
			}
			ratio := float64(r.Layout.Peak) / float64(r.Bound)
			t.Logf("%7d buffers  %.6f  (+%d bytes)  %-22s %3d tries  %d kinds of blocks, %d of groups",
				len(p.Buffers), ratio, r.Layout.Peak-r.Bound, r.Packer, r.Tries, len(r.Blocks), len(r.Groups))
			if ratio > c.ratio {
				t.Errorf("ratio %.6f, want at most %.6f", ratio, c.ratio)
			}
		})
	}
}
