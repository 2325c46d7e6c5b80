package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
)

const mib ir.Bytes = 1 << 20

// script turns "a16M b32M -a c100@1" into events: a letter is a request, its size in bytes, K, M or G, @ its stream,
// / its private pool.
func script(t testing.TB, s string) []ir.Event {
	t.Helper()
	var events []ir.Event
	for _, w := range strings.Fields(s) {
		if id, ok := strings.CutPrefix(w, "-"); ok {
			events = append(events, ir.Event{Kind: ir.EvFree, ID: uint32(id[0])})
			continue
		}
		ev := ir.Event{Kind: ir.EvAlloc, ID: uint32(w[0])}
		unit := ""
		n, err := fmt.Sscanf(strings.NewReplacer("@", " @", "/", " /").Replace(w[1:]), "%d%s", &ev.Size, &unit)
		if n == 0 {
			t.Fatalf("%q: %v", w, err)
		}
		switch unit {
		case "K":
			ev.Size <<= 10
		case "M":
			ev.Size <<= 20
		case "G":
			ev.Size <<= 30
		}
		if _, at, ok := strings.Cut(w, "@"); ok {
			fmt.Sscanf(at, "%d", &ev.Stream)
		}
		if _, at, ok := strings.Cut(w, "/"); ok {
			fmt.Sscanf(at, "%d", &ev.Pool)
		}
		events = append(events, ev)
	}
	return events
}

// plain are the allocators that need no plan.
func plain() []string { return slices.DeleteFunc(Names(), Planned) }

