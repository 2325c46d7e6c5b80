package compiler

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
)

// checkTemplate holds tm against the trace, without the template's own clock.
func checkTemplate(t interface {
	Helper()
	Fatalf(string, ...any)
}, tr *ir.Trace, tm *Template) {
	t.Helper()
	n := len(tm.Entries)
	for w, win := range tm.Windows {
		var want, got []uint32
		for i := range tr.Requests {
			if r := &tr.Requests[i]; r.Alloc >= win[0] && r.Alloc < win[1] && r.Pool == 0 {
				want = append(want, uint32(i))
			}
		}
		for _, r := range tm.Member[w] {
			if r != NoRequest {
				got = append(got, r)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("window %d: members are not the requests in order: %v, want %v", w, got, want)
		}
	}
	for i := range tm.Entries {
		e := &tm.Entries[i]
		optional, lo, hi := false, ir.MaxSize, ir.Bytes(0)
		longest, seen := 0, true
		firsts := make(map[int]bool)
		for w := range tm.Windows {
			m := tm.Member[w][i]
			if m == NoRequest {
				optional = true
				continue
			}
			r := &tr.Requests[m]
			lo, hi = min(lo, r.Rounded()), max(hi, r.Rounded())
			if r.Stream != e.Stream {
				t.Fatalf("entry %d: streams %d and %d meet", i, r.Stream, e.Stream)
			}
			least, first, ok := lifeByScan(tr, tm, w, i)
			longest, seen = max(longest, least), seen && ok
			firsts[first] = true
		}
		if len(firsts) == 1 { // the free names the request after it
			for first := range firsts {
				longest = first
			}
		}
		if int(e.Life) < longest || seen && int(e.Life) != longest {
			t.Fatalf("entry %d: life %d, the windows show %d (all of it: %v)", i, e.Life, longest, seen)
		}
		if optional != e.Optional || lo != e.MinSize || hi != e.MaxSize || e.Life == 0 || e.NfMin > e.NfMax {
			t.Fatalf("entry %d: %+v, but optional %v, sizes %d to %d", i, *e, optional, lo, hi)
		}
		static := !optional && lo == hi && int(e.Life) <= n
		if static != (e.Kind != ir.Dynamic) || (e.Kind == ir.Carried) != (static && i+int(e.Life) > n) {
			t.Fatalf("entry %d of %d: %+v, static %v", i, n, *e, static)
		}
	}
}

// lifeByScan finds the life of an entry's member in window w by looking for the last member that is
// requested before its free, and the first one after it; false where no window shows the free.
func lifeByScan(tr *ir.Trace, tm *Template, w, i int) (least, first int, ok bool) {
	n := len(tm.Entries)
	free := tr.Requests[tm.Member[w][i]].Free
	for v := w; v < len(tm.Windows); v++ {
		if free >= tm.Windows[v][1] {
			continue
		}
		for k, m := range tm.Member[v] {
			if m == NoRequest {
				continue
			}
			if tr.Requests[m].Alloc > free {
				return (v-w)*n + least - i, (v-w)*n + k - i, true
			}
			least = k + 1
		}
		return (v-w)*n + least - i, (v-w+1)*n - i, true
	}
	return 0, 0, false
}

func build(tb testing.TB, tr *ir.Trace, from, to int) (*Steps, *Template) {
	tb.Helper()
	s, err := FindSteps(tr)
	if err != nil {
		tb.Fatal(err)
	}
	tm, err := BuildTemplate(tr, s, from, to)
	if err != nil {
		tb.Fatal(err)
	}
	return s, tm
}

func static(tm *Template) int {
	n := 0
	for i := range tm.Entries {
		if tm.Entries[i].Kind != ir.Dynamic {
			n++
		}
	}
	return n
}

// run writes n marked iterations of p.
func (p *program) run(n int) *ir.Trace {
	for i := range n {
		p.mark(ir.MarkIteration, int64(i), "")
		p.iteration(i)
	}
	p.mark(ir.MarkIteration, -1, "")
	return p.trace()
}

func TestTemplateOfEqualIterations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram(rapid.IntRange(1, 8).Draw(t, "layers"))
		n := rapid.IntRange(2, 5).Draw(t, "iterations")
		tr := p.run(n)
		s, err := FindSteps(tr)
		if err != nil {
			t.Fatal(err)
		}
		tm, err := BuildTemplate(tr, s, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		checkTemplate(t, tr, tm)
		if len(tm.Entries) != p.requests() || static(tm) != p.requests() || tm.FirstStep != 1 || tm.LastStep != n {
			t.Fatalf("%d entries, %d static, iterations %d:%d", len(tm.Entries), static(tm), tm.FirstStep, tm.LastStep)
		}
	})
}

