//go:build cgo

package stwrt_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"stweaver/compiler"
	"stweaver/internal/testkit"
	"stweaver/ir"
	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// planned is a trainer's plan, as a file and in the model's words.
type planned struct {
	file  []byte
	model *model.Plan
}

func planTrainer(t *testing.T, name string) planned {
	t.Helper()
	c, err := compiler.Compile(context.Background(), testkit.Trainers()[name].Profile(4).Trace(), compiler.Options{Effort: compiler.Fast})
	if err != nil {
		t.Fatal(err)
	}
	file, err := ir.EncodePlan(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	return planned{file, compiler.ModelPlan(c.Plan)}
}

func scenarioScript(t *testing.T, sc *testkit.Scenario, marks bool) *model.Script {
	t.Helper()
	p := sc.Play(testkit.Trainers()[sc.Trainer])
	s := plantest.Events(p.Events, p.Names, p.Streams, p.Steps, marks)
	if sc.Spec == "" {
		return s
	}
	spec, err := model.ParseSpec(sc.Spec)
	for _, k := range sc.Odd {
		if err == nil {
			s, err = plantest.DivergeStep(s, k, spec, uint64(k))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runSafely executes s in C with canaries, and fails t on an overlap, a fault or a request without memory.
func runSafely(t *testing.T, what string, file []byte, s *model.Script, o stwrt.Options, seed uint64) *stwrt.RunResult {
	t.Helper()
	a, err := stwrt.New(file, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, err := a.Run(s, stwrt.RunOptions{Canary: true, Seed: seed})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if n := a.Overlaps(s, r); n > 0 || r.CanaryFaults > 0 || r.Failed > 0 {
		t.Errorf("%s: %d overlaps, %d canary faults, %d requests failed", what, n, r.CanaryFaults, r.Failed)
	}
	return r
}

// Every scenario through the C core: each address and counter is the model's, with pages of 4 KiB and of
// 2 MiB in turn, and no pattern in a live block is ever overwritten.
func TestScenarios(t *testing.T) {
	plans := make(map[string]planned)
	for _, name := range testkit.TrainerNames {
		plans[name] = planTrainer(t, name)
	}
	for i, sc := range testkit.Scenarios() {
		if testing.Short() && i%4 != 0 {
			continue
		}
		for k, marks := range []bool{true, false} {
			p, s := plans[sc.Trainer], scenarioScript(t, &sc, marks)
			o := stwrt.Options{Granularity: []uint64{4096, 2 << 20}[(i+k)%2], HeapBytes: 16 << 30}
			w, err := newTwin(p.model, o)
			if err != nil {
				t.Fatal(err)
			}
			err = w.play(s, nil, 0)
			want := w.m.Stats()
			closeTwin(w)
			if err != nil {
				t.Fatalf("%s, %s, marks %v: %v", sc.Trainer, sc.Name, marks, err)
			}
			r := runSafely(t, sc.Trainer+", "+sc.Name, p.file, s, o, uint64(i))
			if r.Stats != want {
				t.Errorf("%s, %s, marks %v: from the file\nC     %+v\nmodel %+v", sc.Trainer, sc.Name, marks, r.Stats, want)
			}
		}
	}
}

// A plan that holds nothing is a plan like any other: it loads, and is the heap alone.
func TestScenariosNothingPlanned(t *testing.T) {
	list := testkit.Scenarios()
	sc := list[slices.IndexFunc(list, func(s testkit.Scenario) bool { return s.Name == "sequences vary" })]
	c, err := compiler.Compile(context.Background(), sc.Play(testkit.Trainers()[sc.Trainer]).Trace(), compiler.Options{Effort: compiler.Fast, Keep: "nothing"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Plan.Arena != 0 || len(c.Plan.Entries) == 0 {
		t.Fatalf("arena %d, %d entries", c.Plan.Arena, len(c.Plan.Entries))
	}
	file, err := ir.EncodePlan(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	s := scenarioScript(t, &sc, true)
	o := stwrt.Options{Granularity: 2 << 20, HeapBytes: 16 << 30}
	with, without := runSafely(t, "plan", file, s, o, 1), runSafely(t, "heap", nil, s, o, 1)
	if a, b := with.Stats.PeakReservedBytes, without.Stats.PeakReservedBytes; a != b {
		t.Errorf("peak reserved %d with the empty plan, %d without", a, b)
	}
}

// against runs s by plan p and by the heap alone, and fails t where the plan costs more than a part of what the larger of the heap's
// memory and the arena is. It returns what the plan reserves of what the heap alone does, and what lives at most.
func against(t *testing.T, what string, p planned, s *model.Script, part uint64) (share float64, live uint64) {
	t.Helper()
	o := stwrt.Options{Granularity: 2 << 20, HeapBytes: 64 << 30}
	with, without := runSafely(t, what, p.file, s, o, 1).Stats, runSafely(t, what, nil, s, o, 1).Stats
	if limit := max(without.PeakReservedBytes, p.model.Arena); with.PeakReservedBytes > limit+limit/part {
		t.Errorf("%s: peak reserved %d, the heap alone %d, the arena %d", what, with.PeakReservedBytes, without.PeakReservedBytes, p.model.Arena)
	}
	share = float64(with.PeakReservedBytes) / float64(without.PeakReservedBytes)
	t.Logf("%s: %.1f %% at the planned address, set aside %d times, %.3f of what the heap alone reserves, the arena %.3f", what,
		100*float64(with.Hits)/float64(with.Requests), with.SetAside, share, float64(p.model.Arena)/float64(without.PeakReservedBytes))
	return share, without.PeakLiveBytes
}

// The plan of one program under another: it costs memory, never data, and no more of it than the arena or the heap alone, and a 16th.
func TestScenariosOtherProgram(t *testing.T) {
	list := testkit.Scenarios()
	for _, of := range testkit.TrainerNames {
		p := planTrainer(t, of)
		for _, name := range testkit.TrainerNames {
			if name == of {
				continue
			}
			sc := list[slices.IndexFunc(list, func(s testkit.Scenario) bool { return s.Trainer == name && s.Name == "steady" })]
			for _, marks := range []bool{true, false} {
				against(t, fmt.Sprintf("%s by the plan of %s, marks %v", name, of, marks), p, scenarioScript(t, &sc, marks), 16)
			}
		}
	}
}

// tight runs s with a 32nd more memory than what lives at most, or the arena, and returns the requests that failed, and the bytes that were
// given back or moved.
func tight(t *testing.T, file []byte, s *model.Script, needed uint64) (failed, given uint64) {
	t.Helper()
	a, err := stwrt.New(file, stwrt.Options{Granularity: 2 << 20, HeapBytes: 64 << 30, Capacity: needed + needed/32})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, err := a.Run(s, stwrt.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Stats.Failed, r.Stats.ReturnedBytes + r.Stats.MovedBytes
}

// Sixty steps of which many depart from the plan, more than what may be moved is enough for: on average they reserve less than the heap
// alone, none an eighth more, and hardly a request fails where memory is short.
func TestScenariosLong(t *testing.T) {
	var sum, n float64
	var failed, given, heapFailed, heapGiven uint64
	for _, name := range testkit.TrainerNames {
		p, trainer := planTrainer(t, name), testkit.Trainers()[name]
		varied := func(q *testkit.Process, step int) {
			r := testkit.Rand(step)
			q.Train(testkit.Step{Seq: trainer.Seq/2 + 64*r.Below(trainer.Seq/64)})
		}
		for _, c := range []struct {
			what  string
			every int
			odd   func(q *testkit.Process, step int)
		}{
			{"an evaluation of longer sequences", 5, func(q *testkit.Process, _ int) { q.Evaluate(4, 4*trainer.Seq, 0) }},
			{"an evaluation of longer sequences", 2, func(q *testkit.Process, _ int) { q.Evaluate(4, 4*trainer.Seq, 0) }},
			{"a long evaluation", 2, func(q *testkit.Process, _ int) { q.Evaluate(40, 2*trainer.Seq, 0) }},
			{"longer sequences", 5, func(q *testkit.Process, _ int) { q.Train(testkit.Step{Seq: trainer.Seq * 3 / 2}) }},
			{"longer sequences", 1, func(q *testkit.Process, _ int) { q.Train(testkit.Step{Seq: trainer.Seq * 5 / 4}) }},
			{"lengths vary", 2, varied},
			{"lengths vary", 1, varied},
		} {
			program := testkit.Long(trainer, 60, c.every, c.odd)
			s := plantest.Events(program.Events, program.Names, program.Streams, program.Steps, false)
			share, live := against(t, fmt.Sprintf("%s, %s every %d", name, c.what, c.every), p, s, 8)
			sum += share
			n++
			needed := max(live, p.model.Arena)
			f, g := tight(t, p.file, s, needed)
			failed, given = failed+f, given+g
			f, g = tight(t, nil, s, needed)
			heapFailed, heapGiven = heapFailed+f, heapGiven+g
		}
	}
	t.Logf("on average %.3f; a 32nd above what is needed: %d requests failed, %d MiB given back or moved; the heap alone %d, %d", sum/n, failed, given>>20, heapFailed, heapGiven>>20)
	if sum > n || failed > 50 {
		t.Errorf("on average %.3f of what the heap alone reserves, %d failed", sum/n, failed)
	}
}

// Several threads, each with the program of its own, against one allocator: nothing is handed out twice.
func TestScenariosThreads(t *testing.T) {
	for _, name := range []string{"pipeline", "moe"} {
		p := planTrainer(t, name)
		list := testkit.Scenarios()
		sc := list[slices.IndexFunc(list, func(s testkit.Scenario) bool { return s.Trainer == name })]
		a, err := stwrt.New(p.file, stwrt.Options{Granularity: 2 << 20, HeapBytes: 64 << 30})
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Run(scenarioScript(t, &sc, true), stwrt.RunOptions{Canary: true, Seed: 3, Threads: 4})
		a.Close()
		if err != nil || r.CanaryFaults > 0 || r.Failed > 0 {
			t.Errorf("%s: %v, %d canary faults, %d failed", name, err, r.CanaryFaults, r.Failed)
		}
	}
}

// A million requests that diverge in every way, of all trainers: no overlap, no canary fault.
func TestScenariosMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("a million requests")
	}
	specs := []string{
		"late=5%,extra=2%,missing=2%,swap=2%,resize=2%",
		"late=30%", "missing=20%", "extra=20%", "swap=20%", "resize=30%",
		"restart=2/iter,late=1%", "late=1/iter,extra=1/iter,missing=1/iter,swap=1/iter,restart=1/iter",
	}
	var requests, hits, conflicts uint64
	plans := make(map[string]planned)
	for _, name := range testkit.TrainerNames {
		plans[name] = planTrainer(t, name)
	}
	list := testkit.Scenarios()
	for seed := uint64(0); requests < 1_000_000; seed++ {
		sc := list[int(seed)%len(list)]
		spec, err := model.ParseSpec(specs[(seed/uint64(len(list))+seed)%uint64(len(specs))])
		if err != nil {
			t.Fatal(err)
		}
		s, err := model.Diverge(scenarioScript(t, &sc, seed%2 == 0), spec, seed)
		if err != nil {
			t.Fatal(err)
		}
		page := []uint64{4096, 2 << 20}[seed/2%2]
		r := runSafely(t, sc.Trainer+", "+sc.Name+", "+spec.String(), plans[sc.Trainer].file, s, stwrt.Options{Granularity: page, HeapBytes: 64 << 30}, seed)
		requests += r.Stats.Requests
		hits += r.Stats.Hits
		conflicts += r.Stats.Conflicts
		if t.Failed() {
			return
		}
	}
	t.Logf("%d requests, %d hits, %d conflicts: no overlap, no canary fault", requests, hits, conflicts)
	if conflicts < 10_000 || hits < 100_000 {
		t.Errorf("%d hits and %d conflicts: the test shows too little", hits, conflicts)
	}
}
