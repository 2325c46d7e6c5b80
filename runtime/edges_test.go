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