func TestTemplateMissingExpertIsOneRun(t *testing.T) {
	p := newProgram(10)
	p.extra = map[int]int{1: 4, 3: 4} // iteration 2 has no tokens for it
	tr := p.run(4)
	_, tm := build(t, tr, -1, -1)
	checkTemplate(t, tr, tm)
	if len(tm.Entries) != p.requests()+expertRun || static(tm) != p.requests() {
		t.Fatalf("%d entries, %d static; want %d and %d", len(tm.Entries), static(tm), p.requests()+expertRun, p.requests())
	}
	first := slices.IndexFunc(tm.Entries, func(e TemplateEntry) bool { return e.Optional })
	for i := range tm.Entries {
		if want := i >= first && i < first+expertRun; tm.Entries[i].Optional != want {
			t.Errorf("entry %d: optional %v, want %v", i, tm.Entries[i].Optional, want)
		}
	}
	if first != 5*2 { // two requests a layer precede it in each of the layers 0 to 4
		t.Errorf("the run is at %d", first)
	}
}

// X is made at 80 % of an iteration and freed at 20 % of the next.
func TestTemplateCarried(t *testing.T) {
	for _, c := range []struct {
		name       string
		from, to   int // percent; to over 100: in the next iteration
		iterations int
		pick       [2]int
		kind       ir.Kind
	}{
		{"over the seam", 80, 120, 4, [2]int{-1, -1}, ir.Carried},
		{"over the seam, one window", 80, 120, 4, [2]int{2, 3}, ir.Carried},
		{"over the seam, last window only shown by itself", 80, 120, 2, [2]int{-1, -1}, ir.Carried},
		{"two alive at the seam", 20, 240, 6, [2]int{-1, -1}, ir.Dynamic},
		{"freed just before it is made again", 50, 150, 5, [2]int{-1, -1}, ir.Carried},
		{"freed just after it is made again", 50, 152, 5, [2]int{-1, -1}, ir.Dynamic},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(20)
			n := p.requests()
			type due struct{ it, at, r int }
			var pending []due
			made := map[int]int{}
			p.between = func(it, at int) {
				for len(pending) > 0 && (pending[0].it < it || pending[0].it == it && pending[0].at <= at) {
					p.free(pending[0].r)
					pending = pending[1:]
				}
				if _, ok := made[it]; !ok && at == n*c.from/100 {
					made[it] = p.alloc(123 << 20)
					pending = append(pending, due{it + c.to/100, n * (c.to % 100) / 100, made[it]})
				}
			}
			tr := p.run(c.iterations)
			mustCheck(t, tr)
			_, tm := build(t, tr, c.pick[0], c.pick[1])
			checkTemplate(t, tr, tm)
			x := slices.IndexFunc(tm.Entries, func(e TemplateEntry) bool { return e.MaxSize == 123<<20 })
			e := tm.Entries[x]
			wantLife := n*(c.to-c.from)/100 + c.to/100
			if e.Kind != c.kind || int(e.Life) < wantLife-1 || int(e.Life) > wantLife+1 {
				t.Errorf("entry %d of %d: %+v, want %v with a life of %d", x, len(tm.Entries), e, c.kind, wantLife)
			}
		})
	}
}

// A tensor that no iteration frees is not static, and does not look freed because the
// process ends.
func TestTemplateLeak(t *testing.T) {
	p := newProgram(10)
	var kept []int
	p.between = func(it, at int) {
		if at == 7 && len(kept) == it {
			kept = append(kept, p.alloc(99<<20))
		}
	}
	p.run(5)
	for _, r := range kept {
		p.free(r)
	}
	_, tm := build(t, p.trace(), -1, -1)
	x := slices.IndexFunc(tm.Entries, func(e TemplateEntry) bool { return e.MaxSize == 99<<20 })
	if e := tm.Entries[x]; e.Kind != ir.Dynamic || e.Life != ir.MaxLife {
		t.Errorf("%+v", e)
	}
}

