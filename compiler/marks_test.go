package compiler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stweaver/ir"
)

func TestStepsLabels(t *testing.T) {
	enter := func(p *program, name string) { p.mark(ir.MarkEnter, 0, name) }
	leave := func(p *program, name string) { p.mark(ir.MarkLeave, 0, name) }
	for _, c := range []struct {
		name   string
		write  func(p *program) []ir.Tick // the cuts that are wanted
		first  int64
		source string
	}{
		{"spans with requests between them", func(p *program) (want []ir.Tick) {
			for i := range 4 {
				if i == 0 {
					want = append(want, p.tick)
				}
				enter(p, fmt.Sprint("Iteration #", i+3))
				p.iteration(i)
				leave(p, fmt.Sprint("Iteration #", i+3))
				want = append(want, p.tick)
				p.free(p.alloc(999)) // a logger
			}
			return want
		}, 3, "labels: iteration N"},
		{"micro-steps inside iterations", func(p *program) (want []ir.Tick) {
			for i := range 4 {
				want = append(want, p.tick)
				enter(p, fmt.Sprintf("iter_%d", i))
				for k := range 2 {
					enter(p, fmt.Sprintf("step %d", k))
					p.iteration(i)
				}
			}
			return append(want, p.tick)
		}, 0, "labels: iter N"},
		{"micro-steps alone do not count iterations", func(p *program) (want []ir.Tick) {
			for i := range 5 {
				for k := range 2 {
					enter(p, fmt.Sprintf("step %d", k))
					p.iteration(i)
				}
				enter(p, "Optimizer.step#SGD.step")
				enter(p, "Optimizer.step#SGD.step") // a wrapper's and its own
				leave(p, "Optimizer.step#SGD.step")
				p.free(p.alloc(7000))
				leave(p, "Optimizer.step#SGD.step")
				want = append(want, p.tick)
			}
			return want
		}, 1, SourceOptim},
		{"ProfilerStep", func(p *program) (want []ir.Tick) {
			for i := range 4 {
				want = append(want, p.tick)
				enter(p, fmt.Sprintf("ProfilerStep#%d", i+2))
				p.iteration(i)
				leave(p, fmt.Sprintf("ProfilerStep#%d", i+2))
			}
			return append(want, p.tick)
		}, 2, SourceProfiler},
		{"two optimizers", func(p *program) (want []ir.Tick) {
			for i := range 5 {
				p.iteration(i)
				for range 2 {
					enter(p, "Optimizer.step#SGD.step")
					p.free(p.alloc(7000))
					leave(p, "Optimizer.step#SGD.step")
				}
				want = append(want, p.tick)
			}
			return want
		}, 1, SourceOptim},
		{"spans that were never left, never entered, and entered twice", func(p *program) (want []ir.Tick) {
			for i := range 6 {
				p.iteration(i)
				if i != 1 {
					enter(p, "Optimizer.step#SGD.step")
				}
				enter(p, "layer")
				p.free(p.alloc(7000))
				if i != 2 { // an exception in the step
					leave(p, "Optimizer.step#SGD.step")
				}
				if i == 3 {
					enter(p, "layer")
				}
				leave(p, "another layer")
				if i != 2 {
					want = append(want, p.tick)
				}
			}
			return want
		}, 1, SourceOptim},
		{"two runs", func(p *program) (want []ir.Tick) {
			for _, n := range []int{2, 4} {
				want = nil
				for i := range n {
					want = append(want, p.tick)
					p.mark(ir.MarkIteration, int64(i), "")
					p.iteration(i)
				}
				want = append(want, p.tick)
				p.mark(ir.MarkIteration, -1, "")
				p.free(p.alloc(1 << 20))
			}
			return want
		}, 0, SourceMarks},
		{"iterations without requests at both ends", func(p *program) (want []ir.Tick) {
			p.mark(ir.MarkIteration, 4, "")
			for i := range 3 {
				want = append(want, p.tick)
				p.mark(ir.MarkIteration, int64(i+5), "")
				p.iteration(i)
			}
			want = append(want, p.tick)
			p.mark(ir.MarkIteration, 8, "")
			p.mark(ir.MarkIteration, -1, "")
			return want
		}, 5, SourceMarks},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(9)
			want := c.write(p)
			p.free(p.alloc(4096)) // after the end
			s, err := FindSteps(p.trace())
			if err != nil {
				t.Fatal(err)
			}
			// An end that is only the recording's may lie after the last event.
			got := slices.Clone(s.Cuts)
			if n := len(got); n > 0 && got[n-1] == p.tick && want[len(want)-1] == p.tick-2 {
				got[n-1] = want[len(want)-1]
			}
			if several := strings.Contains(strings.Join(s.Notes, "\n"), "runs of iterations"); several != (c.name == "two runs") {
				t.Errorf("notes %q", s.Notes)
			}
			if several := strings.Contains(strings.Join(s.Notes, "\n"), "optimizer steps"); several != (c.name == "two optimizers") {
				t.Errorf("notes %q", s.Notes)
			}
			if !slices.Equal(got, want) || s.First != c.first || s.Source != c.source {
				t.Errorf("cuts %d from %d by %s, want %d from %d by %s", s.Cuts, s.First, s.Source, want, c.first, c.source)
			}
		})
	}
}

func TestParseLabel(t *testing.T) {
	for name, want := range map[string]string{
		"iter 7": "iter 7", "Iter_07": "iter 7", "ITERATION: 12": "iteration 12", "step=3": "step 3", "ProfilerStep#2": "profilerstep 2",
		"step": "", "step ": "", "steps 3": "", "iter 3b": "", "my iter 3": "", "iter 99999999999999999999": "", "iteration--4": "iteration 4", "": "",
	} {
		got := ""
		if w, n, ok := parseLabel(name); ok {
			got = fmt.Sprintf("%s %d", labelWords[w], n)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
