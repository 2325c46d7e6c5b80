package stwrt_test

import (
	"slices"
	"testing"

	stwrt "stweaver/runtime"
	"stweaver/runtime/model"
)

var more = slices.Repeat([]uint32{30, 10, 50, 70}, 20)

// varying is a loop in which an optional stretch begins like what follows it, and a size varies:
//
//	optional   0 a  1 b  2 x
//	always     3 a  4 b  5 c, of 4 to 40 units, and some more
func varying() *model.Plan {
	p := &model.Plan{Arena: 4000 * model.Unit, Streams: []model.Stream{{End: 4000 * model.Unit}}}
	at := uint32(0)
	for i, units := range append([]uint32{1, 1, 9, 1, 1, 40}, more...) {
		s := model.Slot{Lo: at, Hi: units, Flags: model.Planned}
		if i < 3 {
			s.Flags |= model.Optional
		}
		if i == 5 {
			s.Varies = 1 << 16 / 10
		}
		at += units
		p.Slots = append(p.Slots, s)
		p.Entries = append(p.Entries, model.Entry{Slot: uint32(i), Life: uint32(6 + len(more) - i), NfMax: 3})
	}
	return p
}

// What was taken for an optional stretch may have been what comes behind it, and a request of any size up to that of a
// slot that varies belongs there, the first time.
func TestVaryingSlots(t *testing.T) {
	w, err := newTwin(varying(), stwrt.Options{Granularity: 512, HeapBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTwin(w)
	turn := func(entries []int, units ...uint64) {
		t.Helper()
		var live []placed
		for i, u := range more {
			entries, units = append(entries, 6+i), append(units, uint64(u))
		}
		for i, u := range units {
			p, err := w.malloc(u*model.Unit, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.m.Last(); got.Entry != entries[i] {
				t.Errorf("request %d of %d units is taken for entry %d, not %d", i, u, got.Entry, entries[i])
			}
			live = append(live, p)
		}
		for _, p := range live {
			if err := w.free(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn([]int{0, 1, 2, 3, 4, 5}, 1, 1, 9, 1, 1, 40)
	for _, c := range []uint64{40, 4, 17, 3} {
		turn([]int{0, 1, 5}, 1, 1, c)
	}
	turn([]int{0, 1, 2, 3, 4, 5}, 1, 1, 9, 1, 1, 5)
	s := w.m.Stats()
	if s.Hits != s.Requests {
		t.Errorf("%d hits of %d: %+v", s.Hits, s.Requests, s)
	}
	turn([]int{0, 1, 5}, 1, 1, 41)
	if s = w.m.Stats(); s.TooLarge != 1 || s.Hits != s.Requests-1 {
		t.Errorf("of one that is larger than all before: %+v", s)
	}
}
