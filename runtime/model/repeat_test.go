package model_test

import (
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"
)

// A program that does what the plan repeats once, or three times as often: its requests are at their planned places, but for
// two where sizes alone show what happens, and those whose places these hold.
func TestRepeats(t *testing.T) {
	var all, missed, turns [2]uint64
	for seed := range plantest.Seeds(500) {
		src := plantest.Seeded(seed)
		r := plantest.Repeating(src)
		times := make([]int, 8)
		for k := range times {
			times[k] = 1 + src(3*r.Times)
		}
		s, slots := r.Script(times)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		a, err := model.New(r.Plan, model.Options{Granularity: 512})
		if err != nil {
			t.Fatal(err)
		}
		got := a.Run(s)
		kind := 0
		if r.Firm {
			kind = 1
		}
		here := uint64(0)
		for id, slot := range slots {
			if (got.Addrs[id] != model.Addr{Offset: uint64(r.Plan.Slots[slot].Lo) * model.Unit}) {
				here++
			}
		}
		if here > uint64(10*len(times)) {
			t.Errorf("seed %d, %v times: %d of %d requests are not at their places", seed, times, here, len(slots))
		}
		all[kind] += uint64(len(slots))
		missed[kind] += here
		turns[kind] += got.Stats.Resyncs
	}
	t.Logf("without firm lives, and with: %d turns, %d of %d requests missed", turns, missed, all)
	if turns[0] == 0 || turns[1] == 0 || 50*missed[0] > all[0] || 1000*missed[1] > all[1] {
		t.Errorf("without firm lives, and with: %d turns, %d of %d requests missed", turns, missed, all)
	}
}

// A smaller request gets the slot of its entry as the third in proportion; one that is not gets none, however often it comes.
func TestProportion(t *testing.T) {
	p := &model.Plan{}
	var at uint32
	for k := range uint32(12) {
		units := 1600 + 700*(k%3)
		p.Slots = append(p.Slots, model.Slot{Lo: at, Hi: units, Flags: model.Planned})
		p.Entries = append(p.Entries, model.Entry{Slot: k, Life: 12 - k, NfMax: 3})
		at += units
	}
	p.Arena = uint64(at) * model.Unit
	p.Streams = []model.Stream{{End: p.Arena}}
	for _, c := range []struct {
		name string
		size func(k, slot uint64) uint64
		hits uint64
	}{
		{"two thirds", func(_, slot uint64) uint64 { return slot * 2 / 3 }, 10},
		{"always so much less", func(_, slot uint64) uint64 { return slot - 90 }, 0},
		{"a factor for each", func(k, slot uint64) uint64 { return slot * (15 - k) / 16 }, 0},
		{"half, but for the third ones", func(k, slot uint64) uint64 {
			if k%3 == 2 {
				return slot
			}
			return slot / 2
		}, 4 + 6},
	} {
		a, err := model.New(p, model.Options{Granularity: 512})
		if err != nil {
			t.Fatal(err)
		}
		for k := range uint64(12) {
			if _, ok := a.Malloc(c.size(k, uint64(p.Slots[k].Hi))*model.Unit, 0); !ok {
				t.Fatal("no memory")
			}
		}
		if s := a.Stats(); s.Hits != c.hits {
			t.Errorf("%s: %d hits of 12, want %d; %d unknown", c.name, s.Hits, c.hits, s.Unknown)
		}
	}
}

// What comes before the loop is asked for once. Once something else comes beside it, whoever passes for an entry that
// dies may be there to stay: it gets no place that the loop needs, until two have come as expected.
func TestPrologueInDoubt(t *testing.T) {
	p := &model.Plan{LoopStart: 6}
	var at uint32
	for k := range uint32(10) {
		p.Slots = append(p.Slots, model.Slot{Lo: at, Hi: 20 + 8*k, Flags: model.Planned})
		p.Entries = append(p.Entries, model.Entry{Slot: k, Life: 2, NfMax: 3})
		at += 20 + 8*k
	}
	p.Entries[2].Life = model.MaxLife
	p.Arena = uint64(at) * model.Unit
	p.Streams = []model.Stream{{End: p.Arena}}
	a, err := model.New(p, model.Options{Granularity: 512})
	if err != nil {
		t.Fatal(err)
	}
	for k, ask := range []struct {
		units uint64
		class model.Class
	}{
		{20, model.Hit}, {999, model.Unknown},
		{28, model.Unknown}, // in doubt
		{36, model.Hit},     // it lives for ever, and so does its place
		{44, model.Hit}, {52, model.Hit}, {60, model.Hit},
		{999, model.Unknown}, // in the loop
		{68, model.Hit},
	} {
		if _, ok := a.Malloc(ask.units*model.Unit, 0); !ok || a.Last().Class != ask.class {
			t.Fatalf("request %d, %d units: %v, want %v", k, ask.units, a.Last(), ask.class)
		}
	}
}
