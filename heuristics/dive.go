package heuristics

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"stweaver/ir"
)

// The dive: not "where does this buffer go" but "which buffer goes lowest".
//
// The skyline is, for each section, the top of what has been placed there. A buffer lies
// on the highest point of the skyline during its life; of all unplaced buffers, the one
// that would lie lowest is placed, equals by a fixed priority. No hole is left that an
// unplaced buffer could have used at that moment; holes are never filled later.
//
//	address   ____         next: the buffer that fits in the dip, whatever its size,
//	   |     |    |__      before any that would lie on the tower
//	   |  ___|       |
//	   | |           |___
//	   +-----------------> time
//
// The skyline only rises, so a height that was computed earlier is a lower bound: a heap
// holds the last known heights, and a buffer that comes out too low goes back in.
//
// Buffers with the same life always lie at the same height, so of these twins only the
// first is in the heap.
//
// Good where buffers tile each other (inference, the hard published instances), poor on
// interleaved schedules, slow where many heights change often: limited to small problems.
//
// Source: the first branch of MiniMalloc's search (ASPLOS'23), with its priorities.

// diver is a heap entry: off is a lower bound of the buffer's address.
type diver struct {
	off  int64
	rank int32 // position in the priority
}

func (a diver) before(b diver) bool { return a.off < b.off || a.off == b.off && a.rank < b.rank }

// dive returns the packer with the priority of k.
func dive(k key) func(*bench) bool {
	return func(w *bench) bool { return w.dive(w.in.ids(k)) }
}

