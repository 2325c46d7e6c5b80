package profile

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

const (
	addrX = 0x7f0000000000
	addrY = 0x7f0000100000
)

func TestLifetimes(t *testing.T) {
	for _, c := range []struct {
		name     string
		events   []ev
		segments []*testkit.Dict
		want     string
		notes    []string
	}{
		{"free at once is one tick",
			[]ev{alloc(addrX, 100), ask(addrX, 100), done(addrX, 100), alloc(addrX, 200)}, nil,
			"100[0,1,1); 200[2,never,never)", nil},
		{"a free of what nobody allocated was alive before (reports 11)",
			[]ev{ask(addrX, 100), done(addrX, 100), alloc(addrY, 50), ask(addrY, 50), done(addrY, 50)}, nil,
			"100[before,0,0); 50[1,2,2)", []string{"late"}},
		{"a ring that begins between the two halves of a free",
			[]ev{done(addrX, 100), alloc(addrX, 50)}, nil,
			"100[before,0,0); 50[1,never,never)", []string{"late"}},
		{"a resident block no event speaks of is a ghost",
			[]ev{alloc(addrX, 512)},
			[]*testkit.Dict{seg(0, addrX, blk{512, active}, blk{1024, active}, blk{512, inactive})},
			"1024[before,never,never) ghost; 512[0,never,never)", []string{"ghost"}},
		{"a deferred free keeps both ends (reports 24)",
			[]ev{alloc(addrX, 100), ask(addrX, 100), alloc(addrY, 50), done(addrX, 100)}, nil,
			"100[0,1,3); 50[2,never,never)", []string{"deferred-free"}},
		{"a free that never completes is pending",
			[]ev{alloc(addrX, 512), ask(addrX, 512)},
			[]*testkit.Dict{seg(0, addrX, blk{512, pending})},
			"512[0,1,never) pending", []string{"pending-free"}},
		{"an allocation at an open address closes the earlier owner",
			[]ev{alloc(addrX, 100), alloc(addrX, 200)}, nil,
			"100[0,1,1) lost; 200[2,never,never)", []string{"lost-free"}},
		{"the same where the free was at least requested",
			[]ev{alloc(addrX, 100), ask(addrX, 100), alloc(addrX, 200)}, nil,
			"100[0,1,2) lost; 200[3,never,never)", []string{"lost-free"}},
		{"a second free is ignored",
			[]ev{alloc(addrX, 100), ask(addrX, 100), done(addrX, 100), ask(addrX, 100), done(addrX, 100), alloc(addrY, 1)}, nil,
			"100[0,1,1); 1[2,never,never)", []string{"stray-free"}},
		{"segments, failures, snapshots and unknown actions have no tick",
			[]ev{{action: "segment_alloc", addr: addrX, size: 2 << 20}, alloc(addrX, 100), {action: "snapshot"}, ask(addrX, 100),
				{action: "segment_free", addr: addrY, size: 512}, done(addrX, 100), {action: "annotate", addr: addrX}, {action: "from the future", addr: addrX, size: 1}, alloc(addrY, 5)}, nil,
			"100[0,1,1); 5[2,never,never)", []string{"end-state"}},
		{"zero bytes are no request",
			[]ev{alloc(addrX, 0), ask(addrX, 0), done(addrX, 0), alloc(addrX, 1)}, nil,
			"1[0,never,never)", []string{"zero-size"}},
		{"what the end state contradicts is told",
			[]ev{alloc(addrX, 512), ask(addrX, 512), done(addrX, 512), alloc(addrY, 512)},
			[]*testkit.Dict{seg(0, addrX, blk{512, active}, blk{512, inactive})},
			"512[0,1,1); 512[2,never,never)", []string{"end-state", "end-state"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := mustSnap(t, snap(c.segments, c.events))
			if got := lifeline(tr); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := codes(tr); !slices.Equal(got, c.notes) {
				t.Errorf("notes %q, want %q", got, c.notes)
			}
			if late := slices.Contains(c.notes, "late") || slices.Contains(c.notes, "ghost"); tr.Late != late {
				t.Errorf("Late = %v", tr.Late)
			}
		})
	}
}

