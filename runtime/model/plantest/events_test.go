package plantest

import (
	"slices"
	"testing"

	"stweaver/ir"
	"stweaver/runtime/model"
)

// A step that diverges leaves the steps before it as they are; of those after it, all but the frees of what
// was never asked for. Its late frees come at its end at the latest.
func TestDivergeStep(t *testing.T) {
	var events []ir.Event
	var starts []int
	const n = 40 // requests of a step; each is freed in the next step
	for k := range uint32(5 * n) {
		if k%n == 0 {
			starts = append(starts, len(events))
			events = append(events, ir.Event{Kind: ir.EvMark, Mark: ir.MarkIteration, Value: int64(k / n)})
		}
		events = append(events, ir.Event{Kind: ir.EvAlloc, ID: k, Size: ir.Bytes(1000 + k), Entry: ir.NoEntry})
		if k >= n {
			events = append(events, ir.Event{Kind: ir.EvFree, ID: k - n})
		}
	}
	s := Events(events, []string{""}, []uint64{0}, starts, true)
	if s.IDs != 5*n || len(s.Starts) != 5 || s.Check() != nil {
		t.Fatalf("%d requests, %d steps: %v", s.IDs, len(s.Starts), s.Check())
	}
	if unmarked := Events(events, []string{""}, []uint64{0}, starts, false); len(unmarked.Ops) != len(s.Ops)-5 {
		t.Errorf("without marks %d operations of %d", len(unmarked.Ops), len(s.Ops))
	}
	spec, err := model.ParseSpec("late=3/iter,extra=4/iter,missing=2/iter,swap=1/iter")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(50) {
		d, err := DivergeStep(s, 2, spec, seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !slices.Equal(d.Ops[:d.Starts[2]], s.Ops[:s.Starts[2]]) {
			t.Errorf("seed %d: the steps before differ", seed)
		}
		if got, want := len(d.Ops)-d.Starts[4], len(s.Ops)-s.Starts[4]; got != want {
			t.Errorf("seed %d: the last step has %d operations, want %d", seed, got, want)
		}
		if got, want := d.Starts[4]-d.Starts[3], s.Starts[4]-s.Starts[3]-2; got != want {
			t.Errorf("seed %d: the step after has %d operations, want %d: two frees less", seed, got, want)
		}
	}
	if _, err := DivergeStep(s, 5, spec, 1); err == nil {
		t.Error("no error for a step that is not there")
	}
	if _, err := DivergeStep(s, 1, model.Spec{Restart: model.Rate{PerIteration: 1}}, 1); err == nil {
		t.Error("no error for a restart")
	}
}
