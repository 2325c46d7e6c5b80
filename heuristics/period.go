package heuristics

import (
	"cmp"
	"slices"

	"stweaver/ir"
)

// Finding the period of a fold. Time is counted in starts here: place k is the start of seq[k],
// and a life is the number of starts during it. So what one iteration has and the next has not
// (an optional request, a tick at which another stream allocates) shifts nothing.
//
//	sizes     p p | a b c d c | a b c d c | a b c d c | a b q q
//	                \_________/  n = 5
//	window          [ ------------------------------------- )
//	beside        .                                          ..   pieces that follow the pattern
//
//  1. candidates: the distances between a buffer and those of the same size and life before it,
//     weighed by themselves. What lives long has a life of its own in each layer, so it comes
//     once a micro-batch, and its distance is the period; a layer's is shorter
//  2. a candidate is compared in full, size by size: the stretches of two periods or more are its
//     windows
//  3. the best is the one that repeats the most size × life × buffers, with the copies that
//     takes on the circle
//  4. before and after a window the schedule is the same with pieces left out: warm-up is
//     forwards without backwards, cool-down the other way round. Each piece takes the next place
//     of the pattern that it fits
//
// All of it is a few passes over the buffers. A program without a period costs the voting and
// the first mismatches.

const (
	periodVotes  = 24 // candidates that are compared in full
	periodRecent = 4  // of the same sign that a buffer votes with
	periodSaves  = 8  // one placement in so many must be saved
	copiesMost   = 16 // of a period on the circle

	besidePieces = 64 // beside a window
	besideSkips  = 16 // buffers left out between two
	besideLeast  = 16 // buffers of one
)

// period is a repeat: buffer k of a window is like buffer k+n.
type period struct {
	n       int
	copies  int // of n places on the circle
	seq     []int32
	lives   []int // in starts, by place
	windows []window
}

// window is a run of at least two periods: the places [from, to).
type window struct {
	from, to int
	turn     int // place of the first window's period at which it begins
}

// sign is what repeats of one buffer share.
type sign struct {
	size ir.Bytes
	life int
}

func (in *instance) size(p *period, k int) ir.Bytes { return in.buffers[p.seq[k]].Size }

func (in *instance) sign(p *period, k int) sign { return sign{in.size(p, k), p.lives[k]} }

// timed is the beginning of a period: the buffers by start, and their lives.
func (in *instance) timed() *period {
	var seq []int32
	for _, id := range in.ids(byStart) {
		// A head is another time to be at: such a buffer repeats nothing.
		if b := &in.buffers[id]; b.Size > 0 && !in.pieces[id].empty() && !b.HasHead() {
			seq = append(seq, id)
		}
	}
	lives := make([]int, len(seq))
	for k, id := range seq {
		after, _ := slices.BinarySearchFunc(seq[k:], in.buffers[id].End, func(id int32, t ir.Tick) int {
			return cmp.Compare(in.buffers[id].Start, t)
		})
		lives[k] = after
	}
	return &period{seq: seq, lives: lives}
}

// findPeriod returns the period that is worth the most; nil if none is.
func (in *instance) findPeriod() *period {
	var best *period
	most := 0.0
	all := in.timed()
	for _, n := range in.distances(all) {
		p := &period{n: n, seq: all.seq, lives: all.lives}
		if worth := in.compare(p); worth > most {
			best, most = p, worth
		}
	}
	if best != nil {
		in.turnWindows(best)
	}
	return best
}

// distances returns those that may be periods, best first. Long ones are few: the distance from
// iteration to iteration comes in many variants.
func (in *instance) distances(p *period) []int {
	last := map[sign][periodRecent]int{} // places + 1
	votes := make([]int, len(p.seq)/2+1)
	for k := range p.seq {
		s := in.sign(p, k)
		at := last[s]
		for _, j := range at {
			if d := k + 1 - j; j > 0 && d < len(votes) {
				votes[d] += d
			}
		}
		copy(at[1:], at[:])
		at[0] = k + 1
		last[s] = at
	}
	var all, out []int
	for d, v := range votes {
		if v > 2*d {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a, b)) })
	long := 0
	for _, d := range all {
		if d > len(p.seq)/4 {
			if long++; long > periodVotes/4 {
				continue
			}
		}
		if out = append(out, d); len(out) == periodVotes {
			break
		}
	}
	return out
}

