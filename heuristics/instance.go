package heuristics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"stweaver/ir"
)

// instance is what every packer of one Pack call reads: the buffers, their times cut
// into sections, the load of each section, and the orders asked for so far. After
// newInstance it is read-only except for what is made on demand, once, under a lock.
// Safe for use by several goroutines.
type instance struct {
	buffers []ir.Buffer
	span    ir.Tick // length of the timeline; thresholds on lifetimes are fractions of it

	clock  *clock
	pieces []piece    // by buffer
	parts  [][]part   // by buffer: the staircase of a box; nil where there are no boxes
	load   []ir.Bytes // by section: the sizes alive in it
	peak   ir.Bytes   // the highest load
	bound  ir.Bytes   // no layout is lower

	crests sync.Once
	crest  []int32    // by buffer: rank of the highest section it touches, 0 at the live peak
	need   []ir.Bytes // by buffer: the load of that section

	orders [numKeys]struct {
		once sync.Once
		ids  []int32
	}
	climbs  bool // its coarse problems are climbed: it is a crux
	coarses [len(recipes)]coarseOnce
	twins   twins
	blocks  blockSet
	exact   func([]ir.Buffer, ir.Layout) ir.Layout // Options.Exact
	seed    uint64                                 // Options.Seed
	folded  fold
	under   *under  // where rules ask for more than lives and sizes say; else nil
	shared  *shared // where streams share; else nil
}

// piece is the time of a buffer in sections: two half-open ranges, [s, e) for the main
// piece and [hs, he) for the head. A range with s == e is empty.
type piece struct{ s, e, hs, he int32 }

func (p *piece) empty() bool { return p.s == p.e && p.hs == p.he }

// newInstance cuts time into sections and sums their loads.
//
// A section begins at a start that follows an end. Within a section nothing ends before
// the last start, so all that touch a section are alive together at its last start:
//
//	buffers  |--a--|     |---c---
//	          |---b---|   |--d---
//	section  |   0       |   1
//
// Two buffers meet in time iff they meet in a section, and the load of a section is the
// sum of the sizes in it.
func newInstance(buffers []ir.Buffer, horizon ir.Tick) *instance {
	return newTimed(buffers, horizon, newClock(buffers))
}

// newTimed is newInstance with a clock that has at least the edges of the buffers.
func newTimed(buffers []ir.Buffer, horizon ir.Tick, c *clock) *instance {
	if len(buffers) > math.MaxInt32/4 {
		panic(fmt.Sprintf("BUG: heuristics: %d buffers, more than %d", len(buffers), math.MaxInt32/4))
	}
	in := &instance{buffers: buffers, pieces: make([]piece, len(buffers))}
	var sum, largest ir.Bytes
	for i := range buffers {
		size := buffers[i].Size
		if size < 0 || sum > math.MaxInt64-size {
			panic(fmt.Sprintf("BUG: heuristics: buffer %d: size %d is negative or takes the sum of sizes past an int64", i, size))
		}
		sum += size
		largest = max(largest, size)
	}
	in.clock = c
	in.span = max(horizon, c.last)
	in.load = make([]ir.Bytes, c.sections+1)
	for i := range buffers {
		b := &buffers[i]
		p := c.piece(b)
		in.pieces[i] = p
		in.load[p.s] += b.Size
		in.load[p.e] -= b.Size
		in.load[p.hs] += b.Size
		in.load[p.he] -= b.Size
	}
	var live ir.Bytes
	for k, d := range in.load {
		live += d
		in.load[k] = live
		in.peak = max(in.peak, live)
	}
	in.load = in.load[:c.sections]
	in.bound = max(in.peak, largest)
	return in
}

// clock maps ticks to sections.
type clock struct {
	first, last ir.Tick   // of the buffers
	ticks       []ir.Tick // the distinct ones in order, where they are sparse; else nil
	section     []int32   // by tick - first, or by rank in ticks: the section a start there belongs to
	sections    int
}

// sparse is how many ticks a buffer may cost before ticks are ranked instead of indexed.
const sparse = 16

