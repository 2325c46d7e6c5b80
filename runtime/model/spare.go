package model

import (
	"cmp"
	"slices"
)

// Of the idle granules of the arena those are given back that the plan needs last. What is given is asked
// back when its next entry comes, and then something else moves.
//
//	arena  |####|..2..|##|....|..1..|     1, 2: the places of the next entries are spared

const spareWork = 8192 // entries to come that are read for each granule that the arena gives back, at most all

// neededLast takes from a list of granules of the arena those that are not committed, and those that the entries to come use first, until
// there are most of them left.
func (a *Allocator) neededLast(idle []gap, most uint64) (left []gap) {
	p := &a.occupied.pages
	var n uint64
	for _, r := range idle {
		for from, to := r.from, min(r.to, p.high); from < to; {
			next := gap{to, to}
			if i, _ := slices.BinarySearchFunc(p.gaps, from+1, func(g gap, at uint64) int { return cmp.Compare(g.to, at) }); i < len(p.gaps) && p.gaps[i].from < to {
				next = p.gaps[i]
			}
			if from < next.from {
				left = append(left, gap{from, next.from})
				n += next.from - from
			}
			from = next.to
		}
	}
	if a.match.mode != inSync {
		return left
	}
	at, _ := a.match.best()
	entries := uint64(len(a.plan.Entries))
	for range min(entries, min(most, entries)*spareWork) {
		if n <= most {
			break
		}
		if s := &a.plan.Slots[a.plan.Entries[at].Slot]; s.Flags&Planned != 0 {
			g, lo := a.opts.Granularity, uint64(s.Lo)*Unit
			left, n = spared(left, gap{lo / g, (lo + uint64(s.Hi)*Unit + g - 1) / g}, n, most)
		}
		at = a.match.succ(at)
	}
	return left
}

// spared takes those of r from a list of n granules, the lowest first, down to most of them.
func spared(list []gap, r gap, n, most uint64) ([]gap, uint64) {
	i, _ := slices.BinarySearchFunc(list, r.from+1, func(g gap, at uint64) int { return cmp.Compare(g.to, at) })
	for i < len(list) && list[i].from < r.to && n > most {
		g := list[i]
		from := max(g.from, r.from)
		to := min(g.to, r.to, from+n-most)
		n -= to - from
		var rest []gap
		if g.from < from {
			rest = append(rest, gap{g.from, from})
		}
		if to < g.to {
			rest = append(rest, gap{to, g.to})
		}
		list = slices.Replace(list, i, i+1, rest...)
		i += len(rest)
	}
	return list, n
}