// compare finds the windows and copies of a candidate, and returns its worth.
func (in *instance) compare(p *period) float64 {
	var areas [copiesMost + 1]float64
	var saves [copiesMost + 1]int
	longest := 0
	for k := 0; k+p.n < len(p.seq); k++ {
		from := k
		for k+p.n < len(p.seq) && in.size(p, k) == in.size(p, k+p.n) {
			k++
		}
		if k-from < p.n {
			continue
		}
		for j := from; j < k; j++ {
			s := in.sign(p, j)
			if u := (s.life + p.n - 1) / p.n; u <= copiesMost && s == in.sign(p, j+p.n) {
				saves[u]++
				areas[u] += float64(s.size) * float64(s.life)
			}
		}
		k += p.n
		p.windows = append(p.windows, window{from: from, to: k})
		longest = max(longest, k-from)
	}
	worth, area, same := 0.0, 0.0, 0
	for u := 1; u <= min(copiesMost, longest/p.n-1); u++ {
		area += areas[u]
		same += saves[u]
		if saved := same - (u-1)*p.n; saved >= max(1, len(p.seq)/periodSaves) && area*float64(saved) > worth {
			worth, p.copies = area*float64(saved), u
		}
	}
	return worth
}

// turnWindows lines the windows up with the first. Those of another pattern go.
func (in *instance) turnWindows(p *period) {
	first := p.windows[0].from
	kept := p.windows[:1]
	for _, w := range p.windows[1:] {
		most := -1
	turn:
		for t := range p.n {
			same := 0
			for k := range p.n {
				a, b := w.from+k, first+(k+t)%p.n
				if in.size(p, a) != in.size(p, b) {
					continue turn
				}
				if p.lives[a] == p.lives[b] {
					same++
				}
			}
			if same > most {
				most, w.turn = same, t
			}
		}
		if most >= 0 {
			kept = append(kept, w)
		}
	}
	p.windows = kept
}

// unrolled says where the buffers are on the circle rolled out: places go on from turn to turn.
type unrolled struct {
	sizes, pattern []ir.Bytes
	places         []int // by place in seq; -1 for none
	windows        []int // by place in seq: which one it belongs to
}

// unroll lays down the windows first, then what lies beside them, piece by piece from both ends
// of each gap.
func (in *instance) unroll(p *period) *unrolled {
	x := &unrolled{places: slices.Repeat([]int{-1}, len(p.seq)), windows: make([]int, len(p.seq))}
	for k := range p.seq {
		x.sizes = append(x.sizes, in.size(p, k))
	}
	x.pattern = x.sizes[p.windows[0].from:][:p.n]
	far := p.n * p.copies * 2 * (besidePieces + len(p.seq)/p.n) // so that no place is negative
	type edge struct{ window, at, place, dir int }
	var edges []edge
	for i, w := range p.windows {
		for k := w.from; k < w.to; k++ {
			x.places[k], x.windows[k] = far+w.turn+k-w.from, i
		}
		edges = append(edges, edge{i, w.from - 1, x.places[w.from] - 1, -1}, edge{i, w.to, x.places[w.to-1] + 1, 1})
	}
	for range besidePieces {
		for i := range edges {
			e := &edges[i]
			e.at, e.place = x.extend(e.window, e.at, e.place, e.dir)
		}
	}
	return x
}

// extend lays down the longest run that follows the pattern after leaving out some buffers or a
// piece of the pattern. It returns where the next may begin.
func (x *unrolled) extend(window, at, place, dir int) (int, int) {
	n := len(x.pattern)
	free := func(k int) bool { return 0 <= k && k < len(x.places) && x.places[k] < 0 }
	most, from, to := 0, 0, 0
	for skip := 0; skip <= besideSkips && most < besideLeast && free(at+dir*skip); skip++ {
		for cut := range n + n/4 {
			l := 0
			for k, g := at+dir*skip, place+dir*cut; free(k) && x.sizes[k] == x.pattern[g%n]; k, g = k+dir, g+dir {
				l++
			}
			if l > most {
				most, from, to = l, at+dir*skip, place+dir*cut
			}
		}
	}
	if most < besideLeast {
		return -1, place
	}
	for l := range most {
		x.places[from+dir*l], x.windows[from+dir*l] = to+dir*l, window
	}
	return from + dir*most, to + dir*most
}
