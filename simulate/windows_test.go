package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/profile"
)

// planOf makes a plan of one stream from "lo+size:life" of planned entries and "size:life" of dynamic ones, sizes in
// KiB; | begins the loop. A life of 0 is for ever.
func planOf(arena ir.Bytes, entries string) *ir.Plan {
	p := &ir.Plan{Arena: arena << 10, Streams: []ir.PlanStream{{End: ir.Offset(arena << 10)}}}
	for _, w := range strings.Fields(entries) {
		if w == "|" {
			p.LoopStart = uint32(len(p.Entries))
			continue
		}
		var s ir.Slot
		var life uint32
		if strings.Contains(w, "+") {
			fmt.Sscanf(w, "%d+%d:%d", &s.Lo, &s.Hi, &life)
			s.Lo, s.Hi, s.Flags = s.Lo<<10, s.Hi<<10, ir.SlotPlanned
		} else {
			fmt.Sscanf(w, "%d:%d", &s.Hi, &life)
			s.Hi <<= 10
		}
		if life == 0 {
			life = ir.MaxLife
		}
		p.Slots = append(p.Slots, s)
		p.Entries = append(p.Entries, ir.PlanEntry{Slot: uint32(len(p.Slots) - 1), Life: life})
	}
	return p
}

func TestWindows(t *testing.T) {
	const entries = "0+4:0 | 4+4:2 8:1 12+4:1 8+4:2 4+8:1 4:2" // a weight; then six entries, the second and last dynamic
	for _, c := range []struct {
		name   string
		cuts   []uint32
		script string // "12:8" is a request of 8 KiB for entry 12, "-12" its end
		want   string // segment+offset in KiB, h where it went to the heap
	}{
		// clock 2 to 3; entries 1 and 4 are of other modules: 12..16 and 4..8 are free then
		{"no marks: the loop touches all", nil, "0:4 1:4 2:4", "0+0 0+4 h"},
		{"one module: what lives beside it", []uint32{2, 3}, "0:4 1:4 2:8", "0+0 0+4 0+8"},
		{"the next module, too", []uint32{2, 4}, "0:4 1:4 2:4", "0+0 0+4 0+8"},
		{"and not where the next is", []uint32{2, 4}, "0:4 1:4 2:8", "0+0 0+4 h"},
		{"live in another's place", []uint32{2, 3}, "0:4 1:4 5:8 2:8", "0+0 0+4 h 0+8"},
		{"best fit", []uint32{2, 3}, "0:4 1:4 4:4 2:4", "0+0 0+4 0+8 0+12"},
		{"a smaller request has its place", nil, "0:4 1:2 4:4", "0+0 0+4 0+8"},
		{"a larger one has not", nil, "0:4 1:6 4:4", "0+0 h 0+8"},
		{"twice the same entry", nil, "1:4 1:4", "0+4 h"},
		{"it comes back", nil, "1:4 -1 1:4", "0+4 0+4"},
		// the last entry lives to entry 2 of the next pass: entry 1 of that pass touches 4..8
		{"across the end of the loop", []uint32{2, 6}, "0:4 6:4", "0+0 0+8"},
		{"carried from the pass before", []uint32{1, 2}, "0:4 1:8", "0+0 h"},
	} {
		list := entries
		if strings.HasPrefix(c.name, "carried") {
			list = "0+4:0 | 4:1 4+12:1 8+4:2"
		}
		plan := planOf(16, list)
		live := make(map[uint32]uint32)
		var events []ir.Event
		id := uint32(0)
		for _, w := range strings.Fields(c.script) {
			var entry uint32
			var size ir.Bytes
			if _, err := fmt.Sscanf(w, "-%d", &entry); err == nil {
				events = append(events, ir.Event{Kind: ir.EvFree, ID: live[entry]})
				continue
			}
			fmt.Sscanf(w, "%d:%d", &entry, &size)
			id++
			live[entry] = id
			events = append(events, ir.Event{Kind: ir.EvAlloc, ID: id, Size: size << 10, Entry: entry})
		}
		var got []string
		r, err := run("windows", events, Options{Plan: plan, Cuts: c.cuts}, func(_ uint32, b *block, _ *driver) {
			if b != nil && b.segment != 0 {
				got = append(got, "h")
			} else if b != nil {
				got = append(got, fmt.Sprintf("0+%d", b.at>>10))
			}
		})
		if s := strings.Join(got, " "); err != nil || s != c.want || r.PeakReserved < plan.Arena {
			t.Errorf("%s: %s, want %s; %+v (%v)", c.name, s, c.want, r, err)
		}
	}
}

func TestWindowsErrors(t *testing.T) {
	plan := planOf(16, "0+16:0")
	if _, err := Run("windows", nil, Options{}); err == nil || !strings.Contains(err.Error(), "needs a plan") {
		t.Error(err)
	}
	one := []ir.Event{{Kind: ir.EvAlloc, Size: 1, Entry: 1}}
	if _, err := Run("windows", one, Options{Plan: plan}); err == nil || !strings.Contains(err.Error(), "entry 1 of a plan of 1") {
		t.Error(err)
	}
	one[0].Entry = ir.NoEntry
	if r := mustRun(t, "windows", one, Options{Plan: plan, Limit: 8 << 10}); !r.OOM {
		t.Errorf("%+v", r)
	}
	if r := mustRun(t, "windows", one, Options{Plan: plan}); r.OOM || r.PeakReserved != 16<<10+512 {
		t.Errorf("%+v", r)
	}
}