// What an early window keeps for ever is not static, however the later ones behave.
func TestTemplateKeptOnce(t *testing.T) {
	p := newProgram(10)
	var best, last int
	p.between = func(it, at int) {
		if at == 7 && p.made == 7 {
			last = p.alloc(99 << 20)
			if it == 1 {
				best = last
			}
		}
		if at == 12 && last != best {
			p.free(last)
			last = best
		}
	}
	_, tm := build(t, p.run(5), 1, 5)
	x := slices.IndexFunc(tm.Entries, func(e TemplateEntry) bool { return e.MaxSize == 99<<20 })
	if e := tm.Entries[x]; e.Optional || e.Kind != ir.Dynamic || e.Life != ir.MaxLife {
		t.Errorf("%+v", e)
	}
}

// With a single window, what the process frees on its way out has no death in the program.
func TestTemplateGoingAway(t *testing.T) {
	p := newProgram(10)
	kept := 0
	p.between = func(it, at int) {
		if it == 1 && at == 7 && kept == 0 {
			kept = p.alloc(99 << 20)
		}
	}
	p.run(2)
	p.free(kept)
	_, tm := build(t, p.trace(), 1, 2)
	x := slices.IndexFunc(tm.Entries, func(e TemplateEntry) bool { return e.MaxSize == 99<<20 })
	if e := tm.Entries[x]; e.Life != ir.MaxLife || e.Kind != ir.Dynamic {
		t.Errorf("%+v", e)
	}
}

// Two iterations of equal length that are shifted against each other do not pair by position.
func TestTemplateEqualLengthIsNotEnough(t *testing.T) {
	p := newProgram(12)
	p.extra = map[int]int{1: 2, 2: 9}
	tr := p.run(3)
	_, tm := build(t, tr, -1, -1)
	checkTemplate(t, tr, tm)
	if len(tm.Entries) != p.requests()+2*expertRun || static(tm) != p.requests() {
		t.Errorf("%d entries, %d static; want %d and %d", len(tm.Entries), static(tm), p.requests()+2*expertRun, p.requests())
	}
}

func TestTemplateStreamsNeverMeet(t *testing.T) {
	p := newTape()
	for i := range 3 {
		p.mark(ir.MarkIteration, int64(i), "")
		for k := range 30 {
			stream := ir.StreamID(0)
			if k == 10 && i == 2 {
				stream = 1
			}
			p.free(p.allocOn(stream, ir.Bytes(1000*(k+1))))
		}
	}
	p.mark(ir.MarkIteration, -1, "")
	tr := p.trace()
	_, tm := build(t, tr, 0, 3)
	checkTemplate(t, tr, tm)
	if len(tm.Entries) != 31 || !tm.Entries[10].Optional || !tm.Entries[11].Optional {
		t.Errorf("%d entries: %+v", len(tm.Entries), tm.Entries[9:12])
	}
}

func TestTemplatePhases(t *testing.T) {
	p := newTape()
	for i := range 3 {
		p.mark(ir.MarkIteration, int64(i), "")
		p.mark(ir.MarkPhase, 0, "F")
		a := p.alloc(5000)
		p.free(p.alloc(6000))
		if i == 1 {
			p.mark(ir.MarkPhase, 0, "F") // an extra micro-batch
			p.free(p.alloc(7000))
		}
		p.mark(ir.MarkPhase, 0, "B")
		p.free(p.alloc(8000))
		p.free(a)
	}
	p.mark(ir.MarkIteration, -1, "")
	tr := p.trace()
	_, tm := build(t, tr, 0, 3)
	checkTemplate(t, tr, tm)
	want := []ir.Kind{ir.Scoped, ir.Transient, ir.Dynamic, ir.Transient}
	for i, e := range tm.Entries {
		if e.Kind != want[i] || e.Optional != (i == 2) {
			t.Errorf("entry %d: %+v, want %v", i, e, want[i])
		}
	}
}

