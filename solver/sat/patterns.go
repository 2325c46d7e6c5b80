package sat

import "slices"

// Candidate offsets. A layout pushed down has every free buffer on the floor, on a fixed buffer or on another
// free one, so its offset is a sum of sizes of different buffers, on the floor or on the
// top of a fixed one (normal patterns). In real traces few sizes are distinct and such sums are
// few, however many bytes a unit is.
//
// For one capacity C and nothing fixed, choose a threshold t: push down what lies below t
// and up what lies at t or above. Nothing crosses t or changes sides, so what is
// below is at a sum, what is above ends at C minus a sum (meet in the middle): of the
// sums, dense towards the middle, only the sparse ends are used.

// patterns lists the sums up to c.cap, ascending, or nil where there are more than limit.
func patterns(c *core, limit int64) []int64 {
	sums := []int64{0}
	var sizes []int64
	for v := range c.n {
		if c.fixed[v] >= 0 {
			if top := c.fixed[v] + c.size[v]; top <= c.cap {
				sums = append(sums, top)
			}
		} else {
			sizes = append(sizes, c.size[v])
		}
	}
	slices.Sort(sums)
	if sums = slices.Compact(sums); int64(len(sums)) > limit {
		return nil
	}
	slices.Sort(sizes)
	var next []int64
	for k := len(sizes) - 1; k >= 0; k-- {
		before := len(sums)
		next = next[:0]
		for a, b := 0, 0; a < len(sums) || b < len(sums); {
			x := c.cap + 1 // the next of the shifted sums
			if b < len(sums) && sums[b] <= c.cap-sizes[k] {
				x = sums[b] + sizes[k]
			} else {
				b = len(sums)
			}
			switch {
			case a < len(sums) && sums[a] < x:
				next = append(next, sums[a])
				a++
			case a < len(sums) && sums[a] == x:
				a++
			case b < len(sums):
				next = append(next, x)
				b++
			}
		}
		sums, next = next, sums
		if int64(len(sums)) > limit {
			return nil
		}
		if len(sums) == before { // another of this size adds nothing
			for k > 0 && sizes[k-1] == sizes[k] {
				k--
			}
		}
	}
	return sums
}

// candidates gives each buffer the sums it may start at under c.cap, or nil above limit in all.
// With middle they hold for that capacity only.
func candidates(c *core, limit int64, middle bool) [][]int64 {
	sums := patterns(c, limit/max(1, int64(c.n)))
	if sums == nil {
		return nil
	}
	threshold := c.cap + 1
	if middle && !c.pinned {
		best := int64(-1)
		for k := int64(16); k >= 4; k-- {
			t := c.cap + 1
			if k < 16 {
				t = c.cap / 16 * k
			}
			var count int64
			for v := range c.n {
				low, high := ends(sums, c.cap-c.size[v], t)
				count += int64(low + high)
			}
			if best < 0 || count < best {
				best, threshold = count, t
			}
		}
	}
	out := make([][]int64, c.n)
	for v := range c.n {
		if c.fixed[v] >= 0 {
			out[v] = []int64{c.fixed[v]}
			continue
		}
		room := c.cap - c.size[v]
		low, high := ends(sums, room, threshold)
		if high == 0 {
			out[v] = sums[:low:low]
			continue
		}
		list := slices.Clone(sums[:low])
		for k := high - 1; k >= 0; k-- {
			list = append(list, room-sums[k])
		}
		out[v] = list
	}
	return out
}

// ends counts the sums below the threshold and at most room, and those that, taken from room, reach it.
func ends(sums []int64, room, threshold int64) (low, high int) {
	if room < 0 {
		return 0, 0
	}
	low, _ = slices.BinarySearch(sums, min(threshold, room+1))
	if room >= threshold {
		high, _ = slices.BinarySearch(sums, room-threshold+1)
	}
	return low, high
}
