package model_test

import (
	"testing"

	"stweaver/runtime/model"
)

// A loop of two copies, of which a tensor outlives an iteration; the second is abandoned: what comes then is the
// second again, at the second's addresses, with the first one's tensor alive.
func TestAbandonedCopy(t *testing.T) {
	slot := func(at, units uint32) model.Slot { return model.Slot{Lo: at, Hi: units, Flags: model.Planned} }
	p := &model.Plan{Arena: 200 * model.Unit, Streams: []model.Stream{{Begin: 0, End: 200 * model.Unit}}}
	for _, at := range []uint32{0, 100} {
		p.Slots = append(p.Slots, slot(at, 20), slot(at+20, 30), slot(at+50, 40))
	}
	for i := range uint32(6) { // the second of each copy lives until the next copy's last
		p.Entries = append(p.Entries, model.Entry{Slot: i, Life: []uint32{2, 4, 1}[i%3], NfMax: 3})
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	a, err := model.New(p, model.Options{Granularity: 512})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(units, at uint64) model.Addr {
		t.Helper()
		got, ok := a.Malloc(units*model.Unit, 0)
		if !ok || got != (model.Addr{Space: 0, Offset: at * model.Unit}) {
			t.Fatalf("%d units: got %v, want unit %d: %v", units, got, at, a.Last())
		}
		return got
	}
	x, kept, y := ask(20, 0), ask(30, 20), ask(40, 50)
	a.Free(x)
	a.Free(y)
	x, other := ask(20, 100), ask(30, 120)
	a.Free(x) // an exception
	a.Free(other)
	x = ask(20, 100)
	ask(30, 120)
	a.Free(kept)
	y = ask(40, 150)
	a.Free(x)
	a.Free(y)
	if s := a.Stats(); s.Hits != 8 || s.Resyncs != 1 || s.Slow != 0 {
		t.Errorf("hits %d, resyncs %d, slow %d", s.Hits, s.Resyncs, s.Slow)
	}
}