// A mark right before the next iteration's says that something has ended, not that the next iteration is something else.
func TestTemplatePhaseEndsAtTheBorder(t *testing.T) {
	p := newTape()
	for i := range 4 {
		p.mark(ir.MarkIteration, int64(i), "")
		a := p.alloc(5000)
		p.free(p.alloc(6000))
		p.free(a)
		if i == 1 {
			p.mark(ir.MarkPhase, 0, "evaluation")
			p.free(p.alloc(7000))
			p.mark(ir.MarkPhase, 0, "evaluation end")
		}
	}
	p.mark(ir.MarkIteration, -1, "")
	tr := p.trace()
	_, tm := build(t, tr, 0, 4)
	checkTemplate(t, tr, tm)
	if len(tm.Entries) != 3 || static(tm) != 2 || !tm.Entries[2].Optional {
		t.Errorf("%d entries, %d static: %+v", len(tm.Entries), static(tm), tm.Entries)
	}
}

func TestTemplateChoice(t *testing.T) {
	warm := newProgram(10)
	warm.extra = map[int]int{0: 1, 1: 1}
	warm.between = func(it, at int) {
		if it < 2 && at%2 == 0 { // warming up: much more than later
			for range 3 {
				warm.free(warm.alloc(1 << 12))
			}
		}
	}
	_, tm := build(t, warm.run(8), -1, -1)
	if tm.FirstStep != 2 || tm.LastStep != 8 || len(tm.Notes) != 1 {
		t.Errorf("warm-up: iterations %d:%d, notes %q", tm.FirstStep, tm.LastStep, tm.Notes)
	}
	eval := newProgram(10) // iteration 2 evaluates: that is no warming up
	eval.between = func(it, at int) {
		if it == 2 && at == 49 {
			for range 20 {
				eval.free(eval.alloc(1 << 12))
			}
		}
	}
	_, tm = build(t, eval.run(8), -1, -1)
	if tm.FirstStep != 1 || tm.LastStep != 8 || len(tm.Notes) != 1 || len(tm.Entries) != eval.requests()+20 {
		t.Errorf("evaluation: iterations %d:%d, %d entries, notes %q", tm.FirstStep, tm.LastStep, len(tm.Entries), tm.Notes)
	}
	_, tm = build(t, newProgram(10).run(2), -1, -1)
	if tm.FirstStep != 1 || tm.LastStep != 2 || len(tm.Notes) != 1 || !strings.Contains(tm.Notes[0], "looks static") {
		t.Errorf("two iterations: %d:%d, notes %q", tm.FirstStep, tm.LastStep, tm.Notes)
	}
	tr := newProgram(3).run(3)
	s, _ := FindSteps(tr)
	for _, r := range [][2]int{{-1, 2}, {1, 1}, {2, 1}, {0, 4}} {
		if _, err := BuildTemplate(tr, s, r[0], r[1]); err == nil {
			t.Errorf("iterations %d:%d of 3 are accepted", r[0], r[1])
		}
	}
	if _, err := BuildTemplate(tr, &Steps{Source: SourceOnePass}, -1, -1); err == nil {
		t.Error("a template without iterations")
	}
}

// The routing of a mixture of experts decides how many requests there are. The shares are
// those of the prototype that the alignment was chosen with.
func TestTemplateOfMoE(t *testing.T) {
	tr := load(t, "torchcpu/moe_qwen2.txt.gz")
	for _, c := range []struct {
		name string
		tr   *ir.Trace
	}{{"marks", tr}, {"phases hidden", without(tr, func(m ir.Mark) bool { return m.Kind == ir.MarkPhase })}} {
		s, tm := build(t, c.tr, 1, 4)
		checkTemplate(t, c.tr, tm)
		share := unseenStatic(c.tr, s, tm)
		t.Logf("%s: %d entries, %d static, %.3f of the unseen requests static", c.name, len(tm.Entries), static(tm), share)
		if len(tm.Entries) > 5_700 || share < 0.575 {
			t.Errorf("%s: %d entries, %.3f of the unseen requests static; want about 5,600 and 0.595", c.name, len(tm.Entries), share)
		}
	}
}

