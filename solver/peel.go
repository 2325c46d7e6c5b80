package solver

import "slices"

// Peeling at a capacity (R5). Let i have room for C - z_i + 1 start positions. A placed
// buffer j that meets i in time blocks at most z_j + z_i - 1 of them. If all that i meets
// together block fewer than there are, one is left whatever the others do: i may wait until
// all of them lie, and needs no search. What is peeled no longer counts against the others,
// so it goes on until nothing changes. The peeled come back in reverse order: then each
// meets only those that were counted, and first fit finds it a place under C.
//
// A fixed buffer is never peeled; it blocks like any other.
//
// The sums over all that i meets are not taken pair by pair: what starts before i ends and
// does not end before i starts meets it,
//
//	sum(starts before e) - sum(ends up to s),
//
// two prefix sums. A buffer with two pieces may be counted twice, which only peels less.

// fenwick is a tree of prefix sums.
type fenwick []int64

func (f fenwick) add(k int32, v int64) {
	for i := int(k) + 1; i < len(f); i += i & -i {
		f[i] += v
	}
}

// before is the sum over [0, k).
func (f fenwick) before(k int32) (sum int64) {
	for i := int(k); i > 0; i -= i & -i {
		sum += f[i]
	}
	return sum
}

// most rounds of peeling; later ones find next to nothing.
const peelRounds = 12

// peel splits the items of p, whose capacity is c units, into the core, in order, and the
// peeled in the order they left.
func (p *part) peel(c int64) (core []int32, peeled []int32) {
	n := int(p.sections) + 2
	startSize, endSize := make(fenwick, n), make(fenwick, n)
	startCount, endCount := make(fenwick, n), make(fenwick, n)
	count := func(it *item, sign int64) {
		each := func(s, e int32) {
			startSize.add(s, sign*it.size)
			startCount.add(s, sign)
			endSize.add(e, sign*it.size)
			endCount.add(e, sign)
		}
		each(it.s, it.e)
		if it.hs < it.he {
			each(it.hs, it.he)
		}
	}
	blocked := func(it *item) int64 {
		each := func(s, e int32) int64 {
			sizes := startSize.before(e) - endSize.before(s+1)
			number := startCount.before(e) - endCount.before(s+1)
			return sizes + number*(it.size-1) - (2*it.size - 1) // not itself
		}
		sum := each(it.s, it.e)
		if it.hs < it.he {
			sum += each(it.hs, it.he)
		}
		return sum
	}
	core = make([]int32, len(p.items))
	for i := range p.items {
		core[i] = int32(i)
		count(&p.items[i], 1)
	}
	for range peelRounds {
		kept := core[:0]
		for _, i := range core {
			it := &p.items[i]
			if it.fixed == free && blocked(it) < c-it.size+1 {
				count(it, -1)
				peeled = append(peeled, i)
				continue
			}
			kept = append(kept, i)
		}
		if len(kept) == len(core) {
			break
		}
		core = kept
	}
	return core, peeled
}

// unpeel puts the peeled back into offsets, the last one first, each at the lowest place
// that is free. What has no place yet is at free.
func (p *part) unpeel(peeled []int32, offsets []int64) {
	if len(peeled) == 0 {
		return
	}
	f := newFiller(p, offsets)
	for _, i := range slices.Backward(peeled) {
		f.fill(i)
	}
}
