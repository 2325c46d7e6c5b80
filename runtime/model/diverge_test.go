package model_test

import (
	"reflect"
	"strings"
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"
)

func diverge(t *testing.T, s *model.Script, text string, seed uint64) *model.Script {
	t.Helper()
	spec, err := model.ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.Diverge(s, spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(); err != nil {
		t.Fatalf("%s, seed %d: %v", text, seed, err)
	}
	return d
}

// count is the number of operations of each kind.
func count(s *model.Script) (n map[model.OpKind]int) {
	n = make(map[model.OpKind]int)
	for _, op := range s.Ops {
		n[op.Kind]++
	}
	return n
}

// However it diverges, a script stays one, and the same seed gives the same.
func TestDivergeWellFormed(t *testing.T) {
	const all = "late=20%,extra=10%,missing=10%,swap=10%,resize=10%,restart=1/iter"
	for seed := range plantest.Seeds(300) {
		src := plantest.Seeded(seed)
		s := plantest.New(src, plantest.Config{Entries: 80, Streams: 2}).Script(src, 4, true)
		d := diverge(t, s, all, seed)
		if again := diverge(t, s, all, seed); !reflect.DeepEqual(d, again) {
			t.Fatalf("seed %d: two results", seed)
		}
		if len(d.Starts) != len(s.Starts) {
			t.Fatalf("seed %d: %d iterations of %d", seed, len(d.Starts), len(s.Starts))
		}
		if err := s.Check(); err != nil {
			t.Fatalf("seed %d: the script itself was changed: %v", seed, err)
		}
	}
}

func TestDivergeNothing(t *testing.T) {
	_, s := ringPlan(20, 3)
	if d := diverge(t, s, "", 1); !reflect.DeepEqual(d.Ops, s.Ops) || !reflect.DeepEqual(d.Starts, s.Starts) || d.IDs != s.IDs {
		t.Error("no divergence is not the same script")
	}
}

// A number for each iteration is exactly that number.
func TestDivergeCounts(t *testing.T) {
	_, s := ringPlan(40, 5)
	base := count(s)
	for seed := range plantest.Seeds(50) {
		if d := count(diverge(t, s, "extra=3/iter", seed)); d[model.OpAlloc] != base[model.OpAlloc]+15 || d[model.OpFree] != base[model.OpFree]+15 {
			t.Fatalf("seed %d: extra: %v", seed, d)
		}
		if d := count(diverge(t, s, "missing=2/iter", seed)); d[model.OpAlloc] != base[model.OpAlloc]-10 {
			t.Fatalf("seed %d: missing: %v", seed, d)
		}
		resized := 0
		for i, op := range diverge(t, s, "resize=4/iter", seed).Ops {
			if old := s.Ops[i].Size; op.Size != old {
				resized++
				if op.Size != old-old/3 && op.Size != old+old/2 {
					t.Fatalf("seed %d: %d bytes became %d", seed, old, op.Size)
				}
			}
		}
		if resized != 20 {
			t.Fatalf("seed %d: %d resized, want 20", seed, resized)
		}
		swapped := 0
		for i, op := range diverge(t, s, "swap=1/iter", seed).Ops {
			if op != s.Ops[i] {
				swapped++
			}
		}
		if swapped != 10 {
			t.Fatalf("seed %d: %d operations changed by 5 swaps, want 10", seed, swapped)
		}
	}
}

// Late frees come 1–200 events later; a share of all is about that share.
func TestDivergeLate(t *testing.T) {
	_, s := ringPlan(50, 100)
	when := func(s *model.Script) map[uint32]int {
		at := make(map[uint32]int)
		for i, op := range s.Ops {
			if op.Kind == model.OpFree {
				at[op.ID] = i
			}
		}
		return at
	}
	before := when(s)
	late := 0
	for id, at := range when(diverge(t, s, "late=10%", 3)) {
		switch d := at - before[id]; {
		case d > 240: // 200 events, and other late frees let in between
			t.Errorf("free of %d is %d events late", id, d)
		case d > 30:
			late++ // others only shift by the late ones ahead of them
		}
	}
	if n := len(before); late < n*5/100 || late > n*10/100 {
		t.Errorf("%d of %d frees are more than 30 events late, about 8.5 %% should be", late, n)
	}
}

// At a restart all that the iteration holds is freed, and it is issued again from its beginning.
func TestDivergeRestart(t *testing.T) {
	s := &model.Script{IDs: 4, Starts: []int{1}, Ops: []model.Op{
		model.AllocOp(0, 100, 0), // before the first iteration
		model.IterationOp(0), model.AllocOp(1, 101, 0), model.FreeOp(0), model.AllocOp(2, 102, 0), model.FreeOp(1), model.SnapshotOp(),
		model.AllocOp(3, 103, 0), model.FreeOp(2), model.FreeOp(3),
	}}
	seen := false
	for seed := range uint64(20) {
		d := diverge(t, s, "restart=1/iter", seed)
		if d.IDs != 6 {
			continue
		}
		seen = true // at request 3: 1 and 2 are issued again as 4 and 5
		want := []model.Op{
			model.AllocOp(0, 100, 0),
			model.IterationOp(0), model.AllocOp(1, 101, 0), model.FreeOp(0), model.AllocOp(2, 102, 0), model.FreeOp(1), model.SnapshotOp(),
			model.FreeOp(2),
			model.IterationOp(0), model.AllocOp(4, 101, 0), model.AllocOp(5, 102, 0), model.FreeOp(4),
			model.AllocOp(3, 103, 0), model.FreeOp(5), model.FreeOp(3),
		}
		if !reflect.DeepEqual(d.Ops, want) {
			t.Fatalf("got  %v\nwant %v", d.Ops, want)
		}
	}
	if !seen {
		t.Error("no seed restarts at the last request")
	}
}

func TestDivergeTooLong(t *testing.T) {
	_, s := ringPlan(20000, 1)
	spec, err := model.ParseSpec("restart=100%")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Diverge(s, spec, 1); err == nil || !strings.Contains(err.Error(), "restart=100%") {
		t.Errorf("error %v, want one that names the rate", err)
	}
}

func TestParseSpec(t *testing.T) {
	spec, err := model.ParseSpec(" late=5% , extra=1/iter,restart=0.5%")
	if err != nil {
		t.Fatal(err)
	}
	want := model.Spec{Late: model.Rate{Percent: 5}, Extra: model.Rate{PerIteration: 1}, Restart: model.Rate{Percent: 0.5}}
	if spec != want {
		t.Errorf("%+v, want %+v", spec, want)
	}
	if got := spec.String(); got != "late=5%,extra=1/iter,restart=0.5%" {
		t.Errorf("printed as %q", got)
	}
	for text, part := range map[string]string{
		"late":              "KEY=RATE",
		"late=":             "neither",
		"late=5":            "neither a percentage",
		"late=5%,late=6%":   "twice",
		"lait=5%":           "late, extra, missing, swap, resize, restart",
		"late=101%":         "0 to 100",
		"late=-1%":          "0 to 100",
		"late=NaN%":         "0 to 100",
		"late=x/iter":       "whole number",
		"late=9999999/iter": "whole number",
		",":                 "KEY=RATE",
	} {
		if _, err := model.ParseSpec(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: error %v, want one with %q", text, err, part)
		}
	}
}
