package compiler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
)

// Logs of the shared data with their iterations, as its README lists them.
var markedLogs = []struct {
	name       string
	iterations int
}{
	{"torchcpu/bert_short_last_batch", 12},
	{"torchcpu/gpt2_dense", 6},
	{"torchcpu/gpt2_micro_batches_change", 9},
	{"torchcpu/layerwise_optimizer", 6},
	{"torchcpu/llama_accum", 5},
	{"torchcpu/llama_checkpoint", 5},
	{"torchcpu/llama_eval_in_loop", 9},
	{"torchcpu/llama_varlen", 12},
	{"torchcpu/lora_gpt2", 6},
	{"torchcpu/moe_mixtral_grouped", 8},
	{"torchcpu/moe_qwen2", 8},
	{"torchcpu/ppo_generate_then_train", 5},
	{"torchcpu/resnet_bn", 6},
	{"torchcpu/resume_from_checkpoint", 6},
	{"megatron/gpt2-N-tp4-pp2-s0", 3},
	{"megatron/gpt2-R-tp4-pp2-s0", 3},
	{"megatron/gpt2-R-tp4-pp2-s1", 3},
	{"megatron/gpt2-V-tp4-pp2-s0", 3},
	{"megatron/gpt2-V-tp4-pp2-s1", 3},
	{"megatron/gpt2-VR-tp4-pp2-s0", 3},
	{"megatron/gpt2-ZR-tp2-pp2-s0", 3},
	{"megatron/llama70b-R-tp8-pp8-s3", 3},
	{"megatron/llama70b-VR-tp8-pp4-s0", 3},
	{"megatron/llama7b-N-tp4-pp2-s0", 3},
	{"megatron/llama7b-R-tp4-pp2-s0", 3},
	{"megatron/llama7b-R-tp4-pp2-s1", 3},
	{"megatron/llama7b-V-tp4-pp2-s0", 3},
	{"megatron/llama7b-VR-tp4-pp2-s0", 3},
	{"megatron/llama7b-ZR-tp2-pp2-s1", 3},
	{"megatron/qwenmoe-N-tp4-pp2-s0", 3},
	{"megatron/qwenmoe-R-tp4-pp2-s0", 3},
	{"megatron/qwenmoe-V-tp4-pp2-s0", 3},
	{"megatron/qwenmoe-ZR-tp2-pp2-s0", 3},
}

// irregular says what a log whose steps are not all alike gives with its marks hidden: how
// many iterations the period has; 0 is a refusal.
var irregular = map[string]int{
	"torchcpu/llama_eval_in_loop":        3, // evaluation after every third
	"torchcpu/gpt2_micro_batches_change": 0,
}

