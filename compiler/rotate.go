package compiler

import "slices"

// rotate moves the anchors of a period to where the fewest bytes are alive, and returns the
// cuts, clocks, at least two. The place is sought in the last window, and near the same
// distance from the other anchors; where the windows differ in length it may lie that much
// elsewhere. A cut after the last anchor is added where the recording reaches it.
//
//	anchors     a              a              a
//	live     __/ \/\_________/ \/\_________/ \/\___|
//	cuts            ^              ^             ^
func rotate(s *sequence, anchors []uint32) []int {
	anchors = withoutStray(anchors)
	k := len(anchors)
	from, to := int(anchors[k-2]), int(anchors[k-1])
	shift := 0
	if k == 3 { // the last window must end inside the recording, or only one would be left
		to = min(to, from+s.len()-to+1)
	}
	for i := from; i < to; i++ {
		if s.live[i] < s.live[from+shift] {
			shift = i - from
		}
	}
	settled := anchors
	if k >= 4 {
		settled = anchors[1:] // the first window may hold the cold iteration
	}
	shortest, longest := gaps(settled)
	reach := longest - shortest + 8
	lowest := func(target int) int {
		best := target
		for d := 1; d <= reach; d++ {
			for _, i := range [2]int{target - d, target + d} {
				if i >= 0 && i < s.len() && s.live[i] < s.live[best] {
					best = i
				}
			}
		}
		return best
	}
	var cuts []int
	for _, a := range anchors {
		switch target := int(a) + shift; {
		case target < s.len():
			cuts = append(cuts, lowest(target))
		case target <= s.len()+reach:
			cuts = append(cuts, s.len())
		}
	}
	if len(cuts) >= 2 && slices.IsSortedFunc(cuts, func(a, b int) int { return a - b }) && len(slices.Compact(slices.Clone(cuts))) == len(cuts) {
		return cuts
	}
	plain := make([]int, k)
	for i, a := range anchors {
		plain[i] = int(a)
	}
	return plain
}

// withoutStray drops a first anchor that lies at another distance than the rest: it was met
// during initialisation.
func withoutStray(anchors []uint32) []uint32 {
	if len(anchors) < 4 {
		return anchors
	}
	lo, hi := gaps(anchors[1:])
	slack := hi - lo + 8
	if first := int(anchors[1] - anchors[0]); first < lo-slack || first > hi+slack {
		return anchors[1:]
	}
	return anchors
}
