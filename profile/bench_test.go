package profile

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"stweaver/internal/testkit"
)

// writeSynth generates a file for a benchmark and returns its path.
func writeSynth(tb testing.TB, name string, write func(f *os.File) (testkit.Synth, error)) (string, testkit.Synth) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := write(f)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path, s
}

// peakRSS is the most memory the process ever held, in bytes; 0 where the system does not
// say. It only grows: run one benchmark at a time for a number of its own.
func peakRSS() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024
		}
	}
	return 0
}

func benchRead(b *testing.B, path string, s testkit.Synth) {
	b.SetBytes(s.Bytes)
	b.ReportAllocs()
	runtime.GC()
	for b.Loop() {
		t, err := ReadFile(path, DefaultOptions())
		if err != nil {
			b.Fatal(err)
		}
		if len(t.Requests) != s.Requests {
			b.Fatalf("%d requests, want %d", len(t.Requests), s.Requests)
		}
	}
	b.ReportMetric(float64(s.Bytes)/1e6, "MB")
	b.ReportMetric(float64(s.Events), "events")
	b.ReportMetric(peakRSS()/float64(s.Bytes), "peakRSS/size")
	b.ReportMetric(peakRSS()/1e6, "peakRSS-MB")
}

// BenchmarkSnapshot reads a snapshot of a million events with stacks, about 200 MB.
func BenchmarkSnapshot(b *testing.B) {
	for _, requests := range []int{33_500, 335_000} {
		b.Run(fmt.Sprintf("requests=%d", requests), func(b *testing.B) {
			path, s := writeSynth(b, "s.pickle", func(f *os.File) (testkit.Synth, error) {
				return testkit.WriteSnapshot(f, testkit.SnapshotSpec{Requests: requests, Depth: 104})
			})
			benchRead(b, path, s)
		})
	}
}

// BenchmarkChrome reads a profiler trace of about 400 MB, a tenth of its events [memory].
func BenchmarkChrome(b *testing.B) {
	for _, requests := range []int{4_800, 48_000} {
		b.Run(fmt.Sprintf("requests=%d", requests), func(b *testing.B) {
			path, s := writeSynth(b, "t.json", func(f *os.File) (testkit.Synth, error) {
				return testkit.WriteChrome(f, testkit.ChromeSpec{Requests: requests, Ops: 9})
			})
			benchRead(b, path, s)
		})
	}
}

// BenchmarkStwp reads a recording of a million events, 16 MB.
func BenchmarkStwp(b *testing.B) {
	path, s := writeSynth(b, "s.stwp", func(f *os.File) (testkit.Synth, error) { return testkit.WriteRecording(f, 500_000) })
	benchRead(b, path, s)
}

// TestMemory gates what reading takes in memory: all that is ever allocated, garbage
// included, against the size of the file. It counts bytes, not time.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit float64
		write func(f *os.File) (testkit.Synth, error)
	}{
		{"snapshot", 1.5, func(f *os.File) (testkit.Synth, error) {
			return testkit.WriteSnapshot(f, testkit.SnapshotSpec{Requests: 33_500, Depth: 104})
		}},
		{"chrome", 0.2, func(f *os.File) (testkit.Synth, error) {
			return testkit.WriteChrome(f, testkit.ChromeSpec{Requests: 4_800, Ops: 9})
		}},
		{"recording", 4, func(f *os.File) (testkit.Synth, error) { return testkit.WriteRecording(f, 100_000) }},
	} {
		path, s := writeSynth(t, c.name, c.write)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mustRead(t, path)
		runtime.ReadMemStats(&after)
		if ratio := float64(after.TotalAlloc-before.TotalAlloc) / float64(s.Bytes); ratio > c.limit {
			t.Errorf("%s: %.2f bytes allocated for each of %d, limit %.2f", c.name, ratio, s.Bytes, c.limit)
		} else {
			t.Logf("%s: %.2f bytes allocated for each of %d", c.name, ratio, s.Bytes)
		}
	}
}

// BenchmarkStacks reads the same snapshot with whole call stacks kept.
func BenchmarkStacks(b *testing.B) {
	path, s := writeSynth(b, "s.pickle", func(f *os.File) (testkit.Synth, error) {
		return testkit.WriteSnapshot(f, testkit.SnapshotSpec{Requests: 335_000, Depth: 104})
	})
	b.SetBytes(s.Bytes)
	for b.Loop() {
		if _, err := ReadFile(path, Options{Stacks: true}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(peakRSS()/1e6, "peakRSS-MB")
}