func TestStepsOfLogs(t *testing.T) {
	for _, log := range markedLogs {
		t.Run(log.name, func(t *testing.T) {
			tr := load(t, log.name+".txt.gz")
			marked, err := FindSteps(tr)
			if err != nil {
				t.Fatal(err)
			}
			if marked.N() != log.iterations || marked.First != 0 || marked.Source != SourceMarks || !marked.Cold {
				t.Errorf("marked: %d iterations from %d by %s, cold %v", marked.N(), marked.First, marked.Source, marked.Cold)
			}
			each, odd := irregular[log.name]
			if !odd {
				each = 1
			}
			hidden, err := FindSteps(unmarked(tr))
			var refused *StepsError
			if each == 0 {
				if !errors.As(err, &refused) {
					t.Fatalf("hidden: want a refusal, got %v, %v", hidden, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if hidden.Source != SourceInferred || hidden.N() < 2 || len(hidden.Anchors) < 3 {
				t.Fatalf("hidden: %+v", hidden)
			}
			// A window of the right period crosses as many borders as it is long. The first
			// may reach back into the initialisation.
			for i := 1; i < hidden.N(); i++ {
				from, to := hidden.Cuts[i], hidden.Cuts[i+1]
				n := 0
				for _, c := range marked.Cuts {
					if from < c && c <= to {
						n++
					}
				}
				// The last border is the end of the log: the cut there is just before the
				// process lets go of everything.
				if end := marked.Cuts[marked.N()]; to < end && newSequence(tr).at(to) == newSequence(tr).at(end) {
					n++
				}
				if n != each {
					t.Errorf("hidden: window %d [%d, %d) holds %d iterations, want %d", i, from, to, n, each)
				}
			}
		})
	}
}

// The frameworks' snapshots are labelled "iter N" by the recorder; without the labels there
// are the spans of Optimizer.step, without those only the requests.
func TestStepsOfFrameworks(t *testing.T) {
	var all map[string][]struct{ Requests int }
	text, err := os.ReadFile("../../shared/data/frameworks/marks.json")
	if err != nil {
		t.Skipf("shared data not here: %v", err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		want := all[name]
		t.Run(name, func(t *testing.T) {
			if testing.Short() && len(want) < 4 {
				t.Skip("large; not in short mode")
			}
			tr := load(t, "frameworks/"+name+".pickle.gz")
			seq := newSequence(tr)
			check := func(s *Steps, err error, source string, skip, slack int) {
				t.Helper()
				if err != nil {
					t.Error(err)
					return
				}
				if s.Source != source || s.N() != len(want)-skip || s.First != int64(skip) {
					t.Errorf("%d iterations from %d by %s, want %d from %d by %s: cuts %d", s.N(), s.First, s.Source, len(want)-skip, skip, source, s.Cuts)
					return
				}
				for i := range s.N() {
					got := seq.at(s.Cuts[i+1]) - seq.at(s.Cuts[i])
					if d := got - want[i+skip].Requests; d < -slack || d > slack {
						t.Errorf("%s: iteration %d has %d requests, want about %d", source, i+skip, got, want[i+skip].Requests)
					}
				}
			}
			s, err := FindSteps(tr)
			check(s, err, "labels: iter N", 0, 45) // up to 40 are made between the iterations
			nolabel := without(tr, func(m ir.Mark) bool { _, _, ok := parseLabel(tr.Name(m.Name)); return ok })
			s, err = FindSteps(nolabel)
			check(s, err, SourceOptim, 1, 45)
			s, err = FindSteps(unmarked(tr))
			if err != nil {
				t.Fatal(err)
			}
			if s.Source != SourceInferred || s.N() < 2 {
				t.Fatalf("hidden: %d iterations by %s", s.N(), s.Source)
			}
			// The windows that a template is made from; they need not start where a label does.
			for back := 1; back <= 2; back++ {
				i := s.N() - back
				got := seq.at(s.Cuts[i+1]) - seq.at(s.Cuts[i])
				if d := got - want[len(want)-back].Requests; d < -330 || d > 330 {
					t.Errorf("hidden: window %d of %d has %d requests, want about %d", i, s.N(), got, want[len(want)-back].Requests)
				}
			}
		})
	}
}

func TestStepsOfSnapshots(t *testing.T) {
	for _, c := range []struct {
		name, source string // source "" is a refusal
		n            int
	}{
		{"snapshots/gpt_small_ctx200_3steps.pickle", SourceOptim, 2},
		{"snapshots/gpt_small_ctx200_amp_3steps.pickle", SourceOptim, 2},
		{"snapshots/gpt_medium_ctx1024_late_recording.pickle", "", 0},
		{"snapshots/gpt_medium_ctx128_late_recording.pickle", "", 0},
		{"snapshots/gpt_large_ctx128_ring_wrapped.pickle", "", 0},
		{"snapshots/tiny_36_allocs.pickle", SourceOnePass, 0},
		{"kineto/five_marked_steps.json.gz", SourceProfiler, 5},
		{"oplog/alexnet_train.log", SourceOnePass, 0},
		{"phantom/gpt2m_frames.pickle.gz", SourceOptim, 1},
		{"phantom/llama24_ckpt.pickle.gz", SourceOptim, 4},
		{"phantom/llama7b_fsdp8_nccl.pickle.gz", SourceOptim, 3},
		{"phantom/mixtral4.pickle.gz", SourceOptim, 4},
		{"phantom/moe_values.pickle.gz", SourceOptim, 4},
		{"phantom/resnet50.pickle.gz", SourceOptim, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := FindSteps(load(t, c.name))
			if c.source == "" {
				var refused *StepsError
				if !errors.As(err, &refused) || refused.Reason == "" || refused.Hint == "" {
					t.Fatalf("want a refusal, got %+v, %v", s, err)
				}
				return
			}
			if err != nil || s.Source != c.source || s.N() != c.n {
				t.Fatalf("got %+v, %v; want %d by %s", s, err, c.n, c.source)
			}
		})
	}
}

// A snapshot of one step has layers that repeat; they are not iterations.
func TestStepsOneStepIsNoPeriod(t *testing.T) {
	for _, name := range []string{"gpt_one_step_two_gib", "gpt_ctx_one_step_13gib"} {
		tr := *load(t, "snapshots/"+name+".pickle")
		tr.Late, tr.Wrapped = false, false
		s, err := FindSteps(&tr)
		if err != nil || s.N() != 0 || s.Source != SourceOnePass || len(s.Notes) != 1 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// A late recording of one step whose optimizer loops over its parameters in place: the loop
// is most of the log and steady, and is still no iteration.
func TestStepsOptimizerLoopIsNoPeriod(t *testing.T) {
	p := newProgram(12)
	start := p.tick
	p.iteration(0)
	for range 40 {
		for k := range 25 {
			p.free(p.alloc(ir.Bytes(512 * (k + 1))))
		}
	}
	s, err := FindSteps(cut(p.trace(), start, p.tick))
	var refused *StepsError
	if !errors.As(err, &refused) {
		t.Fatalf("%+v, %v", s, err)
	}
}

// No request comes at regular distances, but the first of each burst does.
func TestStepsBursts(t *testing.T) {
	p := newTape()
	var kept []int
	for _, n := range []int{40, 43, 41, 46, 44, 47, 48} {
		for range n {
			p.free(p.alloc(5000))
		}
		for range n {
			kept = append(kept, p.alloc(90000))
			if len(kept) > 3 {
				p.free(kept[0])
				kept = kept[1:]
			}
		}
	}
	tr := p.trace()
	for _, occ := range occurrences(newSequence(tr)) {
		if regular(occ, len(tr.Requests)) != nil {
			t.Fatalf("requests %d are regular", occ)
		}
	}
	s, err := FindSteps(tr)
	if err != nil || s.Source != SourceInferred || s.N() < 5 {
		t.Fatalf("%+v, %v", s, err)
	}
	q := newSequence(tr)
	for i := 1; i < s.N(); i++ {
		if n := q.at(s.Cuts[i+1]) - q.at(s.Cuts[i]); n < 80 || n > 98 {
			t.Errorf("window %d has %d requests", i, n)
		}
	}
}

// A recording that starts in the middle of iteration 7 and stops in the middle of 10.
func TestStepsMiddleOfARun(t *testing.T) {
	for _, how := range []string{"marks", "labels", "spans", "label kept by the recorder", "optimizer", "nothing"} {
		t.Run(how, func(t *testing.T) {
			p := newProgram(12)
			var starts []ir.Tick
			for i := range 12 {
				starts = append(starts, p.tick)
				name := fmt.Sprintf("iter %d", i)
				switch how {
				case "marks":
					p.mark(ir.MarkIteration, int64(i), "")
				case "labels", "spans", "label kept by the recorder":
					p.mark(ir.MarkEnter, 0, name)
				}
				p.iteration(i)
				switch how {
				case "spans":
					p.mark(ir.MarkLeave, 0, name)
				case "optimizer":
					p.mark(ir.MarkEnter, 0, "Optimizer.step#AdamW.step")
					p.mark(ir.MarkLeave, 0, "Optimizer.step#AdamW.step")
				}
			}
			from, to := starts[7]+40, starts[10]+50
			tr := cut(p.trace(), from, to)
			if how == "label kept by the recorder" { // each event carries its label
				m := ir.Mark{Kind: ir.MarkEnter, Name: ir.NameID(slices.Index(tr.Names, "iter 7"))}
				tr.Marks = slices.Insert(tr.Marks, 0, m)
			}
			mustCheck(t, tr)
			s, err := FindSteps(tr)
			if err != nil {
				t.Fatal(err)
			}
			want := []ir.Tick{starts[8] - from, starts[9] - from, starts[10] - from}
			if how == "nothing" {
				if s.N() != 2 || s.Cuts[2]-s.Cuts[1] != want[2]-want[1] || s.Cuts[1]-s.Cuts[0] != want[1]-want[0] {
					t.Fatalf("cuts %d, want two windows of %d", s.Cuts, want[1]-want[0])
				}
			} else if !slices.Equal(s.Cuts, want) {
				t.Fatalf("cuts %d, want %d", s.Cuts, want)
			}
			if how != "nothing" && how != "optimizer" && s.First != 8 {
				t.Errorf("first iteration is %d, want 8", s.First)
			}
			if s.Cold || !strings.Contains(strings.Join(s.Notes, "\n"), "began late") {
				t.Errorf("cold %v, notes %q", s.Cold, s.Notes)
			}
		})
	}
}

// The last window is as long as the others, but ends with activations alive: the recording
// stopped before the iteration did.
func TestStepsLastWindowStillAlive(t *testing.T) {
	p := newProgram(20)
	for i := range 4 {
		p.mark(ir.MarkIteration, int64(i), "")
		p.iteration(i)
	}
	p.alloc(1 << 23)
	s, err := FindSteps(p.trace())
	if err != nil || s.N() != 3 {
		t.Errorf("%+v, %v; want three iterations", s, err)
	}
	p.free(len(p.t.Requests) - 1)
	if s, err = FindSteps(p.trace()); err != nil || s.N() != 4 {
		t.Errorf("%+v, %v; want four iterations", s, err)
	}
}

// Iterations without requests are none, also where they come to lie at an end because the one beyond was cut off.
func TestStepsEmptyBesideOneCutOff(t *testing.T) {
	p := newTape()
	p.t.Requests = append(p.t.Requests, ir.Request{Size: 4096, Alloc: ir.Before, FreeRequested: ir.Never, Free: ir.Never})
	p.mark(ir.MarkIteration, 0, "")
	a := p.alloc(1)
	p.mark(ir.MarkIteration, 1, "")
	p.free(a)
	p.mark(ir.MarkIteration, 2, "")
	p.alloc(1)
	tr := p.trace()
	tr.Wrapped = true
	mustCheck(t, tr)
	s, err := FindSteps(tr)
	if err == nil && s.N() > 0 {
		t.Errorf("iterations at %v, in which there is nothing", s.Cuts)
	}
	if _, err := Compile(context.Background(), tr, Options{}); err == nil || !strings.Contains(err.Error(), "wrapped") {
		t.Errorf("compile: %v", err)
	}
}

// A program without marks: the period is found, and each window is one iteration.
func TestStepsInferredFromAProgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram(rapid.IntRange(5, 12).Draw(t, "layers"))
		n := rapid.IntRange(4, 8).Draw(t, "iterations")
		experts := rapid.Bool().Draw(t, "experts")
		for i := range n {
			if experts && rapid.Bool().Draw(t, "has tokens") {
				p.extra[i] = p.layers / 2
			}
		}
		tr := unmarked(p.run(n))
		s, err := FindSteps(tr)
		if err != nil {
			if experts {
				return // too irregular to be certain is an answer
			}
			t.Fatal(err)
		}
		if !experts && (s.Source != SourceInferred || s.N() < n-2) {
			t.Fatalf("%d iterations by %s, want at least %d", s.N(), s.Source, n-2)
		}
		q := newSequence(tr)
		for i := range s.N() {
			if got := q.at(s.Cuts[i+1]) - q.at(s.Cuts[i]); !experts && got != p.requests() {
				t.Fatalf("window %d has %d requests, want %d", i, got, p.requests())
			}
		}
		if s.N() > 0 {
			tm, err := BuildTemplate(tr, s, -1, -1)
			if err != nil {
				t.Fatal(err)
			}
			checkTemplate(t, tr, tm)
			if !experts && static(tm) != p.requests() {
				t.Fatalf("%d of %d entries are static", static(tm), len(tm.Entries))
			}
		}
	})
}

func TestFindStepsNeverPanics(t *testing.T) { rapid.Check(t, stepsHold) }

func FuzzFindSteps(f *testing.F) { f.Fuzz(rapid.MakeFuzz(stepsHold)) }

func stepsHold(t *rapid.T) {
	tr := randomTrace(t)
	s, err := FindSteps(tr)
	if err != nil {
		var refused *StepsError
		if !errors.As(err, &refused) {
			t.Fatalf("%T: %v", err, err)
		}
		return
	}
	if len(s.Cuts) == 1 || !slices.IsSorted(s.Cuts) {
		t.Fatalf("cuts %v", s.Cuts)
	}
	if s.N() > 0 {
		tm, err := BuildTemplate(tr, s, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		checkTemplate(t, tr, tm)
	}
}