// TestLivePeakBefore is the arithmetic of reports 11: X counts from the start.
func TestLivePeakBefore(t *testing.T) {
	tr := mustSnap(t, snap(nil, []ev{alloc(addrY, 512), ask(addrX, 1024), done(addrX, 1024), ask(addrY, 512), done(addrY, 512)}))
	if peak, at := tr.LivePeak(); peak != 1536 || at != 0 {
		t.Errorf("peak %d at %d, want 1536 at 0", peak, at)
	}
}

func TestReserved(t *testing.T) {
	sa := func(addr uint64, size int64) ev { return ev{action: "segment_alloc", addr: addr, size: size} }
	sf := func(addr uint64, size int64) ev { return ev{action: "segment_free", addr: addr, size: size} }
	sm := func(addr uint64, size int64) ev { return ev{action: "segment_map", addr: addr, size: size} }
	const M = 1 << 20
	one := []*testkit.Dict{seg(0, addrX, blk{2 * M, active})}
	for _, c := range []struct {
		name      string
		events    []ev
		segs      []*testkit.Dict
		want      ir.Bytes
		allocator string
	}{
		{"cold start", []ev{sa(addrX, 2*M), alloc(addrX, 2*M)}, one, 2 * M, "native"},
		{"held before the recording", []ev{alloc(addrX, 2*M)}, one, 2 * M, "native"},
		{"the peak was in the middle", []ev{sa(addrX, 2*M), alloc(addrX, 2*M), sa(addrY, 6*M), sf(addrY, 6*M)}, one, 8 * M, "native"},
		{"the peak was at the start", []ev{sf(addrY, 6*M), alloc(addrX, 2*M)}, one, 8 * M, "native"},
		{"mapped", []ev{sm(addrX, 2*M), alloc(addrX, 2*M), sm(addrY, M)}, append(one, seg(0, addrY, blk{M, inactive})), 3 * M, "expandable"},
		{"unknown", []ev{alloc(addrX, 2*M)}, nil, -1, "native"},
	} {
		tr := mustSnap(t, snap(c.segs, c.events))
		if tr.Reserved != c.want || tr.Allocator != c.allocator {
			t.Errorf("%s: %d %s, want %d %s", c.name, tr.Reserved, tr.Allocator, c.want, c.allocator)
		}
	}
}

// Segments given back in a row: for the program, unless the driver had refused what follows.
func TestReleases(t *testing.T) {
	sa := func(addr uint64, size int64) ev { return ev{action: "segment_alloc", addr: addr, size: size} }
	sf := func(addr uint64, size int64) ev { return ev{action: "segment_free", addr: addr, size: size} }
	oom := ev{action: "oom", size: 1}
	const M, Y, Z = 1 << 20, addrY, addrY + 1<<30
	start := []ev{sa(addrX, 2*M), alloc(addrX, 2*M), sa(Y, 6*M), sa(Z, 4*M)} // 12 MiB held, 1 tick
	for _, c := range []struct {
		name   string
		events []ev
		want   string
	}{
		{"at the end", []ev{sf(Y, 6*M), sf(Z, 4*M)}, "[1]"},
		{"before a request that fits", []ev{sf(Y, 6*M), alloc(Z, 100), sf(Y, 6*M), ask(Z, 100), done(Z, 100)}, "[1 2]"},
		{"refused", []ev{sf(Y, 6*M), sa(Y, 8*M), alloc(Y, 8*M)}, "[]"},
		{"refused twice", []ev{sf(Y, 6*M), oom}, "[]"},
		{"a segment that there was room for", []ev{sf(Y, 6*M), sa(Y, 8*M), alloc(Y, 8*M), sa(addrX+1<<40, 20*M)}, "[1]"},
	} {
		tr := mustSnap(t, snap(nil, append(slices.Clone(start), c.events...)))
		if got := fmt.Sprint(tr.Releases); got != c.want {
			t.Errorf("%s: releases %s, want %s", c.name, got, c.want)
		}
	}
}

