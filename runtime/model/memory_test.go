package model_test

import (
	"testing"

	"stweaver/runtime/model"
)

// planOf is a loop of large planned requests: begin and units of each, and how many requests it lives.
func planOf(t *testing.T, arena uint32, entries ...[3]uint32) *model.Plan {
	t.Helper()
	p := &model.Plan{Arena: uint64(arena) * model.Unit, Streams: []model.Stream{{Begin: 0, End: uint64(arena) * model.Unit}}}
	for i, e := range entries {
		p.Slots = append(p.Slots, model.Slot{Lo: e[0], Hi: e[1], Flags: model.Planned})
		p.Entries = append(p.Entries, model.Entry{Slot: uint32(i), Life: e[2], NfMax: 3})
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

// What a late buffer displaces goes where the arena idles for its life, and leaves the heap's hole alone; where nothing
// idles that long it takes the hole.
func TestDisplacedLeavesTheHeap(t *testing.T) {
	p := planOf(t, 256, [3]uint32{0, 20, 2}, [3]uint32{20, 30, 1}, [3]uint32{100, 40, 1})
	a := newModel(t, p, model.Options{Granularity: 64 << 10, Still: true})
	ask := func(units uint64, class model.Class) model.Addr {
		t.Helper()
		at, _ := a.Malloc(units*model.Unit, 0)
		if got := a.Last().Class; got != class {
			t.Fatalf("%d units: %v, want %v", units, got, class)
		}
		return at
	}
	ask(20, model.Hit) // this one and the next stay
	ask(30, model.Hit)
	a.Free(ask(40, model.Hit))
	hole := ask(300, model.Unknown)
	if hole.Space != 1 || !a.Free(hole) {
		t.Fatalf("300 units at %v", hole)
	}
	for i, want := range []model.Addr{{Space: 0, Offset: 50 * model.Unit}, {Space: 0, Offset: 100 * model.Unit}, hole} {
		at := ask([]uint64{20, 30, 40}[i], model.Conflict)
		if at != want {
			t.Errorf("displaced request %d at %v, want %v", i, at, want)
		}
	}
	if s := a.Stats(); s.Guests != 2 || s.Sweeps != 4 { // one for the hole
		t.Errorf("%d guests, %d sweeps", s.Guests, s.Sweeps)
	}
}

// As what may be moved is used up, the total rises: a heap asks in each step for memory that the plan asks for, too, and
// moves it to and fro only until it may stay; what may be moved is not all used then. More than a 24th of what
// lives moves as long as anything may.
func TestTotalRises(t *testing.T) {
	const arena = 1024 * model.Unit
	p := planOf(t, 1024, [3]uint32{0, 1024, 1}, [3]uint32{0, 1000, 1})
	for _, c := range []struct{ heap, least, most uint64 }{{15, 3 * arena, 5 * arena}, {400, 15 * arena / 4, 5 * arena}} {
		a := newModel(t, p, model.Options{Granularity: 512})
		var half uint64
		for i := range 400 {
			for _, units := range []uint64{1024, 1000} {
				at, _ := a.Malloc(units*model.Unit, 0)
				a.Free(at)
			}
			at, _ := a.Malloc(c.heap*model.Unit, 7) // of a stream that the plan does not know: it is the heap's
			a.Free(at)
			if i == 200 {
				half = a.Stats().MovedBytes
			}
		}
		s := a.Stats()
		if s.MovedBytes != half || s.MovedBytes < c.least || s.MovedBytes > c.most {
			t.Errorf("%d units of a heap: %d bytes moved in 200 steps, %d in 400, want %d to %d", c.heap, half, s.MovedBytes, c.least, c.most)
		}
		if s.PeakReservedBytes != arena+c.heap*model.Unit {
			t.Errorf("%d units of a heap: %d reserved in all, want what is asked for", c.heap, s.PeakReservedBytes/model.Unit)
		}
	}
}

// What moves is what the plan needs last: of two idle places that of the entry just served, not the higher one, which comes next.
func TestMovesWhatIsNeededLast(t *testing.T) {
	p := planOf(t, 1024, [3]uint32{0, 512, 1}, [3]uint32{512, 500, 1})
	a := newModel(t, p, model.Options{Granularity: 512})
	ask := func(units, stream uint64, moves uint64) {
		at, _ := a.Malloc(units*model.Unit, stream)
		a.Free(at)
		if s := a.Stats(); s.Moves != moves || s.ReservedBytes > 1024*model.Unit {
			t.Errorf("%d units: %d moves of %d bytes in all, want %d; %d units reserved", units, s.Moves, s.MovedBytes, moves, s.ReservedBytes/model.Unit)
		}
	}
	for range 3 {
		ask(512, 0, 0)
		ask(500, 0, 0)
	}
	ask(512, 0, 0)
	ask(400, 7, 1) // of a stream that the plan does not know: it is the heap's
	ask(500, 0, 1)
	ask(512, 0, 2)
}
