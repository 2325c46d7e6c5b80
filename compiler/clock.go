package compiler

import (
	"sort"

	"stweaver/ir"
)

// The clock of the planner counts requests, not events and not time:
//
//	events   A . f A A f f A
//	clock    0     1 2     3        the k-th request is made at clock k
//	           '-----------> 1      a free lies at the clock of the request that follows it
//
// It is all that matters for memory: how many frees lie between two requests, and in which
// order, changes no layout; and a free that comes a little late inside the same gap changes
// nothing at all.

// noEnd is the end of a request that is never freed.
const noEnd = ^uint32(0)

// longLife is the clamped life of all requests that outlive eight others. Exact small lives
// are the fingerprint of an operator; the long ones depend on what the data did in between.
const longLife = 9

// smallSize is the largest rounded size, in bytes, that says nothing: a single block.
const smallSize = ir.Align

// token is what a request looks like to the alignment and to the period search.
type token struct {
	size   ir.Bytes // rounded
	stream ir.StreamID
	life   uint8 // requests made during its life, clamped to longLife
	nf     uint8 // completed frees since the request before, clamped to 3
}

// sequence is the trace on the clock: the requests of the default pool that were seen to
// be made, in order. It is immutable.
type sequence struct {
	t    *ir.Trace
	req  []uint32   // index in t.Requests
	tick []ir.Tick  // of the alloc
	end  []uint32   // clock of the free: the first request after it; noEnd: never
	tok  []token    //
	live []ir.Bytes // live[k]: rounded bytes alive just before request k; one more at the end
}

func planned(r *ir.Request) bool { return r.Alloc >= 0 && counted(r) }

// counted reports whether the plan's clock and load know r at all.
func counted(r *ir.Request) bool { return r.Pool == 0 && r.Size > 0 && r.Flags&ir.Ignored == 0 }

// newSequence puts t on the clock in O(n log n).
func newSequence(t *ir.Trace) *sequence {
	n := 0
	for i := range t.Requests {
		if planned(&t.Requests[i]) {
			n++
		}
	}
	s := &sequence{
		t:    t,
		req:  make([]uint32, 0, n),
		tick: make([]ir.Tick, 0, n),
		end:  make([]uint32, n),
		tok:  make([]token, n),
		live: make([]ir.Bytes, n+1),
	}
	for i := range t.Requests {
		if r := &t.Requests[i]; planned(r) {
			s.req = append(s.req, uint32(i))
			s.tick = append(s.tick, r.Alloc)
		}
	}
	frees := make([]uint8, n+1)
	k := 0
	for i := range t.Requests {
		r := &t.Requests[i]
		if !counted(r) {
			continue
		}
		size, from, end := r.Rounded(), 0, noEnd
		if r.Free != ir.Never {
			end = uint32(s.at(r.Free))
			frees[end] = min(frees[end]+1, 3)
			s.live[end] -= size
		}
		if r.Alloc >= 0 {
			life := uint8(longLife)
			if end != noEnd && int(end)-k-1 < longLife {
				life = uint8(max(int(end)-k-1, 0))
			}
			s.tok[k] = token{size: size, stream: r.Stream, life: life}
			s.end[k] = end
			from = k + 1
			k++
		}
		s.live[from] += size
	}
	for k := range s.tok {
		s.tok[k].nf = frees[k]
		s.live[k+1] += s.live[k]
	}
	return s
}

// len is the number of requests.
func (s *sequence) len() int { return len(s.req) }

// at is the clock of a tick: the number of requests made before it.
func (s *sequence) at(tick ir.Tick) int {
	return sort.Search(len(s.tick), func(k int) bool { return s.tick[k] >= tick })
}

// shape counts the requests of a stretch by structure: life, frees before, and whether the
// size is a single block. Sizes themselves would tell two iterations of one program apart
// as soon as the data varies.
type shape [(longLife + 1) * 4 * 2]int32

func (s *sequence) shape(from, to int) *shape {
	var h shape
	for _, t := range s.tok[from:to] {
		h[t.bin()]++
	}
	return &h
}

func (t *token) bin() int {
	b := int(t.life)*8 + int(t.nf)*2
	if t.size <= smallSize {
		b++
	}
	return b
}

// perfect is the similarity of two stretches with the same shape; similarities are
// integers in [0, perfect], so that no machine rounds them differently.
const perfect = 1_000_000

// similarity is the size of the common part of two shapes over the larger of the two.
func similarity(a, b *shape) int {
	var common, na, nb int64
	for i := range a {
		common += int64(min(a[i], b[i]))
		na += int64(a[i])
		nb += int64(b[i])
	}
	if m := max(na, nb); m > 0 {
		return int(common * perfect / m)
	}
	return perfect
}

// similarities compares neighbouring windows: result i is the similarity of the windows
// [cuts[i], cuts[i+1]) and [cuts[i+1], cuts[i+2]), cuts being clocks.
func (s *sequence) similarities(cuts []int) []int {
	var out []int
	var prev *shape
	for i := 0; i+1 < len(cuts); i++ {
		h := s.shape(cuts[i], cuts[i+1])
		if prev != nil {
			out = append(out, similarity(prev, h))
		}
		prev = h
	}
	return out
}

// tickOf is the tick of a clock: of the request made then, or just after the last one.
func (s *sequence) tickOf(clock int) ir.Tick {
	if clock < len(s.tick) {
		return s.tick[clock]
	}
	if len(s.tick) == 0 {
		return 0
	}
	return s.tick[len(s.tick)-1] + 1
}
