package solver

import "slices"

// Who meets whom, and who is like whom.

// mostMeetings is how many pairs of items that meet are listed; searches with more look at
// all unplaced items instead.
const mostMeetings = 4 << 20

// meetings lists for each item what it meets.
func (x *state) meetings() {
	items := x.p.items
	order := make([]int32, 0, len(items)) // by first section, so that a run of it is enough
	for i := range items {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(a, b int32) int { return int(items[a].first() - items[b].first()) })
	count := make([]int32, len(items)+1)
	pairs := 0
	each := func(f func(a, b int32)) bool {
		for n, a := range order {
			last := items[a].last()
			for _, b := range order[n+1:] {
				if items[b].first() >= last {
					break
				}
				if items[a].meets(&items[b]) {
					f(a, b)
					if pairs++; pairs > 2*mostMeetings {
						return false
					}
				}
			}
		}
		return true
	}
	if !each(func(a, b int32) { count[a+1]++; count[b+1]++ }) {
		return
	}
	for i := range items {
		count[i+1] += count[i]
	}
	x.nearAt = slices.Clone(count)
	x.near = make([]int32, count[len(items)])
	pairs = 0
	each(func(a, b int32) {
		x.near[count[a]] = b
		count[a]++
		x.near[count[b]] = a
		count[b]++
	})
}

// R6, twins. Buffers of one size and lifetime can trade places, so some best layout has
// them in any order one likes: that of their numbers, upwards. The order must go with that
// of the ranks, which is why ties of rank go by number.

// twins returns for each item the last of lower number that equals it, or -1.
func twins(items []item) []int32 {
	type key struct {
		size         int64
		s, e, hs, he int32
	}
	seen := make(map[key]int32, len(items))
	out := make([]int32, len(items))
	for i := range items {
		it := &items[i]
		out[i] = -1
		if it.fixed != free {
			continue
		}
		k := key{it.size, it.s, it.e, it.hs, it.he}
		if j, ok := seen[k]; ok {
			out[i] = j
		}
		seen[k] = int32(i)
	}
	return out
}
