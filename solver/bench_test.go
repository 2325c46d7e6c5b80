package solver

import (
	"syscall"
	"testing"
	"time"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

func reportNodes(b *testing.B, r Result) {
	b.ReportMetric(float64(r.Nodes), "nodes")
	b.ReportMetric(float64(r.Nodes)*float64(b.N)/b.Elapsed().Seconds(), "nodes/s")
	if r.Layout.Offsets != nil {
		b.ReportMetric(float64(r.Layout.Peak)/float64(r.Bound), "ratio")
	}
}

// BenchmarkMiniMalloc: the hard instances at their capacity.
func BenchmarkMiniMalloc(b *testing.B) {
	for _, c := range hard {
		b.Run(c.name, func(b *testing.B) {
			buffers, h := readCSV(b, "minimalloc/"+c.name+".1048576.csv")
			var r Result
			for b.Loop() {
				r = Solve(background, buffers, h, Options{Nodes: 400_000, Capacity: hardCapacity, Decide: true, Workers: 1})
			}
			reportNodes(b, r)
		})
	}
}

// BenchmarkMiniMallocMinimise: from nothing to the smallest capacity, with the nodes of the
// most effort. Reported are the nodes and CPU seconds until the search was at its end or out of
// nodes, the smallest capacity found, and the largest refuted: what is one unit, 1 KiB, under
// the bound. Beside it what an earlier implementation came to (old-KiB), in how many seconds
// (old-s).
func BenchmarkMiniMallocMinimise(b *testing.B) {
	for _, c := range hard {
		b.Run(c.name, func(b *testing.B) {
			buffers, h := readCSV(b, "minimalloc/"+c.name+".1048576.csv")
			var r Result
			began := processTime()
			for b.Loop() {
				r = Solve(background, buffers, h, Options{Nodes: 4_000_000, Workers: 1})
			}
			b.ReportMetric((processTime()-began).Seconds()/float64(b.N), "CPU-s")
			b.ReportMetric(float64(r.Nodes), "nodes")
			b.ReportMetric(float64(r.Layout.Peak)/1024, "KiB")
			b.ReportMetric(float64(r.Bound)/1024-1, "refuted-KiB")
			b.ReportMetric(float64(c.lowest), "old-KiB")
			b.ReportMetric(c.secondsToLow, "old-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processTime is the CPU time of the process so far.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMinimise: from nothing, with a budget.
func BenchmarkMinimise(b *testing.B) {
	for _, name := range []string{"C", "D", "J", "K"} {
		b.Run(name, func(b *testing.B) {
			buffers, h := readCSV(b, "minimalloc/"+name+".1048576.csv")
			var r Result
			for b.Loop() {
				r = Solve(background, buffers, h, Options{Nodes: 200_000, Workers: 1})
			}
			reportNodes(b, r)
		})
	}
}

// BenchmarkLarge: pipelines, whose time goes into the setting up and the first way down.
func BenchmarkLarge(b *testing.B) {
	for _, s := range []struct {
		name       string
		iterations int
	}{{"2k", 1}, {"20k", 10}} {
		buffers, h := testkit.Pipeline(1, testkit.Schedule{Layers: 12, Micro: 16, Warm: 4, Iterations: s.iterations, Uneven: true})
		b.Run(s.name, func(b *testing.B) {
			var r Result
			for b.Loop() {
				r = Solve(background, buffers, h, Options{Nodes: 4 * int64(len(buffers)), Workers: 1})
			}
			reportNodes(b, r)
			b.ReportMetric(float64(len(buffers)), "buffers")
		})
	}
}

// BenchmarkDrop: an incumbent let fall, without a search.
func BenchmarkDrop(b *testing.B) {
	buffers, h := testkit.Pipeline(1, testkit.Schedule{Layers: 12, Micro: 16, Warm: 4, Iterations: 20})
	l := ir.Layout{Offsets: make([]ir.Offset, len(buffers))}
	for i := range buffers {
		l.Offsets[i] = ir.Offset(l.Peak)
		l.Peak += buffers[i].Size
	}
	for b.Loop() {
		Solve(background, buffers, h, Options{Incumbent: &l, Workers: 1})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(buffers)), "ns/buffer")
}
