package heuristics

import (
	"fmt"
	"reflect"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// folded runs the fold alone; false if there is nothing to fold.
func folded(p problem) (*bench, bool) {
	w := newBench(newInstance(p.buffers, p.horizon))
	return w, foldTry(w)
}

// unfolded runs the table and the first recipes on all of it.
func unfolded(p problem) int64 {
	r := newRace(newInstance(p.buffers, p.horizon), Options{})
	r.run(r.table(true), r.in.bound)
	return r.best.peak
}

// reported is the report with the layout of the bench.
func reported(w *bench) FoldReport {
	f := w.in.fold()
	r := *f.report
	r.Placed = f.placed(w.offsets)
	return r
}

// pipelines are schedules of known structure: of the period, F and B are the requests of one
// forward and one backward.
var pipelines = []struct {
	name string
	testkit.Schedule
	buffers, copies, instances int
}{
	// A plain accumulation: 5 requests a layer and its input forward, 2 and a gradient backward.
	{"accumulate", testkit.Schedule{Layers: 12, Micro: 8, Warm: 1, Iterations: 1}, 1 + 5*12 + 1 + 2*12, 1, 8},
	{"two in flight", testkit.Schedule{Layers: 8, Micro: 32, Warm: 2, Iterations: 1}, 1 + 5*8 + 1 + 2*8, 2, 33},
	{"three in flight", testkit.Schedule{Layers: 8, Micro: 32, Warm: 3, Iterations: 2}, 1 + 5*8 + 1 + 2*8, 3, 68},
	// Too few micro-batches to fold eight copies: the iteration is the period.
	{"deep", testkit.Schedule{Layers: 16, Micro: 16, Warm: 8, Iterations: 3}, 16*(1+5*16+1+2*16) + 16 + 1, 1, 3},
}

// TestFoldFinds: the period, copies and warm-up of schedules whose structure is known, all of it
// at one address a copy, and the live peak.
func TestFoldFinds(t *testing.T) {
	for _, c := range pipelines {
		s := c.Schedule
		s.Uneven, s.Prefetch = true, true
		b, h := testkit.Pipeline(1, s)
		w, ok := folded(problem{b, h, 0})
		if !ok {
			t.Errorf("%s: nothing to fold", c.name)
			continue
		}
		r := reported(w)
		if r.Buffers != c.buffers || r.Period != ir.Tick(c.buffers) || r.Copies != c.copies || r.Instances != c.instances {
			t.Errorf("%s: %+v, want a period of %d, %d copies, %d instances", c.name, r, c.buffers, c.copies, c.instances)
		}
		if r.Folded < len(b)*9/10 || r.Placed != r.Folded {
			t.Errorf("%s: %+v of %d buffers", c.name, r, len(b))
		}
		if bad := violation(b, layoutOf(w)); bad != "" {
			t.Errorf("%s: %s", c.name, bad)
		}
		if w.peak != int64(w.in.bound) {
			t.Errorf("%s: peak %d, bound %d", c.name, w.peak, w.in.bound)
		}
	}
}

func layoutOf(w *bench) ir.Layout { return ir.Layout{Offsets: w.offsets, Peak: ir.Bytes(w.peak)} }

// TestFoldUnrolled: on random schedules a layout of the circle is as low as one of everything,
// but for what three addresses for a life of two periods and a bit cost.
func TestFoldUnrolled(t *testing.T) {
	if testing.Short() {
		t.Skip("packs a hundred schedules twice")
	}
	found, equal, lower := 0, 0, 0
	for seed := range uint64(100) {
		r := testkit.Rand(seed)
		warm := 1 + r.Below(3)
		b, h := testkit.Pipeline(seed, testkit.Schedule{
			Layers: 2 + r.Below(5), Warm: warm, Micro: 8 + 4*warm + r.Below(9), Iterations: 1 + r.Below(2),
			Recompute: r.Below(2) == 0, Uneven: r.Below(2) == 0, Prefetch: r.Below(2) == 0,
		})
		p := problem{b, h, 0}
		w, ok := folded(p)
		if !ok {
			continue
		}
		found++
		if bad := violation(b, layoutOf(w)); bad != "" {
			t.Fatalf("seed %d: %s", seed, bad)
		}
		switch u := unfolded(p); {
		case w.peak == u:
			equal++
		case w.peak < u:
			lower++
		}
	}
	t.Logf("of 100 schedules %d are folded; %d as low as unrolled, %d lower", found, equal, lower)
	if found < 97 || equal+lower < 90 {
		t.Errorf("of 100 schedules %d are folded, %d of them as low as unrolled or lower; want at least 97 and 90", found, equal+lower)
	}
}

// TestFoldOptimum: programs whose optimum is their live peak. Where a period is one piece, or two
// of up to two periods, the fold finds it; with more, a layout is valid and not below.
func TestFoldOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		pieces := rapid.IntRange(1, 12).Draw(t, "pieces")
		copies := rapid.IntRange(1, 4).Draw(t, "copies")
		n := rapid.IntRange(10, 80).Draw(t, "n")
		periods := rapid.IntRange(2, 16).Draw(t, "periods")
		b, h := testkit.Periodic(seed, pieces, 40, n, copies, periods)
		w, ok := folded(problem{b, h, 0})
		if !ok {
			return
		}
		if bad := violation(b, layoutOf(w)); bad != "" {
			t.Fatal(bad)
		}
		if (pieces == 1 || pieces == 2 && copies <= 2) && w.peak != int64(w.in.bound) {
			t.Fatalf("peak %d, optimum %d", w.peak, w.in.bound)
		}
	})
	for seed := range uint64(20) {
		b, h := testkit.Periodic(seed, 2, 40, 60, 1+int(seed%3), 12)
		if _, ok := folded(problem{b, h, 0}); !ok {
			t.Errorf("seed %d: nothing to fold", seed)
		}
	}
}

