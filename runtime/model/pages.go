package model

import (
	"slices"
	"sort"
)

// pages says which granules of a heap, or of the arena, are committed: those below high, but for the gaps.
//
//	0            gap        gap           high
//	|############|....|#####|..|##########|  never committed
type pages struct {
	high uint64
	gaps []gap // ascending, apart, not empty, all below high
}

type gap struct{ from, to uint64 } // granules, half-open

// missing counts the granules of [from, to) that are not committed.
func (p *pages) missing(from, to uint64) (n uint64) {
	if to > p.high {
		n = to - max(from, p.high)
	}
	for _, g := range p.gaps {
		if a, b := max(g.from, from), min(g.to, to); a < b {
			n += b - a
		}
	}
	return n
}

// committed counts the granules that are.
func (p *pages) committed() uint64 { return p.high - p.missing(0, p.high) }

// fill commits [from, to).
func (p *pages) fill(from, to uint64) {
	if from > p.high {
		p.gaps = append(p.gaps, gap{p.high, from})
	}
	p.high = max(p.high, to)
	if len(p.gaps) == 0 {
		return
	}
	var left []gap
	for _, g := range p.gaps {
		if a := (gap{g.from, min(g.to, from)}); a.from < a.to {
			left = append(left, a)
		}
		if b := (gap{max(g.from, to), g.to}); b.from < b.to {
			left = append(left, b)
		}
	}
	p.gaps = left
}

// drop gives back what is committed of [from, to) and returns how many granules that was.
func (p *pages) drop(from, to uint64) uint64 {
	to = min(to, p.high)
	if from >= to {
		return 0
	}
	n := to - from - p.missing(from, to)
	if n == 0 {
		return 0
	}
	p.fill(from, to)
	p.gaps = append(p.gaps, gap{from, to})
	slices.SortFunc(p.gaps, func(a, b gap) int { return int(int64(a.from) - int64(b.from)) })
	return n
}

// dropLast gives back up to n of what is committed of [from, to), the last ones, and returns how many.
func (p *pages) dropLast(from, to, n uint64) uint64 {
	to = min(to, p.high)
	if from >= to || n == 0 {
		return 0
	}
	from += uint64(sort.Search(int(to-from), func(i int) bool { // the first from which on there are n at most
		at := from + uint64(i)
		return to-at-p.missing(at, to) <= n
	}))
	return p.drop(from, to)
}
