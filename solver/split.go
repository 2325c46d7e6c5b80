package solver

import (
	"cmp"
	"slices"
)

// Split. Where no unplaced buffer crosses a seam any more, what is left falls into parts
// that do not see each other: the placed ones act on each through lowest places and floors
// only. Each part is searched by itself, with a canonical order of its own that starts at
// the last offset; if one has no solution, neither has the whole, and no other solution of
// its neighbours is asked for.
//
//	   |--u--|     :   |---w---|
//	      |-v--|   :      |--y-|
//	  =======placed:=================
//
// Priorities are made anew for each part, also where only one is left: what was dense may be placed, and another stretch
// of time hold the most now.

// order is a priority: three keys, each the larger first.
type order [3]byte

// The keys: life in ticks, area (size by life), and the most that is unplaced at one time
// while the buffer lives.
const (
	byLife  = 'W'
	byArea  = 'A'
	byTotal = 'T'

	bySections = 'S' // life in sections, which does not depend on how time is counted
	byRoom     = 'R' // size by that
)

var orders = []order{{byLife, byArea, byTotal}, {byTotal, byArea, byLife}, {byTotal, byLife, byArea}}

// sectional are the same orders with time in sections. Ticks may be clock time or just the
// numbers of the events, and one of the measures may lead where the other does not.
var sectional = []order{{bySections, byRoom, byTotal}, {byTotal, byRoom, bySections}, {byTotal, bySections, byRoom}}

// ordersOf are the orders of a round of turns: two rounds of the one kind, two of the other,
// so that both the whole and a core without the peeled (turns.go) have both.
func ordersOf(round int) []order {
	if round >= 4 && round%4 <= 1 {
		return sectional
	}
	return orders
}

// rerank gives the part new ranks, and puts it into their order.
func (x *search) rerank(part []int32) {
	type ranked3 struct {
		keys [3]float64
		id   int32
	}
	list := make([]ranked3, len(part))
	for n, u := range part {
		it := &x.p.items[u]
		list[n].id = u
		for k, what := range x.by {
			v := float64(it.life)
			switch what {
			case bySections:
				v = float64(it.sections())
			case byRoom:
				v = float64(it.sections()) * float64(it.size)
			case byArea:
				v *= float64(it.size)
			case byTotal:
				most := int64(0)
				for k := it.s; k < it.e; k++ {
					most = max(most, x.total[k])
				}
				for k := it.hs; k < it.he; k++ {
					most = max(most, x.total[k])
				}
				v = float64(most)
			}
			list[n].keys[k] = v
		}
	}
	slices.SortFunc(list, func(a, b ranked3) int {
		return cmp.Or(cmp.Compare(b.keys[0], a.keys[0]), cmp.Compare(b.keys[1], a.keys[1]),
			cmp.Compare(b.keys[2], a.keys[2]), cmp.Compare(a.id, b.id))
	})
	for n, r := range list {
		part[n] = r.id
		x.ranks = append(x.ranks, ranked{r.id, x.rank[r.id]})
		x.rank[r.id] = int32(n)
	}
}

// keyOf is the key of a part from scratch, and the epoch of ranks made for it.
func (x *search) keyOf(part []int32) (k key, epoch uint64) {
	if x.memory == nil {
		return k, 0
	}
	for _, u := range part {
		k.join(u, x.low[u])
		epoch += mix(uint64(u) + 0x632be59bd9b4e019)
	}
	return k, mix(epoch ^ uint64(x.by[0])<<16 ^ uint64(x.by[1])<<8 ^ uint64(x.by[2]))
}

// fresh searches a part with ranks of its own, from the given offset on.
func (x *search) fresh(lo, hi int, off int64) bool {
	part := x.ids[lo:hi]
	x.rerank(part)
	k, epoch := x.keyOf(part)
	if x.memory != nil && x.memory.fails(k, off, -1) {
		return false
	}
	began := x.nodes
	from := last{off, -1, epoch, x.p.sections, 0}
	mark := len(x.sects)
	if x.p.heads {
		from.s, from.e = x.sectionsOf(part)
	} else {
		for _, u := range part {
			from.s, from.e = min(from.s, x.p.items[u].s), max(from.e, x.p.items[u].e)
		}
	}
	if x.solve(lo, hi, from, k) {
		return true
	}
	x.sects = x.sects[:mark]
	if x.memory != nil && !x.out {
		x.memory.note(k, off, -1, x.nodes-began)
	}
	return false
}

