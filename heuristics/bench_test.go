package heuristics

import (
	"fmt"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// sized is a 1F1B schedule of about n requests.
func sized(n int) ([]ir.Buffer, ir.Tick) {
	s := testkit.Schedule{Layers: 12, Micro: 16, Warm: 4, Iterations: 1, Uneven: true}
	b, _ := testkit.Pipeline(1, s)
	s.Iterations = max(1, n/len(b))
	return testkit.Pipeline(1, s)
}

// BenchmarkPacker: one try of each packer; ratio is its peak over the bound.
func BenchmarkPacker(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		buffers, horizon := sized(n)
		in := newInstance(buffers, horizon)
		for _, p := range packers {
			if p.most > 0 && len(buffers) > p.most {
				continue
			}
			b.Run(fmt.Sprintf("%s/n=%d", p.Name, n), func(b *testing.B) {
				w := newBench(in)
				p.run(w) // sorts the keys and grows the index
				b.ReportAllocs()
				for b.Loop() {
					p.run(w)
				}
				b.ReportMetric(float64(w.peak)/float64(in.bound), "ratio")
				b.ReportMetric(float64(w.index.steps)/float64(len(buffers)), "steps/buffer")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(buffers)), "ns/buffer")
			})
		}
	}
}

// BenchmarkEngine: one first fit and one best fit from nothing, orders and index included.
func BenchmarkEngine(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		pipeline, ph := sized(n)
		random, rh := testkit.Random(1, n, 1000, 2000)
		for _, c := range []struct {
			name    string
			buffers []ir.Buffer
			horizon ir.Tick
		}{{"pipeline", pipeline, ph}, {"random", random, rh}} {
			for _, name := range []string{"size", "size-best"} {
				p, _ := ByName(name)
				b.Run(fmt.Sprintf("%s/%s/n=%d", c.name, name, n), func(b *testing.B) {
					var l ir.Layout
					for b.Loop() {
						l = p.Layout(c.buffers, c.horizon)
					}
					b.ReportMetric(float64(l.Peak)/float64(LivePeak(c.buffers, c.horizon)), "ratio")
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(c.buffers)), "ns/buffer")
				})
			}
		}
	}
}

// BenchmarkPack: the whole portfolio.
func BenchmarkPack(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		buffers, horizon := sized(n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			var r Result
			for b.Loop() {
				r = Pack(buffers, horizon, Options{Effort: EffortDefault})
			}
			b.ReportMetric(float64(r.Layout.Peak)/float64(r.Bound), "ratio")
			b.ReportMetric(float64(r.Tries), "tries")
		})
	}
}