func newClock(buffers []ir.Buffer) *clock {
	c := &clock{first: math.MaxInt64, last: math.MinInt64}
	each := func(f func(s, e ir.Tick)) {
		for i := range buffers {
			b := &buffers[i]
			if b.End > b.Start {
				f(b.Start, b.End)
			}
			if b.HasHead() {
				f(b.HeadStart, b.HeadEnd)
			}
		}
	}
	each(func(s, e ir.Tick) { c.first, c.last = min(c.first, s), max(c.last, e) })
	if c.first > c.last {
		c.first, c.last = 0, 0
		return c
	}
	width := uint64(c.last) - uint64(c.first) + 1
	if width > uint64(sparse*len(buffers)+1<<16) {
		each(func(s, e ir.Tick) { c.ticks = append(c.ticks, s, e) })
		slices.Sort(c.ticks)
		c.ticks = slices.Compact(c.ticks)
		width = uint64(len(c.ticks))
	}
	const starts, ends = 1, 2
	c.section = make([]int32, width)
	each(func(s, e ir.Tick) {
		c.section[c.rank(s)] |= starts
		c.section[c.rank(e)] |= ends
	})
	ended, n := true, int32(-1)
	for k, seen := range c.section {
		ended = ended || seen&ends != 0
		if seen&starts != 0 && ended {
			n++
			ended = false
		}
		c.section[k] = n
	}
	c.sections = int(n) + 1
	return c
}

func (c *clock) rank(t ir.Tick) int {
	if c.ticks == nil {
		return int(t - c.first)
	}
	k, _ := slices.BinarySearch(c.ticks, t)
	return k
}

// touched returns the sections that [s, e) touches, half-open. The last one is the last that
// begins before e.
func (c *clock) touched(s, e ir.Tick) (int32, int32) {
	return c.section[c.rank(s)], c.section[c.rank(e)-1] + 1
}

func (c *clock) piece(b *ir.Buffer) piece {
	var p piece
	if b.End > b.Start {
		p.s, p.e = c.touched(b.Start, b.End)
	}
	if b.HasHead() {
		p.hs, p.he = c.touched(b.HeadStart, b.HeadEnd)
		if p.hs < p.e && p.s < p.he { // they meet: one range, so that no load counts b twice
			p.s, p.e = min(p.s, p.hs), max(p.e, p.he)
			p.hs, p.he = 0, 0
		}
	}
	return p
}

// first is where the time of buffer i begins, last where it ends.
func (in *instance) first(i int32) ir.Tick {
	if b := &in.buffers[i]; b.HasHead() {
		return min(b.HeadStart, b.Start)
	}
	return in.buffers[i].Start
}

func (in *instance) last(i int32) ir.Tick {
	if b := &in.buffers[i]; b.HasHead() {
		return max(b.HeadEnd, b.End)
	}
	return in.buffers[i].End
}

func (in *instance) life(i int32) ir.Tick { return in.buffers[i].Life() }

// rankCrests fills crest and need. Sections of equal load rank by time.
func (in *instance) rankCrests() {
	n := len(in.load)
	byLoad := make([]int32, n)
	for k := range byLoad {
		byLoad[k] = int32(k)
	}
	slices.SortFunc(byLoad, func(a, b int32) int {
		return cmp.Or(cmp.Compare(in.load[b], in.load[a]), cmp.Compare(a, b))
	})
	// A tree of minima: low[n+k] is the rank of section k, low[i] the least of its children.
	low := make([]int32, 2*n)
	for r, k := range byLoad {
		low[n+int(k)] = int32(r)
	}
	for i := n - 1; i > 0; i-- {
		low[i] = min(low[2*i], low[2*i+1])
	}
	least := func(best, s, e int32) int32 {
		for l, r := int(s)+n, int(e)+n; l < r; l, r = l/2, r/2 {
			if l&1 == 1 {
				best = min(best, low[l])
				l++
			}
			if r&1 == 1 {
				r--
				best = min(best, low[r])
			}
		}
		return best
	}
	in.crest = make([]int32, len(in.pieces))
	in.need = make([]ir.Bytes, len(in.pieces))
	for i, p := range in.pieces {
		r := least(least(int32(n), p.s, p.e), p.hs, p.he)
		in.crest[i] = r
		if int(r) < n {
			in.need[i] = in.load[byLoad[r]]
		}
	}
}