// Whatever the plan says, even if it is wrong, and whatever entries the requests are taken for: live blocks are apart.
func TestWindowsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := &ir.Plan{Arena: 64 * ir.Align}
		streams := rapid.IntRange(1, 2).Draw(t, "streams")
		for s := range streams {
			plan.Streams = append(plan.Streams, ir.PlanStream{Begin: ir.Offset(s * 64 / streams * 512), End: ir.Offset((s + 1) * 64 / streams * 512)})
		}
		n := rapid.IntRange(1, 20).Draw(t, "entries")
		plan.LoopStart = uint32(rapid.IntRange(0, n).Draw(t, "loop"))
		var cuts []uint32
		for k := range n {
			slot := ir.Slot{Stream: ir.StreamID(rapid.IntRange(0, streams-1).Draw(t, "stream"))}
			if rapid.Bool().Draw(t, "planned") {
				slot.Flags = ir.SlotPlanned
				slot.Lo = int64(rapid.IntRange(0, 60).Draw(t, "lo")) * 512
			}
			slot.Hi = int64(rapid.IntRange(1, 4).Draw(t, "hi")) * 512
			plan.Slots = append(plan.Slots, slot)
			plan.Entries = append(plan.Entries, ir.PlanEntry{Slot: uint32(k), Life: uint32(rapid.SampledFrom([]int{1, 2, 3, 5, 9, 40, ir.MaxLife}).Draw(t, "life"))})
			if k >= int(plan.LoopStart) && rapid.Bool().Draw(t, "cut") {
				cuts = append(cuts, uint32(k))
			}
		}
		type live struct {
			id uint32
			b  *block
		}
		var now []live
		var ids []uint32
		var events []ir.Event
		for id := range uint32(rapid.IntRange(0, 80).Draw(t, "steps")) {
			if len(ids) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(ids)-1).Draw(t, "which")
				events = append(events, ir.Event{Kind: ir.EvFree, ID: ids[i]})
				ids = slices.Delete(ids, i, i+1)
				continue
			}
			ev := ir.Event{Kind: ir.EvAlloc, ID: id, Size: ir.Bytes(rapid.IntRange(1, 2000).Draw(t, "size")), Entry: ir.NoEntry}
			if e := rapid.IntRange(-1, n-1).Draw(t, "entry"); e >= 0 {
				ev.Entry = uint32(e)
			}
			events = append(events, ev)
			ids = append(ids, id)
		}
		_, err := run("windows", events, Options{Plan: plan, Cuts: cuts}, func(id uint32, b *block, _ *driver) {
			if b == nil {
				now = slices.DeleteFunc(now, func(l live) bool { return l.id == id })
				return
			}
			for _, l := range now {
				if l.b.segment == b.segment && b.at < l.b.at+l.b.size && l.b.at < b.at+b.size {
					t.Fatalf("requests %d and %d share [%d, %d)", l.id, id, max(b.at, l.b.at), min(b.at+b.size, l.b.at+l.b.size))
				}
			}
			now = append(now, live{id, b})
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// From a log with modules to a run: cuts lie where the marks do, and dynamic requests go where their modules
// leave room.
func TestWindowsOfLog(t *testing.T) {
	var log strings.Builder
	next := 1
	alloc := func(size int) int {
		next++
		fmt.Fprintf(&log, "1 %d %d 0\n", next<<30, size)
		return next
	}
	free := func(id, size int) { fmt.Fprintf(&log, "0 %d %d 0\n", id<<30, size) }
	alloc(1 << 20) // a weight
	for i := range 4 {
		fmt.Fprintf(&log, "Iteration Index : %d\n", i)
		fmt.Fprintln(&log, "a->A Layer : F-start")
		x := alloc(8192)
		y := alloc(4096)
		free(y, 4096)
		fmt.Fprintln(&log, "a->A Layer : F-end")
		fmt.Fprintln(&log, "b->B Layer : F-start")
		free(x, 8192)
		d := alloc(2048 + 512*i) // dynamic
		z := alloc(1024)
		free(d, 2048+512*i)
		fmt.Fprintln(&log, "b->B Layer : F-end")
		u := alloc(16384)
		free(z, 1024)
		free(u, 16384)
	}
	fmt.Fprintln(&log, "Iteration Index : end")
	tr, err := profile.Read("log", strings.NewReader(log.String()), profile.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	c, err := compiler.Compile(t.Context(), tr, compiler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l0 := uint32(c.Problem.L0)
	if want := []uint32{l0, l0 + 2, l0 + 4}; !slices.Equal(c.Cuts(), want) {
		t.Errorf("cuts %v, want %v", c.Cuts(), want)
	}
	w, err := c.Workload(compiler.WorkloadOptions{Iterations: 6})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Plan: c.Plan, Cuts: c.Cuts()}
	if r := mustRun(t, "windows", w.Events, o); r.PeakReserved != c.Plan.Arena || r.PeakAllocated > r.PeakReserved {
		t.Errorf("%+v with an arena of %d: want all dynamic requests in it", r, c.Plan.Arena)
	}
	o.Cuts = nil
	if r := mustRun(t, "windows", w.Events, o); r.PeakReserved <= c.Plan.Arena {
		t.Errorf("%+v: without modules no room is free throughout", r)
	}
}
