package heuristics

import (
	"strings"
	"testing"
	"time"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// TestRealProfiles packs every real input as one linear pass. It logs the ratio to the
// live peak and asserts what holds for all: a valid layout, never above greedy by size
// with best fit, and within one per cent of the live peak on training runs of one stream
// that do not interleave.
func TestRealProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("reads and packs sixty profiles")
	}
	for _, pattern := range []string{"intervals/*/*.csv", "torchcpu/*.txt.gz", "megatron/*.txt.gz"} {
		for _, file := range dataFiles(t, pattern) {
			name := baseName(file)
			t.Run(name, func(t *testing.T) {
				read := readLog
				if strings.HasSuffix(file, ".csv") {
					read = testkit.ReadIntervals
				}
				buffers, horizon := read(t, file)
				began := time.Now()
				r := Pack(buffers, horizon, Options{})
				took := time.Since(began)
				if bad := violation(buffers, r.Layout); bad != "" {
					t.Fatal(bad)
				}
				ref := ir.Bytes(0) // in the list where the reference ran: always, unless the bound was reached before
				for _, p := range r.Peaks {
					if p.Name == "size-best" {
						ref = p.Peak
					}
				}
				if ref == 0 && r.Layout.Peak > r.Bound {
					t.Error("above the bound, and the reference did not run")
				}
				if ref == 0 {
					ref = r.Bound
				}
				if r.Layout.Peak > ref {
					t.Errorf("peak %d above the reference %d", r.Layout.Peak, ref)
				}
				ratio := ratioOf(r.Layout.Peak, r.Bound)
				t.Logf("%7d buffers  %.6f  (+%d bytes)  %-15s %2d tries  size-best %.6f  %.2f s",
					len(buffers), ratio, r.Layout.Peak-r.Bound, r.Packer, r.Tries, ratioOf(ref, r.Bound), took.Seconds())
				if !strings.HasSuffix(file, ".csv") && !interleaved(name) && ratio > 1.01 {
					t.Errorf("ratio %.4f", ratio)
				}
			})
		}
	}
}

// interleaved reports whether the combination letters of MODEL-COMBO-… contain V.
func interleaved(name string) bool {
	f := strings.Split(name, "-")
	return len(f) > 1 && strings.Contains(f[1], "V")
}

func ratioOf(a, b ir.Bytes) float64 { return float64(a) / float64(b) }