// dive places all buffers, equals in the given order. It reports false if the leash ended it.
func (w *bench) dive(priority []int32) bool {
	in := w.in
	w.peak = 0
	sky := newSkyline(len(in.load))
	heap := make([]diver, 0, len(priority))
	twins := in.twinClasses()
	next := make([]int32, len(priority)) // by rank: that of the next twin, 0 if none
	last := make([]int32, twins.n)       // by class: 1 + rank of the last one seen
	for rank, id := range priority {
		if p := &in.pieces[id]; p.empty() || in.buffers[id].Size == 0 {
			w.offsets[id] = 0
			w.peak = max(w.peak, int64(in.buffers[id].Size))
			continue
		}
		t := twins.of[id]
		if l := last[t]; l > 0 {
			next[l-1] = int32(rank)
		} else {
			heap = append(heap, diver{0, int32(rank)}) // ascending: already a heap
		}
		last[t] = int32(rank) + 1
	}
	ceil := int64(math.MaxInt64)
	for n := 0; len(heap) > 0; n++ {
		if n%asking == 0 {
			if w.leash.ceil != nil {
				ceil = w.leash.ceil()
			}
			if w.peak > ceil || w.leash.steps > 0 && int64(n)*diveStep > w.leash.steps || w.leash.pops > 0 && int64(n) > w.leash.pops {
				return false
			}
		}
		d := &heap[0]
		id := priority[d.rank]
		p := &in.pieces[id]
		if off := max(sky.top(p.s, p.e), sky.top(p.hs, p.he)); off > d.off {
			d.off = off
			sink(heap)
			continue
		}
		off, top := d.off, d.off+int64(in.buffers[id].Size)
		if top > ceil {
			return false
		}
		if in.parts == nil || in.parts[id] == nil {
			sky.raise(p.s, p.e, top)
			sky.raise(p.hs, p.he, top)
		} else {
			for _, q := range in.parts[id] {
				sky.raise(q.p.s, q.p.e, off+q.hi)
				sky.raise(q.p.hs, q.p.he, off+q.hi)
			}
		}
		w.offsets[id] = ir.Offset(off)
		w.peak = max(w.peak, top)
		if n := next[d.rank]; n > 0 {
			heap[0] = diver{off, n}
		} else {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		sink(heap)
	}
	return true
}

// twins are the classes of buffers with the same life.
type twins struct {
	once sync.Once
	of   []int32 // by buffer
	n    int
}

func (in *instance) twinClasses() *twins {
	in.twins.once.Do(func() {
		in.twins.of = make([]int32, len(in.pieces))
		class := make(map[piece]int32)
		for i, p := range in.pieces {
			c, ok := class[p]
			if !ok {
				c = int32(len(class))
				class[p] = c
			}
			in.twins.of[i] = c
		}
		in.twins.n = len(class)
	})
	return &in.twins
}

// diveStep is what one look at the skyline counts in index steps.
const diveStep = 64

// sink restores the heap after its first entry grew.
func sink(h []diver) {
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// skyline is a tree over n sections with the operations "highest in a range" and "raise a
// range to at least". Node i has the children 2i and 2i+1; section k is node n+k.
type skyline struct {
	n     int
	high  []int64 // highest below the node, raises of the nodes above it not counted
	whole []int64 // what the node as a whole was raised to
}

func newSkyline(n int) *skyline {
	pow := 1
	for pow < n {
		pow *= 2
	}
	return &skyline{pow, make([]int64, 2*pow), make([]int64, 2*pow)}
}

// top is the highest point of [s, e); 0 where that is empty.
func (y *skyline) top(s, e int32) int64 {
	if s >= e {
		return 0
	}
	best := int64(0)
	l, r := int(s)+y.n, int(e)-1+y.n // inclusive
	for a, b := l, r; ; a, b = a/2, b/2 {
		best = max(best, y.whole[a], y.whole[b])
		if a == b {
			for a > 1 {
				a /= 2
				best = max(best, y.whole[a])
			}
			break
		}
	}
	for a, b := l, r+1; a < b; a, b = a/2, b/2 {
		if a&1 == 1 {
			best = max(best, y.high[a])
			a++
		}
		if b&1 == 1 {
			b--
			best = max(best, y.high[b])
		}
	}
	return best
}

// raise lifts [s, e) to at least to.
func (y *skyline) raise(s, e int32, to int64) {
	if s >= e {
		return
	}
	l, r := int(s)+y.n, int(e)-1+y.n
	for a, b := l, r+1; a < b; a, b = a/2, b/2 {
		if a&1 == 1 {
			y.high[a], y.whole[a] = max(y.high[a], to), max(y.whole[a], to)
			a++
		}
		if b&1 == 1 {
			b--
			y.high[b], y.whole[b] = max(y.high[b], to), max(y.whole[b], to)
		}
	}
	for ; l > 1; l, r = l/2, r/2 {
		y.high[l/2], y.high[r/2] = max(y.high[l/2], to), max(y.high[r/2], to)
	}
}

// drawnPriority orders the buffers by a weighted sum of the logarithms of size, life and
// need, and by the start: a dive with drawn weights. Integers only, so that no rounding
// differs between processors.
func (w *bench) drawnPriority(g *splitmix) []int32 {
	in := w.in
	in.crests.Do(in.rankCrests)
	a, b, c := int64(g.below(16)), int64(g.below(16)), int64(g.below(31))
	d := int64(0)
	if g.below(3) == 0 {
		d = int64(g.below(21))
	}
	noise, salt := int64(g.below(3))*4096, g.next() // the same for all buffers of one size
	span := max(in.span/1024, 1)
	score := make([]int64, len(in.buffers))
	w.order = w.order[:0]
	for i := range in.buffers {
		id := int32(i)
		score[i] = a*log2(int64(in.buffers[i].Size)) + b*log2(int64(in.life(id))) + c*log2(int64(in.need[i])) -
			d*int64(in.first(id)/span)
		if noise > 0 {
			h := splitmix(salt ^ uint64(in.buffers[i].Size))
			score[i] += int64(h.next() % uint64(noise))
		}
		w.order = append(w.order, id)
	}
	slices.SortStableFunc(w.order, func(x, y int32) int {
		switch {
		case score[x] > score[y]:
			return -1
		case score[x] < score[y]:
			return 1
		}
		return 0
	})
	return w.order
}

// log2 is about 1024 log2(n), rising with n; 0 for n < 1.
func log2(n int64) int64 {
	if n < 1 {
		return 0
	}
	e := bits.Len64(uint64(n)) - 1
	return int64(e)<<10 | int64(uint64(n)<<(63-e)>>53&1023)
}
