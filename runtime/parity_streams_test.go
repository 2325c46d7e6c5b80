//go:build cgo

package stwrt_test

import (
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// Long programs on several streams: waits for events that are long past, limbo that is left by waiting,
// a ring of events that has turned over.
func TestParityStreams(t *testing.T) {
	sum := make(reached)
	n := plantest.Seeds(*seeds / 40)
	for seed := range n {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 1500, Streams: 4, Guests: src(2) == 0, Shared: src(3) > 0})
		s, err := model.Diverge(c.Script(src, 3, src(2) == 0), model.Spec{Late: model.Rate{Percent: float64(src(10))},
			Extra: model.Rate{Percent: float64(src(3))}}, seed)
		if err != nil {
			t.Fatal(err)
		}
		o := stwrt.Options{Granularity: 4096, HeapBytes: 4 << 30,
			Events: model.EventOptions{On: true, Lag: uint64(src(40)), FailEvery: []uint64{0, 0, 9}[src(3)], Keep: true}}
		if src(2) == 0 {
			o.Capacity = c.Plan.Arena + uint64(src(1<<20))
		}
		w, err := newTwin(c.Plan, o)
		if err == nil && w != nil {
			w.marks = 2 + src(30)
			err = w.play(s, src, hostile(200*src(2)))
			sum.add(w.m.Stats())
		}
		closeTwin(w)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	const rare = "old waits" // about one in two cases has one
	for _, what := range []string{"event records", "young waits", rare, "event failures", "deferred", "guests", "conflicts", "failed"} {
		if sum[what] == 0 && (what != rare || n >= 20) {
			t.Errorf("no case has reached %q", what)
		}
	}
	t.Log(sum)
}

// A list run inside C does what the model does with it, marks at frees included.
func TestRunMarks(t *testing.T) {
	var marked uint64
	for seed := range plantest.Seeds(60) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 200, Streams: 3, Guests: true, Shared: src(2) == 0})
		s := c.Script(src, 3, false)
		for i := range s.Ops {
			if op := &s.Ops[i]; op.Kind == model.OpFree && src(4) == 0 {
				*op = model.MarkedFreeOp(op.ID, uint64(1+src(3)))
			}
		}
		o := stwrt.Options{Granularity: 4096, HeapBytes: 1 << 30, Events: model.EventOptions{On: true, Lag: 3}}
		m, err := model.New(c.Plan, model.Options(o))
		if err != nil {
			t.Fatal(err)
		}
		a, err := stwrt.New(plantest.Encode(c.Plan), o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Run(s, stwrt.RunOptions{Canary: seed%2 == 0})
		a.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want := m.Run(s).Stats; r.Stats != want {
			t.Errorf("seed %d:\nC     %+v\nmodel %+v", seed, r.Stats, want)
		}
		marked += r.Stats.Deferred + r.Stats.EventWaits
	}
	if marked == 0 {
		t.Error("no mark had an effect")
	}
}

// More streams than take part: they get nothing that needs order, and what they mark is never freed.
func TestManyStreams(t *testing.T) {
	w, err := newTwin(nil, stwrt.Options{Granularity: 4096, HeapBytes: 1 << 20, Events: model.EventOptions{On: true, Keep: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTwin(w)
	for stream := range uint64(260) {
		p, err := w.malloc(512, stream)
		if err == nil && stream > 250 {
			err = w.recordStream(p, stream-1)
		}
		if err == nil {
			err = w.free(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if live := w.m.Stats().LiveBytes; live != 3*512 { // 256 to 258 are the ones too many that were named
		t.Errorf("%d bytes are pinned", live)
	}
	if err := w.c.Check(); err != nil {
		t.Error(err)
	}
}
