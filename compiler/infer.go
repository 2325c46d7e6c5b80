package compiler

import (
	"cmp"
	"slices"
)

// Inferring the iteration from the requests alone.
//
//	requests   i i i i A b c A' d e f A b c A' d e f A b c A' d e f
//	anchor             |              |              |               a token seen at regular gaps
//	windows            '--------------'--------------'               as long as its period
//	rotated        |              |              |              |    cut where least is alive
//
//  1. Every request has an exact token (size, life, frees before, stream). A token that comes
//     back at regular gaps over most of the log votes for their mean as the period.
//  2. Votes within 3 % form a cluster; its anchor is the token with most occurrences.
//  3. A cluster is judged by cutting the log at its anchor and comparing neighbouring windows
//     by structure, never by size: sizes follow the data. The worst pair counts, for it is
//     what tells a micro-batch from an iteration: the window with the optimizer differs.
//  4. The smallest period wins that is (nearly) as good as the best.
//  5. Where no token is regular: the same with bursts, the first occurrences after a long
//     gap. If that fails too, tokens that are regular now and then still show that something
//     repeats, but not for certain: such a trace is refused, not guessed at.
//  6. The cut moves to where the fewest bytes are alive in the period: what lies across it
//     must be carried round the loop.
//
// What repeats need not be the iteration. Layers repeat inside one pass, but leave something
// behind each time; micro-batches repeat, but the one before the optimizer is unlike the
// others (doubt.go).
//
// All of it is integer arithmetic, in O(n) for each cluster.

// Thresholds, in the units of similarity or as ratios num/den.
const (
	minGap      = 20  // requests: shorter periods are loops inside an operator
	maxDrop     = 3   // early occurrences that may be ignored: initialisation has its own
	minOccur    = 3   // occurrences that make a period
	coverPct    = 55  // part of the log that the occurrences must span
	gapPct      = 130 // the longest gap over the shortest
	clusterPct  = 103 // periods of one cluster over its smallest
	minVotes    = 2   // tokens of a cluster
	goodWindows = perfect * 80 / 100
	nearBest    = 985 // of 1000: a shorter period must be this good to win over a longer one
	nearBestBig = 950 // of 1000: … where it has manyAnchors and half of the most votes
	manyAnchors = 5
	regularPct  = 40 // relaxed: gaps that must be near the median
)

// period is a candidate for the iteration.
type period struct {
	anchors []uint32 // clocks
	mean    int      // requests × 256
	votes   int
	similar int  // of the windows that count: the worst pair
	certain bool // found by a rule that has to hold everywhere
}

// occurrences groups the clocks of s by exact token, in order of first appearance, and
// keeps the tokens that occur often enough.
func occurrences(s *sequence) [][]uint32 {
	type exact struct {
		token
		end uint32 // life in requests, not clamped; noEnd: never
	}
	ids := make(map[exact]uint32, 1024)
	id := make([]uint32, s.len())
	var counts []uint32
	for k, t := range s.tok {
		e := exact{t, noEnd}
		if s.end[k] != noEnd {
			e.end = s.end[k] - uint32(k)
		}
		g, ok := ids[e]
		if !ok {
			g = uint32(len(counts))
			ids[e] = g
			counts = append(counts, 0)
		}
		id[k] = g
		counts[g]++
	}
	flat := make([]uint32, 0, s.len())
	groups := make([][]uint32, len(counts))
	for g, c := range counts {
		if c >= minOccur {
			groups[g] = flat[len(flat) : len(flat) : len(flat)+int(c)]
			flat = flat[:len(flat)+int(c)]
		}
	}
	for k, g := range id {
		if groups[g] != nil {
			groups[g] = append(groups[g], uint32(k))
		}
	}
	return slices.DeleteFunc(groups, func(g []uint32) bool { return g == nil })
}

// gaps returns the shortest and the longest distance of neighbours.
func gaps(occ []uint32) (lo, hi int) {
	lo = int(occ[1] - occ[0])
	for i := 1; i < len(occ); i++ {
		g := int(occ[i] - occ[i-1])
		lo, hi = min(lo, g), max(hi, g)
	}
	return lo, hi
}

// covers reports whether occ spans enough of a log of n requests.
func covers(occ []uint32, n int) bool {
	return int(occ[len(occ)-1]-occ[0])*100 >= coverPct*n
}

// regular returns occ without at most maxDrop early members, such that the rest is
// regular; nil if there is no such rest.
func regular(occ []uint32, n int) []uint32 {
	for drop := 0; drop <= maxDrop && len(occ)-drop >= minOccur; drop++ {
		rest := occ[drop:]
		if !covers(rest, n) {
			return nil
		}
		if lo, hi := gaps(rest); lo >= minGap && hi*100 <= lo*gapPct {
			return rest
		}
	}
	return nil
}

