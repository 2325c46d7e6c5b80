//go:build cgo

package stwrt_test

import (
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// rowPlan has one entry for each flag, in a row without a loop: entry k is of 9 + k units, at an
// address of its own, and never freed.
func rowPlan(flags []model.SlotFlags) *model.Plan {
	p := &model.Plan{LoopStart: uint32(len(flags))}
	at := uint32(0)
	for k, f := range flags {
		size := uint32(9 + k)
		p.Slots = append(p.Slots, model.Slot{Lo: at, Hi: size, Flags: model.Planned | f})
		p.Entries = append(p.Entries, model.Entry{Slot: uint32(k), Life: 1 << 20})
		at += size
	}
	p.Arena = uint64(at) * model.Unit
	p.Streams = []model.Stream{{End: p.Arena}}
	return p
}

// loopPlan is rowPlan as a loop of n entries, each freed at the end of the step.
func loopPlan(n int) *model.Plan {
	p := rowPlan(make([]model.SlotFlags, n))
	p.LoopStart = 0
	for k := range p.Entries {
		p.Entries[k].Life, p.Entries[k].NfMax = uint32(n), 3
	}
	return p
}

// playStep asks both for blocks of those sizes, frees them, and checks C.
func playStep(t *testing.T, w *twin, sizes ...uint64) {
	t.Helper()
	var live []placed
	for _, size := range sizes {
		at, err := w.malloc(size, 0)
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, at)
	}
	for _, at := range live {
		if err := w.free(at); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.c.Check(); err != nil {
		t.Fatal(err)
	}
}

// stepOf are the requests of a step of loopPlan.
func stepOf(n int) (sizes []uint64) {
	for k := range n {
		sizes = append(sizes, units(k))
	}
	return sizes
}

// Twice the plan is set aside, and comes back, the second time after twice as many steps on plan: C and the model agree all along.
func TestParitySetAside(t *testing.T) {
	p, step := loopPlan(8), stepOf(8)
	for _, granularity := range []uint64{512, 4096} {
		w, err := newTwin(p, stwrt.Options{Granularity: granularity, HeapBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for time := range uint64(2) {
			for i := 0; w.m.Stats().SetAside == time; i++ {
				playStep(t, w, step...)
				playStep(t, w, p.Arena+model.Unit)
				if i == 1000 {
					t.Fatalf("never set aside: %+v", w.m.Stats())
				}
			}
			hits, laps := w.m.Stats().Hits, 0
			for ; w.m.Stats().Hits == hits && laps < 1000; laps++ {
				playStep(t, w, step...)
			}
			if want := int(128*(time+1)) + 1; laps != want { // the stray is in the first
				t.Errorf("set aside %d times: back after %d steps, want %d", time+1, laps, want)
			}
		}
		w.c.Close()
	}
}

// A plan whose first request of 64 always finds its place taken, freed a step late, is set aside only where it would cost more than a 16th of
// what is needed, and where there is memory for that. One that serves all never is, whatever other streams ask for.
func TestParitySetAsideCost(t *testing.T) {
	for _, c := range []struct {
		part     uint64 // of the arena that the first entry is
		late     bool
		granule  uint64
		capacity uint64 // percent of the arena; 0: no limit
		stray    uint64 // percent of the arena that another stream asks for after each step
		want     uint64
	}{
		{20, true, 512, 0, 0, 0},
		{10, true, 512, 0, 0, 1},
		{10, true, 512, 106, 0, 0},
		{20, true, 64 << 10, 0, 0, 0}, // two granules more, a 16th less than that
		{10, false, 512, 0, 100, 0},
	} {
		p, step := loopPlan(64), stepOf(64)
		big := uint32((p.Arena/model.Unit - 9) / (c.part - 1))
		p.Slots[0].Hi, step[0] = big, uint64(big)*model.Unit
		for k := 1; k < 64; k++ {
			p.Slots[k].Lo += big - 9
		}
		p.Arena += uint64(big-9) * model.Unit
		p.Streams[0].End = p.Arena
		w, err := newTwin(p, stwrt.Options{Granularity: c.granule, HeapBytes: 4 << 20, Capacity: p.Arena * c.capacity / 100 &^ (model.Unit - 1)})
		if err != nil {
			t.Fatal(err)
		}
		var held placed // of the step before
		for range 150 {
			first, err := w.malloc(step[0], 0)
			if err != nil {
				t.Fatal(err)
			}
			if c.late {
				first, held = held, first
			}
			if first.ok {
				if err := w.free(first); err != nil {
					t.Fatal(err)
				}
			}
			playStep(t, w, step[1:]...)
			if c.stray > 0 {
				at, err := w.malloc(p.Arena*c.stray/100, 7)
				if err == nil {
					err = w.free(at)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if s := w.m.Stats(); s.SetAside != c.want || s.MovedBytes < 3*p.Arena || s.Failed > 0 {
			t.Errorf("%+v: set aside %d times, %d moved of %d, %d failed, hits %d conflicts %d", c, s.SetAside, s.MovedBytes, p.Arena, s.Failed, s.Hits, s.Conflicts)
		}
		w.c.Close()
	}
}

func units(k int) uint64 { return uint64(9+k) * model.Unit }

// The window ahead ends in the same place for both: 700 optional entries can be skipped, 701
// cannot, whatever follows.
func TestParityWindowAhead(t *testing.T) {
	for skip := 696; skip <= 704; skip++ {
		flags := make([]model.SlotFlags, 720)
		for k := 10; k < 10+skip; k++ {
			flags[k] = model.Optional
		}
		w, err := newTwin(rowPlan(flags), stwrt.Options{Granularity: 512})
		if err != nil {
			t.Fatal(err)
		}
		for k := range 10 {
			if _, err := w.malloc(units(k), 0); err != nil {
				t.Fatal(err)
			}
		}
		for k := 10 + skip; k < 10+skip+4; k++ {
			if _, err := w.malloc(units(k), 0); err != nil {
				t.Fatalf("skipping %d: %v", skip, err)
			}
			found := w.m.Last().Entry == k
			if want := skip <= 700; found != want && k == 10+skip {
				t.Errorf("skipping %d: entry found %v, want %v", skip, found, want)
			}
		}
		w.c.Close()
	}
}

// Phase marks are looked for 700 entries ahead and 64 behind.
func TestParityPhaseDistance(t *testing.T) {
	const here = 100
	for _, d := range []int{-66, -65, -64, -63, -1, 0, 1, 699, 700, 701} {
		p := rowPlan(make([]model.SlotFlags, 900))
		p.Marks = []model.Mark{{Entry: uint32(here + d), Kind: model.MarkPhase, Name: model.HashName("x")}}
		w, err := newTwin(p, stwrt.Options{Granularity: 512})
		if err != nil {
			t.Fatal(err)
		}
		for k := range here {
			if _, err := w.malloc(units(k), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.mark(model.MarkPhase, 0, "x"); err != nil {
			t.Fatalf("distance %d: %v", d, err)
		}
		want := here
		if -64 <= d && d <= 700 {
			want += d
		}
		if got := w.m.Stats().Position; got != uint64(want) {
			t.Errorf("distance %d: position %d, want %d", d, got, want)
		}
		w.c.Close()
	}
}

// Where there is nothing to match, both are the same heap.
func TestParityHeapOnly(t *testing.T) {
	for _, p := range []*model.Plan{nil, {}} {
		src := plantest.Seeded(7)
		w, err := newTwin(p, stwrt.Options{Granularity: 4096, HeapBytes: 1 << 32})
		if err != nil {
			t.Fatal(err)
		}
		var held []placed
		for range 20000 {
			if len(held) > 0 && src(100) < 48 {
				i := src(len(held))
				err = w.free(held[i])
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			} else {
				var at placed
				size := 1 + src(4<<src(18))
				at, err = w.malloc(uint64(size), uint64(src(2)))
				held = append(held, at)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.c.Check(); err != nil {
			t.Fatal(err)
		}
		w.c.Close()
	}
}