// TestInconsistent: more alive than the allocator held is no trace to plan from.
func TestInconsistent(t *testing.T) {
	const M = 1 << 20
	events := []ev{}
	for i := range uint64(10) {
		events = append(events, alloc(addrX+i*M, M))
	}
	tr := mustSnap(t, snap([]*testkit.Dict{seg(0, addrX, blk{M, active})}, events))
	bad := 0
	for _, n := range tr.Notes {
		if n.Level == ir.Bad && n.Code == "inconsistent" {
			bad++
		}
	}
	if bad != 1 {
		t.Errorf("notes %+v", tr.Notes)
	}
}

func TestRing(t *testing.T) {
	events := func(n int, unmatched bool) []ev {
		var e []ev
		if unmatched {
			e = append(e, done(addrX, 512))
		}
		for len(e) < n {
			e = append(e, alloc(addrY+uint64(len(e))*512, 512))
		}
		return e
	}
	for _, c := range []struct {
		name     string
		n        int
		late     bool
		settings *testkit.Dict
		want     bool
	}{
		{"round and late", 10000, true, nil, true},
		{"round, power of two", 4096, true, nil, true},
		{"round and complete", 10000, false, nil, false},
		{"late, not round", 10001, true, nil, false},
		{"small", 100, true, nil, false},
		{"said", 50, false, (&testkit.Dict{}).Set("trace_alloc_overflowed", true), true},
		{"said by device", 50, false, (&testkit.Dict{}).Set("trace_alloc_overflowed", &testkit.List{Items: []any{true, false}}), true},
		{"denied by device", 10000, true, (&testkit.Dict{}).Set("trace_alloc_overflowed", &testkit.List{Items: []any{false, true}}), false},
		{"denied", 10000, true, (&testkit.Dict{}).Set("trace_alloc_overflowed", false), false},
		{"full", 1234, true, (&testkit.Dict{}).Set("trace_alloc_max_entries", 1234), true},
		{"full, two devices", 1234, true, (&testkit.Dict{}).Set("trace_alloc_max_entries", testkit.Tuple{1234, 5}), true},
		{"not full", 10000, true, (&testkit.Dict{}).Set("trace_alloc_max_entries", 1<<40), false},
	} {
		s := snap(nil, events(c.n, c.late))
		if c.settings != nil {
			s.Set("allocator_settings", c.settings)
		}
		if tr := mustSnap(t, s); tr.Wrapped != c.want || slices.Contains(codes(tr), "wrapped") != c.want {
			t.Errorf("%s: Wrapped = %v, want %v (%v)", c.name, tr.Wrapped, c.want, codes(tr))
		}
	}
}

func TestDevices(t *testing.T) {
	s := snap(nil, nil, []ev{alloc(addrX, 100)}, []ev{alloc(addrX, 200), alloc(addrY, 300)})
	content := pickle(t, s, 4)
	for _, c := range []struct {
		want, device, requests int
		note                   string
	}{
		{-1, 2, 2, "1 (1 events)"}, {1, 1, 1, "2 (2 events)"}, {2, 2, 2, "1 (1 events)"},
	} {
		tr, err := Read("test", bytes.NewReader(content), Options{Device: c.want})
		if err != nil {
			t.Fatal(err)
		}
		if tr.Device != c.device || len(tr.Requests) != c.requests {
			t.Errorf("want %d: device %d, %d requests", c.want, tr.Device, len(tr.Requests))
		}
		if len(tr.Notes) != 1 || !strings.Contains(tr.Notes[0].Text, c.note) {
			t.Errorf("want %d: notes %+v", c.want, tr.Notes)
		}
	}
	for _, d := range []int{0, 3} {
		_, err := Read("test", bytes.NewReader(content), Options{Device: d})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no alloc events of device %d", d)) {
			t.Errorf("device %d: %v", d, err)
		}
	}
}