// TestFoldWrong rolls up programs by periods that they do not have: what is put down wrongly
// goes to the rest.
func TestFoldWrong(t *testing.T) {
	dropped := 0
	for _, s := range shapes {
		for seed := range uint64(40) {
			p := s.draw(seed, 200)
			in := newInstance(p.buffers, p.horizon)
			q := in.timed()
			r := testkit.Rand(seed)
			if len(q.seq) < 20 {
				continue
			}
			q.n, q.copies = 1+r.Below(len(q.seq)/3), 1+r.Below(4)
			for from := r.Below(q.n); from+2*q.n <= len(q.seq); from += 2*q.n + r.Below(q.n) {
				q.windows = append(q.windows, window{from, from + 2*q.n, r.Below(q.n)})
			}
			if len(q.windows) == 0 {
				continue
			}
			c, _ := in.makeCircle(q)
			checkItems(t, in, c)
			circle := newBench(c.in)
			circle.pack(c.in.ids(bySize), func(int32) fit { return firstFit })
			w := newBench(in)
			if !w.expand(c, circle.offsets, circle.peak) {
				t.Fatalf("%s %d: gave up without a limit", s.name, seed)
			}
			if bad := violation(p.buffers, layoutOf(w)); bad != "" {
				t.Fatalf("%s %d: %s", s.name, seed, bad)
			}
			f := fold{circle: c}
			for _, it := range c.items {
				dropped += len(it.ids)
			}
			dropped -= f.placed(w.offsets)
		}
	}
	if dropped == 0 {
		t.Error("nothing collided")
	}
}

// TestFoldAbsent: where there is no period there is no report, and nothing is lost.
func TestFoldAbsent(t *testing.T) {
	for _, s := range shapes[:4] { // random, short, nested, rectangle
		for seed := range uint64(10) {
			p := s.draw(seed, 400)
			r := Pack(p.buffers, p.horizon, Options{})
			if r.Fold != nil || r.Packer == "fold" {
				t.Errorf("%s %d: %s, %+v", s.name, seed, r.Packer, r.Fold)
			}
			if u := unfolded(p); int64(r.Layout.Peak) > u {
				t.Errorf("%s %d: peak %d, %d without the fold", s.name, seed, r.Layout.Peak, u)
			}
		}
	}
}

