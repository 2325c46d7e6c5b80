package ir

import (
	"cmp"
	"math/bits"
	"slices"
)

// Sharing says how buffers of different streams may use the same addresses.
//
// Work on one stream is ordered; between streams it is not, so an address passes to another
// stream only through an event: recorded on the old stream at the free, waited for by the new
// one. A wait for an old event costs nothing, a wait for a young one costs overlap. AGE is the
// number of requests that must lie between:
//
//	stream 0   | a a a a |                           at least AGE ticks from the end of a
//	stream 1             |< ---- AGE ---- >| b b b   to the start of b, at one address
//
// A buffer that was under record_stream may still be in use by a second stream when it ends, so its own
// stream must wait, too. Until when, the recording shows: there the memory came back only when the marked
// streams were done. So its *lag* is the ticks from its end to that moment, and AGE or the lag, whichever is less,
// lies between its end and a reuse on its own stream. Its own next instance, an iteration later, is exempt: it
// has no other address.
//
// The loop is a circle: what ends near its end and what begins near its start are a few
// ticks apart, in the next iteration. The last tick before the loop is followed by the first of
// it, too.
//
// AGE is a price, not the safety: the runtime waits whenever the owner changes stream.
type Sharing struct {
	On  bool // false: buffers of different streams share no address
	Age Tick // plan ticks between an end and a reuse by another stream; 0 where On is false
}

// MaxAge is the largest AGE: the plan file keeps 1 + AGE in 32 bits.
const MaxAge Tick = 1<<32 - 2

// MaxLag is the largest lag that is told from longer ones.
const MaxLag = 1<<16 - 1

// Waits reports whether a buffer of that stream that takes an address from b must wait for another stream than
// its own.
func (b *Buffer) Waits(stream StreamID) bool { return b.Lag > 0 || b.Stream != stream }

// Distance is how many ticks at least must lie between the end of b and a reuse by a stream.
func (b *Buffer) Distance(stream StreamID, age Tick) Tick {
	if b.Stream == stream && b.Lag < MaxLag {
		return min(Tick(b.Lag), age)
	}
	return age
}

// Handover is an address that passes from one buffer to the next, of which the latter must wait
// for an event of another stream.
type Handover struct {
	From, To BufferID
	End      Tick // plan tick at which From ends
	Age      Tick // ticks from there to the start of To
	// Steady: To starts in the loop, and all that went before is what the iteration before
	// left; false while prologue and first iteration run.
	Steady bool
}

// Handovers lists the handovers of l in the order of the starts of To, each pair once for each start.
// l must be free of overlaps (V2). The steady ones are those of one turn of the loop.
func (p *Problem) Handovers(l *Layout) []Handover {
	turn := p.L1 - p.L0
	var items []Placed
	add := func(i int, s, e Tick) {
		from := l.Offsets[i]
		items = append(items, Placed{uint32(i), s, e, from, from + Offset(p.Buffers[i].Size)})
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.HasHead() {
			add(i, b.HeadStart, b.HeadEnd)
		}
		add(i, b.Start, b.End)
		if turn > 0 && b.Start >= p.L0 { // the second turn
			if b.HasHead() {
				add(i, p.L1, b.HeadEnd+turn)
			}
			add(i, b.Start+turn, b.End+turn)
		}
	}
	var out []Handover
	Successions(items, func(a, b Placed) {
		if a.ID == b.ID || !p.Buffers[a.ID].Waits(p.Buffers[b.ID].Stream) {
			return
		}
		h := Handover{From: BufferID(a.ID), To: BufferID(b.ID), End: a.End, Age: b.Start - a.End, Steady: b.Start >= p.L1 && turn > 0}
		if n := len(out); n > 0 && out[n-1] == h {
			return
		}
		out = append(out, h)
	})
	return out
}

// Successions calls next for each two items that hold an address one directly after the other, in the
// order of the starts of the later one; more than once for a pair that do so at several places. Items
// that meet in time and address make the answer meaningless. O(n log n).
//
// Each address remembers its last owner. Addresses that do so alike form a run, and an item that
// starts looks at the runs in its range and makes them one:
//
//	last owner   |   a   | b |    c    |  -   |
//	d starts         |=========|                  follows a, b, c
//	last owner   | a |    d    |   c   |  -   |
func Successions(items []Placed, next func(a, b Placed)) {
	order := make([]int32, 0, len(items))
	edges := make([]Offset, 0, 2*len(items))
	for i, it := range items {
		if it.From < it.To && it.Start < it.End {
			order = append(order, int32(i))
			edges = append(edges, it.From, it.To)
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(items[a].Start, items[b].Start), cmp.Compare(a, b))
	})
	slices.Sort(edges)
	edges = slices.Compact(edges)
	runs := newRuns(len(edges))
	for _, i := range order {
		it := items[i]
		lo, _ := slices.BinarySearch(edges, it.From)
		hi, _ := slices.BinarySearch(edges, it.To)
		runs.cut(lo)
		runs.cut(hi)
		for k := lo; k < hi; k = runs.after(k) {
			if o := runs.owner[k]; o >= 0 {
				next(items[o], it)
			}
			runs.clear(k)
		}
		runs.set(lo)
		runs.owner[lo] = i
	}
}

// runs cuts [0, n) into runs with an owner each, -1 for none. Where runs begin is a set of bits
// with a summary of each 64, and so on.
type runs struct {
	owner  []int32
	levels [][]uint64
}

func newRuns(n int) *runs {
	r := &runs{owner: make([]int32, n)}
	for words := n; ; {
		words = words/64 + 1
		r.levels = append(r.levels, make([]uint64, words))
		if words == 1 {
			break
		}
	}
	if n > 0 {
		r.owner[0] = -1
		r.set(0)
	}
	return r
}

func (r *runs) set(k int) {
	for _, l := range r.levels {
		l[k/64] |= 1 << (k % 64)
		k /= 64
	}
}

func (r *runs) clear(k int) {
	for _, l := range r.levels {
		l[k/64] &^= 1 << (k % 64)
		if l[k/64] != 0 {
			return
		}
		k /= 64
	}
}

// after is the begin of the run after the one that begins at k or earlier; past the end where there is none.
func (r *runs) after(k int) int {
	k++
	for d := 0; d < len(r.levels); d++ {
		if w := k / 64; w < len(r.levels[d]) {
			if m := r.levels[d][w] >> (k % 64); m != 0 {
				k += bits.TrailingZeros64(m)
				for d--; d >= 0; d-- {
					k = k*64 + bits.TrailingZeros64(r.levels[d][k])
				}
				return k
			}
		}
		k = k/64 + 1
	}
	return len(r.owner)
}

// cut makes a run begin at k.
func (r *runs) cut(k int) {
	if r.levels[0][k/64]>>(k%64)&1 == 1 {
		return
	}
	b := k
	for d := 0; ; d++ {
		if m := r.levels[d][b/64] & (1<<(b%64) - 1); m != 0 {
			b = b/64*64 + 63 - bits.LeadingZeros64(m)
			for d--; d >= 0; d-- {
				b = b*64 + 63 - bits.LeadingZeros64(r.levels[d][b])
			}
			break
		}
		b /= 64
	}
	r.owner[k] = r.owner[b]
	r.set(k)
}