// TestGenerations: what four generations of torch write of one program gives one trace,
// as far as each can tell.
func TestGenerations(t *testing.T) {
	event := func(gen int, action string, addr uint64, size int64) *testkit.Dict {
		d := (&testkit.Dict{}).Set("action", action).Set("addr", addr).Set("size", size).Set("stream", 0)
		if gen >= 1 {
			d.Set("time_us", 1000).Set("frames", &testkit.List{})
		}
		if gen >= 2 {
			d.Set("compile_context", "N/A").Set("user_metadata", "")
		}
		if gen >= 3 {
			d.Set("pool_id", testkit.Tuple{0, 3}).Set("category", "future").Set("who_knows", &testkit.List{Items: []any{nil, 1.5, true}})
		}
		return d
	}
	file := func(gen int) *testkit.Dict {
		segment := (&testkit.Dict{}).Set("device", 0).Set("address", uint64(addrX)).Set("total_size", 4096).
			Set("allocated_size", 512).Set("active_size", 512).Set("stream", 0).Set("segment_type", "small")
		used := (&testkit.Dict{}).Set("size", 1024).Set("state", active)
		rest := (&testkit.Dict{}).Set("size", 3072).Set("state", inactive)
		switch gen {
		case 0: // torch 2.0: no addresses, a history
			used.Set("history", &testkit.List{Items: []any{(&testkit.Dict{}).Set("addr", uint64(addrX)).Set("real_size", 700).Set("frames", &testkit.List{})}})
		default:
			segment.Set("segment_pool_id", testkit.Tuple{0, 3}).Set("is_expandable", false).Set("frames", &testkit.List{})
			used.Set("address", uint64(addrX)).Set("requested_size", 700).Set("frames", &testkit.List{})
			rest.Set("address", uint64(addrX+1024)).Set("requested_size", 99)
		}
		segment.Set("blocks", &testkit.List{Items: []any{used, rest}})
		d := (&testkit.Dict{}).Set("segments", &testkit.List{Items: []any{segment}}).Set("device_traces", &testkit.List{Items: []any{
			&testkit.List{Items: []any{
				event(gen, "segment_alloc", addrX, 4096), event(gen, "alloc", addrX+1024, 512),
				event(gen, "free_requested", addrX+1024, 512), event(gen, "free_completed", addrX+1024, 512), event(gen, "alloc", addrX, 700),
			}}}})
		if gen >= 1 {
			d.Set("allocator_settings", (&testkit.Dict{}).Set("max_split_size", -1).Set("roundup_power2_divisions", (&testkit.Dict{}).Set("1", 0)))
		}
		if gen >= 3 {
			d.Set("host_segments", &testkit.List{}).Set("host_traces", &testkit.List{})
		}
		return d
	}
	for gen := range 4 {
		tr := mustSnap(t, file(gen))
		if got, want := lifeline(tr), "512[0,1,1); 700[2,never,never)"; got != want {
			t.Errorf("generation %d: %s, want %s", gen, got, want)
		}
		wantPool := uint32(1)
		if gen == 0 {
			wantPool = 0
		}
		for _, r := range tr.Requests {
			if r.Pool != wantPool {
				t.Errorf("generation %d: pool %d, want %d", gen, r.Pool, wantPool)
			}
		}
		if tr.Reserved != 4096 || len(tr.Notes) != 0 {
			t.Errorf("generation %d: reserved %d, notes %+v", gen, tr.Reserved, tr.Notes)
		}
	}
}

// TestSegmentOrder: the order in which a file lists its segments does not show.
func TestSegmentOrder(t *testing.T) {
	var segs []*testkit.Dict
	for i := range uint64(8) {
		segs = append(segs, seg(0, addrX+i<<21, blk{512 + 512*int64(i), active}, blk{512, inactive}))
		segs[i].Vals[slices.Index(segs[i].Keys, "stream")] = 100 - i // raw handles
		segs[i].Vals[slices.Index(segs[i].Keys, "segment_pool_id")] = testkit.Tuple{0, int64(i % 3)}
	}
	events := []ev{alloc(addrX, 512), ask(addrX+1<<21, 1024)}
	want := mustSnap(t, snap(segs, events))
	if len(want.Streams) < 3 {
		t.Fatal("the test needs streams that only ghosts have")
	}
	rnd := testkit.Rand(7)
	for range 20 {
		for i := len(segs) - 1; i > 0; i-- {
			j := rnd.Below(i + 1)
			segs[i], segs[j] = segs[j], segs[i]
		}
		if got := mustSnap(t, snap(segs, events)); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	}
}