// TestFoldReported: a race that got as far as the fold says what it found, whoever won, and the
// same for any number of workers.
func TestFoldReported(t *testing.T) {
	won := 0
	for seed := range uint64(12) {
		b, h := testkit.Pipeline(seed, testkit.Schedule{
			Layers: 4, Micro: 16, Warm: 2 + int(seed%2), Iterations: 2, Recompute: seed%3 > 0, Uneven: true, Prefetch: true,
		})
		var want Result
		for workers := 1; workers <= 5; workers += 2 {
			got := Pack(b, h, Options{Effort: 4, Workers: workers})
			if bad := violation(b, got.Layout); bad != "" {
				t.Fatal(bad)
			}
			if workers == 1 {
				want = got
			} else if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %d workers: %s, want %s", seed, workers, brief(got), brief(want))
			}
		}
		if want.Fold == nil {
			if want.Tries > 8 {
				t.Errorf("seed %d: %s and no report", seed, brief(want))
			}
			continue
		}
		if f := want.Fold; f.Copies < 1 || f.Instances < 2 || f.Placed > f.Folded || f.Period <= 0 {
			t.Errorf("seed %d: %+v", seed, *f)
		}
		if want.Packer == "fold" {
			won++
			if want.Fold.Placed != want.Fold.Folded {
				t.Errorf("seed %d: the fold won, and %+v", seed, *want.Fold)
			}
		}
	}
	if won == 0 {
		t.Error("the fold never won")
	}
}

// cpuTime is what this process has used: the machine may be busy with others.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPeriod is the search for a period: ns a buffer where there is one and where not.
func BenchmarkPeriod(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		pipeline, ph := sized(n)
		random, rh := testkit.Random(1, n, 1000, 2000)
		for _, c := range []named{{"pipeline", problem{pipeline, ph, 0}}, {"random", problem{random, rh, 0}}} {
			b.Run(fmt.Sprintf("%s/n=%d", c.name, n), func(b *testing.B) {
				in := newInstance(c.buffers, c.horizon)
				in.ids(byStart)
				var p *period
				for b.Loop() {
					p = in.findPeriod()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(c.buffers)), "ns/buffer")
				if p != nil {
					b.ReportMetric(float64(p.n), "period")
				}
			})
		}
	}
}

// BenchmarkFold compares the portfolio with the fold and without, at the default effort. time (of
// the processor) and peak are in parts of those without.
func BenchmarkFold(b *testing.B) {
	for _, c := range []struct {
		name string
		testkit.Schedule
	}{
		{"base", testkit.Schedule{Layers: 8, Micro: 8, Warm: 4, Iterations: 3}},
		{"recompute", testkit.Schedule{Layers: 8, Micro: 8, Warm: 4, Iterations: 3, Recompute: true}},
		{"accumulate", testkit.Schedule{Layers: 12, Micro: 8, Warm: 1, Iterations: 3}},
		{"deep", testkit.Schedule{Layers: 16, Micro: 16, Warm: 8, Iterations: 3}},
		{"deep-recompute", testkit.Schedule{Layers: 24, Micro: 16, Warm: 8, Iterations: 3, Recompute: true}},
		{"long-deep", testkit.Schedule{Layers: 24, Micro: 64, Warm: 4, Iterations: 1}},
		{"long-deep-recompute", testkit.Schedule{Layers: 24, Micro: 64, Warm: 4, Iterations: 1, Recompute: true}},
	} {
		s := c.Schedule
		s.Uneven, s.Prefetch = true, true
		buffers, horizon := testkit.Pipeline(1, s)
		pack := func(fold bool) *race {
			r := newRace(newInstance(buffers, horizon), Options{Workers: 1})
			tries := r.listed(EffortDefault / 2)
			for k := range tries {
				if tries[k].fold && !fold {
					tries[k].run = func(*bench) bool { return false }
				}
			}
			r.run(tries, r.in.bound)
			return r
		}
		b.Run(c.name, func(b *testing.B) {
			var with, without *race
			var took, plain time.Duration
			for b.Loop() {
				began := cpuTime(b)
				with = pack(true)
				took += cpuTime(b) - began
				began = cpuTime(b)
				without = pack(false)
				plain += cpuTime(b) - began
			}
			b.ReportMetric(float64(took)/float64(plain), "time")
			b.ReportMetric(float64(with.best.peak)/float64(without.best.peak), "peak")
			b.ReportMetric(float64(with.best.peak)/float64(with.in.bound), "ratio")
			b.ReportMetric(float64(with.result().Tries), "tries")
			b.ReportMetric(float64(without.result().Tries), "plain-tries")
			b.ReportMetric(float64(len(buffers)), "buffers")
			if f := with.in.fold(); f.circle != nil {
				b.ReportMetric(float64(f.report.Folded)/float64(len(buffers)), "folded")
				b.ReportMetric(float64(len(f.circle.items))/float64(len(buffers)), "items")
			}
		})
	}
}