func mustRun(t testing.TB, name string, events []ir.Event, o Options) Result {
	t.Helper()
	r, err := Run(name, events, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What one request asks of the driver and occupies, by the rules of PyTorch.
func TestNativeOneRequest(t *testing.T) {
	for _, c := range []struct{ request, asked, occupied ir.Bytes }{
		{1, 2 * mib, 512},
		{513, 2 * mib, 1024},
		{1048065, 2 * mib, mib},
		{1048577, 20 * mib, 1049088},
		{10485248, 20 * mib, 10485248},
		{10485249, 10 * mib, 10485760}, // rounding lifts it to 10 MiB
		{10485761, 12 * mib, 10486272},
		{11533824, 12 * mib, 11533824},
		{11534336, 12 * mib, 12 * mib}, // would leave exactly 1 MiB: not cut
		{20971521, 22 * mib, 20972032},
	} {
		r := mustRun(t, "native", []ir.Event{{Kind: ir.EvAlloc, Size: c.request}}, Options{})
		if r.PeakReserved != c.asked || r.PeakOccupied != c.occupied || r.DriverCalls != 1 {
			t.Errorf("%d bytes: %+v, want %d from the driver and a block of %d", c.request, r, c.asked, c.occupied)
		}
	}
	// into a cached block of 20 MiB: 512 KiB of slack stay with it
	r := mustRun(t, "native", script(t, "a5M -a b20447232"), Options{})
	if r.PeakReserved != 20*mib || r.PeakOccupied != 20*mib || r.PeakAllocated != 20447232 {
		t.Errorf("%+v", r)
	}
}

// Reserved bytes in MiB after each allocation.
func TestReserved(t *testing.T) {
	eight := "a16M b16M c16M d16M e16M f16M g16M h16M "
	free := "-a -b -c -d -e -f -g -h "
	for _, c := range []struct {
		name, allocator, script string
		want                    []ir.Bytes
	}{
		{"eight of 16 MiB", "expandable", eight, []ir.Bytes{20, 40, 60, 80, 80, 100, 120, 140}},
		{"then four of 32", "expandable", eight + free + "i32M j32M k32M l32M", []ir.Bytes{20, 40, 60, 80, 80, 100, 120, 140, 140, 140, 140, 140}},
		{"eight of 16, four of 32", "native", eight + free + "i32M j32M k32M l32M", []ir.Bytes{16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256}},
		{"the reverse", "native", "i32M j32M k32M l32M -i -j -k -l " + eight, []ir.Bytes{32, 64, 96, 128, 128, 128, 128, 128, 128, 128, 128, 128}},
		{"streams share nothing", "native", "a16M -a b16M@1 c16M", []ir.Bytes{16, 32, 32}},
		{"nor do they when expandable", "expandable", "a16M -a b16M@1 c16M", []ir.Bytes{20, 40, 40}},
		{"nor in a heap", "best-fit", "a16M -a b16M@1 c16M", []ir.Bytes{16, 32, 32}},
		{"nor private pools", "native", "a16M -a b16M/1 c16M", []ir.Bytes{16, 32, 32}},
		{"pools share nothing", "native", "a512K b2M -a -b c2M d512K", []ir.Bytes{2, 22, 22, 22}},
		{"a heap has no pools", "best-fit", "a512K b1536K -a -b c2M", []ir.Bytes{0, 2, 2}},
		{"the end of a heap grows by what is missing", "best-fit", "a4M b4M -b c6M", []ir.Bytes{4, 8, 10}},
		{"the smallest hole that holds it", "best-fit", "a8M b1M c4M d1M -a -c e4M f8M", []ir.Bytes{8, 9, 13, 14, 14, 14}},
		{"a hole is no place for more", "best-fit", "a4M b1M -a c5M", []ir.Bytes{4, 5, 10}},
		{"a growing end comes last", "expandable", "a15M b5M c15M -b d4M", []ir.Bytes{20, 20, 40, 40}},
	} {
		var got []ir.Bytes
		_, err := run(c.allocator, script(t, c.script), Options{}, func(_ uint32, b *block, d *driver) {
			if b != nil {
				got = append(got, d.held/mib)
			}
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: reserved %v, want %v (%v)", c.allocator, c.name, got, c.want, err)
		}
	}
}

// Where a request goes: segment and offset in KiB.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ name, allocator, script, want string }{
		{"oldest segment of equals", "native", "a16M b16M c16M -c -b -a d16M", "1+0 2+0 3+0 1+0"},
		{"low addresses first", "native", "a512K b512K c512K -b d256K", "1+0 1+512 1+1024 1+512"},
		{"smallest sufficient", "native", "a24M b18M -a -b c17M", "1+0 2+0 2+0"},
		{"merged: middle, left, right", "native", "a512K b512K c512K d512K -b -a -c e1536K -d f1M", "1+0 1+512 1+1024 1+1536 2+0 1+0"},
		{"merged: right, middle, left", "native", "a512K b512K c512K -c -b -a f1M", "1+0 1+512 1+1024 1+0"},
		{"a heap: lowest of equals", "best-fit", "a4M b1M c4M d1M -c -a e4M", "1+0 1+4096 1+5120 1+9216 1+0"},
		{"expandable: hole before the end", "expandable", "a15M b5M c15M -b d4M", "1+0 1+15360 1+20480 1+15360"},
		{"expandable: the end grows", "expandable", "a15M b8M", "1+0 1+15360"},
	} {
		var got []string
		_, err := run(c.allocator, script(t, c.script), Options{}, func(_ uint32, b *block, _ *driver) {
			if b != nil {
				got = append(got, fmt.Sprintf("%d+%d", b.segment, b.at>>10))
			}
		})
		if s := strings.Join(got, " "); err != nil || s != c.want {
			t.Errorf("%s, %s: %s, want %s (%v)", c.allocator, c.name, s, c.want, err)
		}
	}
}

// Under a limit cached memory goes back before a request fails; what is cut and in use cannot.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		name, allocator, script string
		limit                   ir.Bytes
		oom                     bool
		reserved                ir.Bytes
	}{
		{"whole segments go back", "native", "a16M b16M -a -b c32M", 32, false, 32},
		{"a cut one in use stays", "native", "a2M b2M -a c30M", 40, true, 20},
		{"a cut one that is free goes", "native", "a2M b2M -a -b c30M", 40, false, 30},
		{"a private pool stays", "native", "a16M/1 -a b32M", 40, true, 16},
		{"pages go back", "expandable", "a30M -a b30M@1", 60, false, 40}, // 40 and 40 mapped would be 80
		{"pages in use stay", "expandable", "a30M b1M@1 -b c25M", 60, false, 60},
		{"too much at once", "expandable", "a100M", 60, true, 0},
		{"free ends go back", "best-fit", "a16M b16M@1 -a c16M@1", 32, false, 32},
		{"holes do not", "best-fit", "a16M d1M b16M@1 -a c16M@1", 33, true, 33},
	} {
		r := mustRun(t, c.allocator, script(t, c.script), Options{Limit: c.limit * mib})
		if r.OOM != c.oom || r.Reserved != c.reserved*mib || r.PeakReserved > c.limit*mib || r.OOM != (r.Failed > 0) {
			t.Errorf("%s, %s: %+v, want oom %v and %d MiB", c.allocator, c.name, r, c.oom, c.reserved)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []ir.Event
		limit  ir.Bytes
		want   string
	}{
		{"magic", nil, 0, `no allocator "magic"; there are native, expandable, best-fit, windows`},
		{"native", script(t, "a1 a1"), 0, "event 1: request 97"},
		{"native", script(t, "-a"), 0, "not live"},
		{"native", script(t, "a0"), 0, "0 bytes"},
		{"native", nil, -1, "limit"},
	} {
		if _, err := Run(c.name, c.events, Options{Limit: c.limit}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if r := mustRun(t, "native", nil, Options{}); r.Efficiency() != 1 || r.OOM {
		t.Errorf("nothing: %+v", r)
	}
	for _, name := range plain() { // the largest that there is
		if r := mustRun(t, name, []ir.Event{{Kind: ir.EvAlloc, ID: 1, Size: ir.MaxSize}, {Kind: ir.EvAlloc, ID: 2, Size: ir.MaxSize}}, Options{}); r.OOM || r.PeakReserved < 2*ir.MaxSize {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestEvents(t *testing.T) {
	tr := &ir.Trace{Events: 4, Streams: []uint64{0, 7}, Names: []string{""}, Requests: []ir.Request{
		{Size: 10, Alloc: ir.Before, FreeRequested: 1, Free: 3},
		{Size: 20, Alloc: ir.Before, FreeRequested: ir.Never, Free: ir.Never},
		{Size: 30, Alloc: 0, FreeRequested: 2, Free: 2, Stream: 1, Pool: 5},
	}}
	if err := tr.Check(); err != nil {
		t.Fatal(err)
	}
	want := []ir.Event{
		{Kind: ir.EvAlloc, ID: 0, Size: 10, Entry: ir.NoEntry},
		{Kind: ir.EvAlloc, ID: 1, Size: 20, Entry: ir.NoEntry},
		{Kind: ir.EvAlloc, ID: 2, Size: 30, Stream: 1, Pool: 5, Entry: ir.NoEntry},
		{Kind: ir.EvFree, ID: 2, Stream: 1, Entry: ir.NoEntry},
		{Kind: ir.EvFree, ID: 0, Entry: ir.NoEntry},
	}
	if got := Events(tr); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// drawEvents makes a program of few sizes, so that holes are hit and missed.
func drawEvents(t *rapid.T) []ir.Event {
	sizes := rapid.SliceOfN(rapid.OneOf(
		rapid.Int64Range(1, 5000), rapid.Int64Range(1<<19, 1<<21), rapid.Int64Range(5<<20, 30<<20), rapid.Int64Range(1, 100<<20),
	), 1, 6).Draw(t, "sizes")
	streams := rapid.IntRange(1, 3).Draw(t, "streams")
	type alive struct {
		id     uint32
		stream ir.StreamID
	}
	var live []alive
	var events []ir.Event
	for id := range uint32(rapid.IntRange(0, 120).Draw(t, "steps")) {
		if len(live) > 0 && rapid.IntRange(0, 9).Draw(t, "free") < 5 {
			i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
			events = append(events, ir.Event{Kind: ir.EvFree, ID: live[i].id, Stream: live[i].stream})
			live = slices.Delete(live, i, i+1)
			continue
		}
		ev := ir.Event{Kind: ir.EvAlloc, ID: id, Size: ir.Bytes(rapid.SampledFrom(sizes).Draw(t, "size")),
			Stream: ir.StreamID(rapid.IntRange(0, streams-1).Draw(t, "stream")), Pool: uint32(max(0, rapid.IntRange(-6, 1).Draw(t, "pool")))}
		events = append(events, ev)
		live = append(live, alive{id, ev.Stream})
	}
	return events
}

// In every model: live blocks are apart, hold their requests, and are backed by what was taken from the
// driver, which never passes the limit; blocks tile their segments, and free neighbours are merged.
func TestProperties(t *testing.T) {
	for _, name := range plain() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				events := drawEvents(t)
				o := Options{Limit: ir.Bytes(rapid.IntRange(0, 300).Draw(t, "limit")) * mib}
				live := make(map[uint32]*block)
				sizes := make(map[uint32]ir.Event)
				for _, ev := range events {
					if ev.Kind == ir.EvAlloc {
						sizes[ev.ID] = ev
					}
				}
				r, err := run(name, events, o, func(id uint32, b *block, d *driver) {
					if b == nil {
						delete(live, id)
						return
					}
					live[id] = b
					checkHeap(t, live, d)
					if o.Limit > 0 && d.held > o.Limit {
						t.Fatalf("%d held of %d", d.held, o.Limit)
					}
					if ev := sizes[id]; b.size < ir.RoundUp(ev.Size) || b.at%ir.Align != 0 || b.pool.stream != ev.Stream || b.pool.private != ev.Pool {
						t.Fatalf("request %+v got %+v of %+v", ev, b, b.pool.poolKey)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if r.PeakAllocated > r.PeakOccupied || r.PeakOccupied > r.PeakReserved {
					t.Fatalf("%+v", r)
				}
				if again, err := Run(name, events, o); err != nil || again != r {
					t.Fatalf("%+v, then %+v (%v)", r, again, err)
				}
			})
		})
	}
}

func checkHeap(t *rapid.T, live map[uint32]*block, d *driver) {
	heads := make(map[*block]bool)
	for _, b := range live {
		for b.prev != nil {
			b = b.prev
		}
		heads[b] = true
	}
	segments := make(map[uint32]*block)
	used, mapped := 0, ir.Bytes(0)
	for b := range heads {
		if other := segments[b.segment]; other != nil || b.at != 0 {
			t.Fatalf("segment %d begins at %d, and has another list: %v", b.segment, b.at, other != nil)
		}
		segments[b.segment] = b
		at := ir.Bytes(0)
		for ; b != nil; b = b.next {
			if b.at != at || b.size <= 0 || b.next != nil && b.next.prev != b {
				t.Fatalf("block at %d of %d bytes, want %d", b.at, b.size, at)
			}
			at += b.size
			if b.used {
				used++
			}
			if !b.unmapped {
				mapped += b.size
			}
			if n := b.next; n != nil && !b.used && !n.used && b.unmapped == n.unmapped {
				t.Fatalf("blocks at %d and %d of segment %d are not merged", b.at, n.at, b.segment)
			}
			if !b.used && !b.unmapped && !slices.Contains(b.pool.free, b) || b.unmapped && !slices.Contains(b.pool.unmapped, b) {
				t.Fatalf("block at %d is in no set", b.at)
			}
			if !slices.IsSortedFunc(b.pool.free, bySize) || !slices.IsSortedFunc(b.pool.unmapped, byAddress) {
				t.Fatal("a set is out of order")
			}
		}
	}
	if used != len(live) || mapped > d.held {
		t.Fatalf("%d blocks used by %d requests, %d bytes mapped of %d held", used, len(live), mapped, d.held)
	}
}
