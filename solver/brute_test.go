package solver

import (
	"fmt"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// The oracles: they share no code with the search.

// alive reports whether two buffers share a tick.
func alive(a, b *ir.Buffer) bool {
	for _, p := range [][2]ir.Tick{{a.Start, a.End}, {a.HeadStart, a.HeadEnd}} {
		for _, q := range [][2]ir.Tick{{b.Start, b.End}, {b.HeadStart, b.HeadEnd}} {
			if p[0] < p[1] && q[0] < q[1] && p[0] < q[1] && q[0] < p[1] {
				return true
			}
		}
	}
	return false
}

// violation says what is wrong with a layout, "" if nothing, pair by pair.
func violation(buffers []ir.Buffer, l ir.Layout, fixed []ir.Offset) string {
	if len(l.Offsets) != len(buffers) {
		return fmt.Sprintf("%d offsets for %d buffers", len(l.Offsets), len(buffers))
	}
	var peak ir.Bytes
	for i := range buffers {
		a, off := &buffers[i], l.Offsets[i]
		if off < 0 {
			return fmt.Sprintf("buffer %d is at %d", i, off)
		}
		if fixed != nil && fixed[i] != ir.NoOffset && fixed[i] != off {
			return fmt.Sprintf("buffer %d is at %d, not at %d", i, off, fixed[i])
		}
		peak = max(peak, ir.Bytes(off)+a.Size)
		for j := range i {
			b, lo := &buffers[j], l.Offsets[j]
			if alive(a, b) && ir.Bytes(off) < ir.Bytes(lo)+b.Size && ir.Bytes(lo) < ir.Bytes(off)+a.Size {
				return fmt.Sprintf("buffers %d %+v at %d and %d %+v at %d share bytes", i, *a, off, j, *b, lo)
			}
		}
	}
	if peak != l.Peak {
		return fmt.Sprintf("peak %d, but the highest end is %d", l.Peak, peak)
	}
	return ""
}

// brute is the least peak, by trying every place at a multiple of unit; -1 if there is none
// up to the sum of the sizes and the fixed tops.
func brute(buffers []ir.Buffer, fixed []ir.Offset, unit ir.Bytes) ir.Bytes {
	var most ir.Bytes
	for i := range buffers {
		most += buffers[i].Size
		if fixed != nil && fixed[i] != ir.NoOffset {
			most += ir.Bytes(fixed[i])
		}
	}
	at := make([]ir.Bytes, len(buffers))
	var put func(i int, c ir.Bytes) bool
	put = func(i int, c ir.Bytes) bool {
		if i == len(buffers) {
			return true
		}
		lo, hi := ir.Bytes(0), c-buffers[i].Size
		if fixed != nil && fixed[i] != ir.NoOffset {
			lo, hi = ir.Bytes(fixed[i]), min(hi, ir.Bytes(fixed[i]))
		}
	next:
		for o := lo; o <= hi; o += unit {
			for j := range i {
				if alive(&buffers[i], &buffers[j]) && o < at[j]+buffers[j].Size && at[j] < o+buffers[i].Size {
					continue next
				}
			}
			at[i] = o
			if put(i+1, c) {
				return true
			}
		}
		return false
	}
	for c := ir.Bytes(0); c <= most; c += unit {
		if put(0, c) {
			return c
		}
	}
	return -1
}

// tiny draws a few buffers on few ticks, with heads and twins among them.
func tiny(r *testkit.Rand, heads bool) []ir.Buffer {
	n := 2 + r.Below(5)
	span := 2 + r.Below(6)
	out := make([]ir.Buffer, 0, n)
	for len(out) < n {
		if len(out) > 0 && r.Below(5) == 0 {
			out = append(out, out[r.Below(len(out))])
			continue
		}
		b := ir.Buffer{Size: ir.Align * ir.Bytes(1+r.Below(4)), Start: ir.Tick(r.Below(span))}
		b.End = b.Start + 1 + ir.Tick(r.Below(span-int(b.Start)))
		if heads && b.Start > 0 && r.Below(2) == 0 {
			b.HeadStart = ir.Tick(r.Below(int(b.Start)))
			b.HeadEnd = b.HeadStart + 1 + ir.Tick(r.Below(int(b.Start-b.HeadStart)))
		}
		out = append(out, b)
	}
	return out
}

// pin fixes some of the buffers, where they do not overlap; nil if it draws none.
func pin(r *testkit.Rand, buffers []ir.Buffer) []ir.Offset {
	if r.Below(2) == 0 {
		return nil
	}
	fixed := make([]ir.Offset, len(buffers))
	for i := range fixed {
		fixed[i] = ir.NoOffset
		if r.Below(3) != 0 {
			continue
		}
		off := ir.Bytes(r.Below(6)) * ir.Align
		ok := true
		for j := range i {
			ok = ok && (fixed[j] == ir.NoOffset || !alive(&buffers[i], &buffers[j]) ||
				off >= ir.Bytes(fixed[j])+buffers[j].Size || ir.Bytes(fixed[j]) >= off+buffers[i].Size)
		}
		if ok {
			fixed[i] = ir.Offset(off)
		}
	}
	return fixed
}

// tight draws a problem without slack: at each step two of the live buffers go and two of
// the same sum come, split anew. Its optimum is often above the live peak. small adds
// a tail of that many buffers of one unit, smaller than all others, one after the other,
// that one of the last lives through.
func tight(seed uint64, n, live, most, small int) ([]ir.Buffer, ir.Tick) {
	r := testkit.Rand(seed)
	var out []ir.Buffer
	now := ir.Tick(0)
	add := func(units int) int {
		out = append(out, ir.Buffer{Size: ir.Align * ir.Bytes(units), Start: now})
		return len(out) - 1
	}
	var alive []int
	for range live {
		alive = append(alive, add(2+r.Below(most)))
	}
	for now = 1; len(out) < n; now++ {
		a := r.Below(live)
		b := (a + 1 + r.Below(live-1)) % live
		x, y := alive[a], alive[b]
		out[x].End, out[y].End = now, now
		sum := int((out[x].Size + out[y].Size) / ir.Align)
		first := 2 + r.Below(sum-3)
		alive[a], alive[b] = add(first), add(sum-first)
	}
	for _, i := range alive {
		out[i].End = now
	}
	for range small {
		out[alive[0]].End = now + 1
		out = append(out, ir.Buffer{Size: ir.Align, Start: now, End: now + 1})
		now++
	}
	return out, now
}
