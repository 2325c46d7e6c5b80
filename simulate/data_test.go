package simulate

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
	"stweaver/profile"
)

const dataDir = "../../shared/data"

func readTrace(t testing.TB, path string) *ir.Trace {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s", path)
	}
	tr, err := profile.ReadFile(path, profile.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// The profiles of the repository through every allocator.
func TestGolden(t *testing.T) {
	ar := testkit.OpenArchive(t, "testdata/profiles.txtar")
	defer ar.Close(t)
	for _, name := range []string{"gpt2m_frames.pickle.gz", "llama24_ckpt.pickle.gz", "mixtral4.pickle.gz", "gpt2_dense.txt.gz"} {
		events := Events(readTrace(t, filepath.Join("../testdata/profiles", name)))
		var out strings.Builder
		for _, a := range plain() {
			for _, limit := range []ir.Bytes{0, 20000 * mib} {
				r := mustRun(t, a, events, Options{Limit: limit})
				fmt.Fprintf(&out, "%-10s limit %-11d %5d requests  allocated %11d  occupied %11d  reserved %11d  at the end %11d  calls %4d  oom %v %d\n",
					a, limit, r.Requests, r.PeakAllocated, r.PeakOccupied, r.PeakReserved, r.Reserved, r.DriverCalls, r.OOM, r.Failed)
			}
		}
		ar.Compare(t, name, out.String())
	}
}

// What PyTorch's allocator itself had reserved at most when the snapshots were recorded is what the model
// reserves, to the byte, where the recording is whole. So is what torch's counters said of the same runs with expandable
// segments. Differences are those of recordings
// that began late: what was cached then is not in them.
func TestRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 35 snapshots")
	}
	expandable := measured(t)
	known := map[string]ir.Bytes{ // model - recorded, in MiB
		"snapshots/gpt_ctx_one_step_13gib":            -88,
		"snapshots/gpt_large_ctx128_ring_wrapped":     -3756,
		"snapshots/gpt_medium_ctx1024_late_recording": -16,
		"snapshots/gpt_medium_ctx128_late_recording":  -24,
		"snapshots/gpt_one_step_two_gib":              -66,
	}
	var files []string
	for _, folder := range []string{"phantom", "frameworks", "snapshots"} {
		m, err := filepath.Glob(filepath.Join(dataDir, folder, "*.pickle*"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	for _, f := range files {
		name, _ := filepath.Rel(dataDir, f)
		name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".pickle")
		if name == "snapshots/no_events_private_pools" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			tr := readTrace(t, f)
			r := mustRun(t, tr.Allocator, Events(tr), Options{})
			if diff := r.PeakReserved - tr.Reserved; diff != known[name]*mib {
				t.Errorf("%s reserves %d, recorded %d: %+.1f MiB, known %d", tr.Allocator, r.PeakReserved, tr.Reserved, float64(diff)/float64(mib), known[name])
			}
			if want := expandable[name]; want != "" {
				if r := mustRun(t, "expandable", Events(tr), Options{}); fmt.Sprint(int64(r.PeakReserved)) != want {
					t.Errorf("expandable reserves %d, measured %s", r.PeakReserved, want)
				}
			}
			if peak, _ := tr.LivePeak(); r.PeakAllocated != peak {
				t.Errorf("peak allocated %d, live peak %d", r.PeakAllocated, peak)
			}
		})
	}
}

// Two programs called empty_cache: with that the driver was called as often as the recordings have segment events.
func TestEmptyCache(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls int
	}{{"ds-z3-gpt2xl", 792}, {"hf-gpt2m-b16", 287}} {
		tr := readTrace(t, filepath.Join(dataDir, "frameworks", c.name+".pickle.gz"))
		if len(tr.Releases) == 0 {
			t.Errorf("%s: no release", c.name)
		}
		if r := mustRun(t, "native", Events(tr), Options{}); r.DriverCalls != c.calls {
			t.Errorf("%s: %d calls, recorded %d", c.name, r.DriverCalls, c.calls)
		}
	}
}

// measured is what torch's own counters said of the runs of the frameworks with expandable segments.
func measured(t testing.TB) map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(dataDir, "frameworks/measured.csv"))
	if err != nil {
		return nil
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	reserved := make(map[string]string)
	for _, row := range rows {
		if row[1] == "expandable" {
			reserved["frameworks/"+row[0]] = row[7]
		}
	}
	return reserved
}

// The same events may be used by several runs at a time.
func TestConcurrent(t *testing.T) {
	events := Events(readTrace(t, "../testdata/profiles/mixtral4.pickle.gz"))
	var wg sync.WaitGroup
	for _, name := range append(plain(), plain()...) {
		want := mustRun(t, name, events, Options{})
		wg.Go(func() {
			if r, err := Run(name, events, Options{}); err != nil || r != want {
				t.Errorf("%s: %+v, want %+v (%v)", name, r, want, err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkRun(b *testing.B) {
	events := Events(readTrace(b, "../testdata/profiles/llama24_ckpt.pickle.gz"))
	for _, name := range plain() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				mustRun(b, name, events, Options{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/event")
		})
	}
}