// bursts keeps the occurrences that follow a gap longer than half of the longest.
func bursts(occ []uint32, n int) []uint32 {
	_, hi := gaps(occ)
	out := []uint32{occ[0]}
	for i := 1; i < len(occ); i++ {
		if int(occ[i]-occ[i-1])*2 > hi {
			out = append(out, occ[i])
		}
	}
	if len(out) < minOccur {
		return nil
	}
	return regular(out, n)
}

// loose keeps occ if enough of its gaps are near their median.
func loose(occ []uint32, n int) []uint32 {
	if !covers(occ, n) {
		return nil
	}
	d := make([]int, len(occ)-1)
	for i := range d {
		d[i] = int(occ[i+1] - occ[i])
	}
	slices.Sort(d)
	med := d[len(d)/2]
	near := 0
	for _, g := range d {
		if g*100 <= med*115 && med*100 <= g*115 {
			near++
		}
	}
	if med < minGap || near*100 < regularPct*len(d) {
		return nil
	}
	return occ
}

// clusters gathers the groups that pick accepts by their period.
func clusters(groups [][]uint32, n int, pick func([]uint32, int) []uint32) []period {
	type vote struct {
		occ        []uint32
		mean, skew int // skew: longest over shortest gap, × 1024
	}
	var votes []vote
	for _, g := range groups {
		occ := pick(g, n)
		if occ == nil {
			continue
		}
		lo, hi := gaps(occ)
		votes = append(votes, vote{occ, int(occ[len(occ)-1]-occ[0]) * 256 / (len(occ) - 1), hi * 1024 / max(lo, 1)})
	}
	slices.SortStableFunc(votes, func(a, b vote) int { return cmp.Compare(a.mean, b.mean) })
	var out []period
	for i := 0; i < len(votes); {
		j, best := i, i
		for ; j < len(votes) && votes[j].mean*100 <= votes[i].mean*clusterPct; j++ {
			if c := cmp.Compare(len(votes[j].occ), len(votes[best].occ)); c > 0 || c == 0 && votes[j].skew < votes[best].skew {
				best = j
			}
		}
		if j-i >= minVotes {
			out = append(out, period{anchors: votes[best].occ, mean: votes[best].mean, votes: j - i})
		}
		i = j
	}
	return out
}

// judge sets the similarity of the windows of each period. It stays 0 for what repeats but
// cannot be the iteration.
func judge(s *sequence, ps []period, certain bool) {
	for i := range ps {
		p := &ps[i]
		p.certain = certain
		a := p.anchors
		if len(a) >= 4 {
			a = a[1:] // the first window may hold the cold iteration
		}
		shapes := make([]*shape, len(a)-1)
		for j := range shapes {
			shapes[j] = s.shape(int(a[j]), int(a[j+1]))
		}
		sim := apart(shapes, 1)
		if len(sim) == 0 { // three anchors that are all there is
			sim = []int{perfect}
		}
		slices.Sort(sim)
		worst := sim[0]
		if !certain {
			worst = sim[len(sim)/2]
		}
		if worst >= goodWindows && holdsPeak(s, p.anchors) && !drifts(s, a) && !retains(s, a) && !alternates(shapes) {
			p.similar = worst
		}
	}
}

// apart compares the shapes that lie d windows apart.
func apart(shapes []*shape, d int) []int {
	var sim []int
	for i := d; i < len(shapes); i++ {
		sim = append(sim, similarity(shapes[i-d], shapes[i]))
	}
	return sim
}

// choose returns the smallest period that is nearly as good as the best; nil if none is good.
func choose(ps []period) *period {
	best, votes := 0, 0
	for i := range ps {
		best, votes = max(best, ps[i].similar), max(votes, ps[i].votes)
	}
	for i := range ps {
		p := &ps[i]
		near := p.similar*1000 >= best*nearBest ||
			p.similar*1000 >= best*nearBestBig && len(p.anchors) >= manyAnchors && p.votes*2 >= votes
		if p.similar >= goodWindows && near {
			return p
		}
	}
	return nil
}

// findPeriod infers the iteration of s; nil where nothing repeats.
func findPeriod(s *sequence) *period {
	groups := occurrences(s)
	for _, rule := range []struct {
		pick    func([]uint32, int) []uint32
		certain bool
	}{{regular, true}, {bursts, true}, {loose, false}} {
		ps := clusters(groups, s.len(), rule.pick)
		judge(s, ps, rule.certain)
		if p := choose(ps); p != nil {
			return p
		}
	}
	return nil
}