// sectionsOf appends the sections of a part to sects and returns where they are.
func (x *search) sectionsOf(part []int32) (from, to int32) {
	from = int32(len(x.sects))
	x.gen++
	for _, u := range part {
		x.each(&x.p.items[u], func(s, e int32) {
			for k := s; k < e; k++ {
				if x.mark[k] != x.gen {
					x.mark[k] = x.gen
					x.sects = append(x.sects, k)
				}
			}
		})
	}
	return from, int32(len(x.sects))
}

// rest searches ids[lo:hi] after i was placed.
func (x *search) rest(lo, hi int, i int32, next last, k key) bool {
	if !x.on.has(Split) || !x.loosened(&x.p.items[i]) {
		return x.solve(lo, hi, next, k)
	}
	base := len(x.runs)
	if !x.split(lo, hi) {
		return x.fresh(lo, hi, next.off)
	}
	for n, end := base, len(x.runs); n < end; n++ {
		r := x.runs[n]
		if !x.fresh(r.lo, r.hi, next.off) {
			x.runs = x.runs[:base]
			return false
		}
	}
	x.runs = x.runs[:base]
	return true
}

// loosened reports whether a seam of it is crossed by nothing unplaced now.
func (x *search) loosened(it *item) bool {
	return slices.Contains(x.seam[it.s+1:max(it.e, it.s+1)], 0) || it.hs+1 < it.he && slices.Contains(x.seam[it.hs+1:it.he], 0)
}

// split appends the parts that ids[lo:hi] falls into to runs, each a range of its own;
// false, and nothing, if there is but one.
func (x *search) split(lo, hi int) bool {
	part := x.ids[lo:hi]
	if len(part) == 0 {
		return false
	}
	// What begins in one run of crossed seams hangs together: sorted by begin, a new one
	// begins where nothing reaches.
	pieces := make([]piece, 0, len(part))
	for _, u := range part {
		it := &x.p.items[u]
		pieces = append(pieces, piece{it.s, it.e, u})
		if it.hs < it.he {
			pieces = append(pieces, piece{it.hs, it.he, u})
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Or(cmp.Compare(a.s, b.s), cmp.Compare(a.id, b.id)) })
	stretches, reach := 0, int32(-1)
	of := x.stretch()
	for _, p := range pieces {
		if p.s >= reach {
			stretches++
		}
		reach = max(reach, p.e)
		if it := &x.p.items[p.id]; p.s == it.s {
			of[p.id] = int32(stretches - 1)
		}
	}
	if stretches == 1 {
		return false
	}
	if x.p.heads {
		stretches = x.joinHeads(part, stretches, func(f func(id, s, stretch int32)) {
			n, reach := int32(-1), int32(-1)
			for _, p := range pieces {
				if p.s >= reach {
					n++
				}
				reach = max(reach, p.e)
				f(p.id, p.s, n)
			}
		})
		if stretches == 1 {
			return false
		}
	}
	slices.SortFunc(part, func(a, b int32) int { return cmp.Or(cmp.Compare(of[a], of[b]), cmp.Compare(a, b)) })
	for k := 0; k < len(part); {
		e := k + 1
		for e < len(part) && of[part[e]] == of[part[k]] {
			e++
		}
		x.runs = append(x.runs, run{lo + k, lo + e})
		k = e
	}
	return true
}

// stretch is scratch: by item, the stretch it is in.
func (x *search) stretch() []int32 {
	if x.of == nil {
		x.of = make([]int32, len(x.p.items))
	}
	return x.of
}

// joinHeads makes one of the stretches that a buffer with a head is in. It returns how
// many are left.
func (x *search) joinHeads(part []int32, stretches int, each func(func(id, s, stretch int32))) int {
	join := newJoin(stretches)
	each(func(id, s, stretch int32) { join.link(x.of[id], stretch) })
	seen := make(map[int32]bool)
	for _, u := range part {
		x.of[u] = join.root(x.of[u])
		seen[x.of[u]] = true
	}
	return len(seen)
}
