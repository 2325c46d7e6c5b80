package heuristics

import (
	"cmp"
	"fmt"
	"slices"

	"stweaver/ir"
)

// violation says what is wrong with a layout, "" if nothing. It shares no code with the
// packers: up to some thousand buffers it compares all pairs, above that it sweeps.
func violation(buffers []ir.Buffer, l ir.Layout) string {
	if len(l.Offsets) != len(buffers) {
		return fmt.Sprintf("%d offsets for %d buffers", len(l.Offsets), len(buffers))
	}
	var peak ir.Bytes
	for i := range buffers {
		b, off := &buffers[i], l.Offsets[i]
		if off < 0 {
			return fmt.Sprintf("buffer %d is at %d", i, off)
		}
		if b.Size%ir.Align == 0 && ir.Bytes(off)%ir.Align != 0 {
			// Sums of sizes: unaligned sizes below are the test's own doing.
			if !slices.ContainsFunc(buffers, func(b ir.Buffer) bool { return b.Size%ir.Align != 0 }) {
				return fmt.Sprintf("buffer %d is at %d, not a multiple of %d", i, off, ir.Align)
			}
		}
		peak = max(peak, ir.Bytes(off)+b.Size)
	}
	if peak != l.Peak {
		return fmt.Sprintf("peak %d, but the highest end is %d", l.Peak, peak)
	}
	if len(buffers) > 3000 {
		return sweep(buffers, l)
	}
	for i := range buffers {
		for j := range i {
			a, b := &buffers[i], &buffers[j]
			lo, hi := ir.Bytes(l.Offsets[i]), ir.Bytes(l.Offsets[j])
			if overlap(*a, *b) && lo < hi+b.Size && hi < lo+a.Size {
				return fmt.Sprintf("buffers %d %+v at %d and %d %+v at %d share bytes", i, *a, lo, j, *b, hi)
			}
		}
	}
	return ""
}

// sweep goes through time with the live buffers ordered by address: neighbours must not
// overlap.
func sweep(buffers []ir.Buffer, l ir.Layout) string {
	type event struct {
		at  ir.Tick
		id  int
		end bool
	}
	var events []event
	add := func(s, e ir.Tick, id int) {
		if s < e {
			events = append(events, event{s, id, false}, event{e, id, true})
		}
	}
	for i := range buffers {
		add(buffers[i].Start, buffers[i].End, i)
		add(buffers[i].HeadStart, buffers[i].HeadEnd, i)
	}
	slices.SortFunc(events, func(a, b event) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.end != b.end:
			if a.end {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
	var live []int
	for _, e := range events {
		k, _ := slices.BinarySearchFunc(live, l.Offsets[e.id], func(id int, off ir.Offset) int { return cmp.Compare(l.Offsets[id], off) })
		if e.end {
			live = slices.Delete(live, k, k+1)
			continue
		}
		end := l.Offsets[e.id] + ir.Offset(buffers[e.id].Size)
		if k < len(live) && l.Offsets[live[k]] < end {
			return fmt.Sprintf("buffers %d and %d share bytes at %d", e.id, live[k], e.at)
		}
		if k > 0 && l.Offsets[live[k-1]]+ir.Offset(buffers[live[k-1]].Size) > l.Offsets[e.id] {
			return fmt.Sprintf("buffers %d and %d share bytes at %d", e.id, live[k-1], e.at)
		}
		live = slices.Insert(live, k, e.id)
	}
	return ""
}

// overlap is true where two buffers share a tick. Unlike ir's it takes empty pieces.
func overlap(a, b ir.Buffer) bool {
	for _, p := range [][2]ir.Tick{{a.Start, a.End}, {a.HeadStart, a.HeadEnd}} {
		for _, q := range [][2]ir.Tick{{b.Start, b.End}, {b.HeadStart, b.HeadEnd}} {
			if p[0] < p[1] && q[0] < q[1] && p[0] < q[1] && q[0] < p[1] {
				return true
			}
		}
	}
	return false
}

// liveAt is the sum of the sizes alive at t.
func liveAt(buffers []ir.Buffer, t ir.Tick) (sum ir.Bytes) {
	for i := range buffers {
		b := &buffers[i]
		if b.Start <= t && t < b.End || b.HeadStart <= t && t < b.HeadEnd {
			sum += b.Size
		}
	}
	return sum
}

// naivePeak is the live peak by trying every tick at which something starts.
func naivePeak(buffers []ir.Buffer) (peak ir.Bytes) {
	for i := range buffers {
		peak = max(peak, liveAt(buffers, buffers[i].Start))
		if buffers[i].HasHead() {
			peak = max(peak, liveAt(buffers, buffers[i].HeadStart))
		}
	}
	return peak
}