// unseenStatic aligns the iterations after the template's with it and returns the share of
// their requests that meet a static entry of their size.
func unseenStatic(tr *ir.Trace, s *Steps, tm *Template) float64 {
	q := newSequence(tr)
	cols := make([]unit, len(tm.Entries))
	for w := range tm.Member {
		for k, r := range tm.Member[w] {
			if r != NoRequest {
				u := unitOf(q.tok[q.at(tr.Requests[r].Alloc)])
				cols[k].size, cols[k].stream = u.size, u.stream
				cols[k].lives |= u.lives
				cols[k].nfs |= u.nfs
			}
		}
	}
	met, all := 0, 0
	for i := tm.LastStep; i < s.N(); i++ {
		from, to := q.at(s.Cuts[i]), q.at(s.Cuts[i+1])
		b := make([]unit, to-from)
		for j := range b {
			b[j] = unitOf(q.tok[from+j])
		}
		for j, k := range align(cols, b) {
			if k >= 0 && tm.Entries[k].Kind != ir.Dynamic && tm.Entries[k].MaxSize == b[j].size {
				met++
			}
		}
		all += len(b)
	}
	return float64(met) / float64(all)
}

// Every log of the shared data: members are a bijection, lives are right.
func TestTemplateOfLogs(t *testing.T) {
	for _, log := range markedLogs {
		if testing.Short() && strings.HasPrefix(log.name, "megatron") {
			continue
		}
		t.Run(log.name, func(t *testing.T) {
			tr := load(t, log.name+".txt.gz")
			s, tm := build(t, tr, -1, -1)
			if tm.FirstStep != 1 || tm.LastStep != s.N() {
				t.Errorf("iterations %d:%d of %d", tm.FirstStep, tm.LastStep, s.N())
			}
			members := 0
			for w := range tm.Member {
				last := uint32(0)
				for _, r := range tm.Member[w] {
					if r == NoRequest {
						continue
					}
					if members > 0 && r <= last {
						t.Fatalf("window %d: request %d after %d", w, r, last)
					}
					last = r
					members++
				}
			}
			q := newSequence(tr)
			if want := q.at(s.Cuts[s.N()]) - q.at(s.Cuts[1]); members != want {
				t.Errorf("%d members of %d requests", members, want)
			}
		})
	}
}

func BenchmarkFindSteps(b *testing.B) {
	for _, name := range []string{"torchcpu/moe_qwen2.txt.gz", "megatron/qwenmoe-R-tp4-pp2-s0.txt.gz"} {
		tr := load(b, name)
		for _, c := range []struct {
			how string
			tr  *ir.Trace
		}{{"marks", tr}, {"inferred", unmarked(tr)}} {
			b.Run(name+"/"+c.how, func(b *testing.B) {
				for b.Loop() {
					if _, err := FindSteps(c.tr); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(tr.Requests)), "ns/request")
			})
		}
	}
}

func BenchmarkTemplate(b *testing.B) {
	for _, name := range []string{"torchcpu/gpt2_dense.txt.gz", "torchcpu/moe_qwen2.txt.gz", "megatron/qwenmoe-R-tp4-pp2-s0.txt.gz", "frameworks/hf-llama7b-lora-ckpt-ragged.pickle.gz"} {
		tr := load(b, name)
		s, err := FindSteps(tr)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			var tm *Template
			for b.Loop() {
				if tm, err = BuildTemplate(tr, s, -1, -1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(tm.Entries)*len(tm.Windows)), "ns/request")
			b.ReportMetric(float64(static(tm))/float64(len(tm.Entries)), "static/entry")
		})
	}
}

// A million requests: 25 iterations of 40,000, unmarked, an expert missing here and there.
func BenchmarkMillion(b *testing.B) {
	p := newProgram(8_000)
	p.extra = map[int]int{3: 100, 9: 5_000, 17: 4_000}
	tr := unmarked(p.run(25))
	b.ReportAllocs()
	for b.Loop() {
		s, err := FindSteps(tr)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := BuildTemplate(tr, s, -1, -1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(tr.Requests)), "ns/request")
}
