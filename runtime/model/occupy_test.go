package model

import "testing"

// The search for idle space is best fit among the first places only: 7 runs that are large enough, in 12 ranges
// that are, up to one that is an eighth too large at most.
func TestSearchIsBounded(t *testing.T) {
	// Atoms of one unit: a busy or needed one, then a free stretch of `length` of them, and so on.
	build := func(lengths []int, between func(a *arena) []bool) (*arena, []bool, uint64) {
		p := &Plan{Streams: []Stream{{}}}
		total := 0
		for _, n := range lengths {
			total += n + 1
		}
		for i := range total {
			p.Slots = append(p.Slots, Slot{Lo: uint32(i), Hi: 1, Flags: Planned})
		}
		p.Arena = uint64(total) * Unit
		p.Streams[0].End = p.Arena
		a := newArena(p)
		needed := make([]bool, total)
		marks := needed
		if between != nil {
			marks = between(a)
		}
		at := 0
		for _, n := range lengths {
			marks[at] = true
			at += n + 1
		}
		return a, needed, p.Arena
	}
	repeat := func(n, length int, last int) (out []int) {
		for range n {
			out = append(out, length)
		}
		return append(out, last)
	}
	busy := func(a *arena) []bool { return a.busy }
	for _, c := range []struct {
		name    string
		lengths []int
		between func(*arena) []bool
		units   uint64
		want    int // the stretch, -1 for none
	}{
		{"the seventh place is seen", repeat(6, 9, 5), busy, 5, 6},
		{"the eighth is not", repeat(7, 9, 5), busy, 5, 0},
		{"what is too small does not count", append(repeat(50, 4, 9), 5), busy, 5, 51},
		{"the seventh range is seen", repeat(6, 9, 5), nil, 5, 6},
		{"ranges that are too small do not count", repeat(40, 4, 5), nil, 5, 40},
		{"an eighth too much will do", []int{30, 18, 16}, busy, 16, 1},
		{"more will not", []int{30, 19, 16}, busy, 16, 2},
		{"of fifteen units one is an eighth", []int{17, 16, 15}, busy, 15, 1},
		{"the lowest of equals", repeat(3, 5, 5), busy, 5, 0},
		{"none is large enough", repeat(3, 5, 5), busy, 6, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, needed, end := build(c.lengths, c.between)
			begin := uint64(0)
			for _, n := range c.lengths[:max(c.want, 0)] {
				begin += uint64(n+1) * Unit
			}
			begin += Unit
			r, ok := a.run(Stream{End: end}, needed, c.units*Unit, lentRanges)
			if ok != (c.want >= 0) || ok && r != (interval{begin, begin + c.units*Unit}) {
				t.Errorf("run = %v, %v; want the stretch at %d", r, ok, begin)
			}
		})
	}
	t.Run("the thirteenth range is not", func(t *testing.T) {
		a, needed, end := build(repeat(12, 9, 5), nil)
		for i := range 12 {
			a.busy[10*i+3], a.busy[10*i+8] = true, true // lent, and nowhere five units free
		}
		if r, ok := a.run(Stream{End: end}, needed, 5*Unit, lentRanges); ok {
			t.Errorf("run = %v; 12 ranges have no place", r)
		}
		a.busy[10*11+3], a.busy[10*11+8] = false, true
		if r, ok := a.run(Stream{End: end}, needed, 5*Unit, lentRanges); !ok || r.begin != (10*11+1)*Unit {
			t.Errorf("run = %v, %v; the twelfth has one", r, ok)
		}
	})
}
