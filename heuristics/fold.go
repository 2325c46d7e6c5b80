package heuristics

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"stweaver/ir"
)

// Folding micro-batches.
//
// A pipeline stage repeats forward, backward, forward, backward with the same requests each
// time, and an activation that a backward needs outlives a period: of w micro-batches on their
// way, w or w+1 instances are alive at once. The steady part is therefore a circle. Rolled up, a
// period of it with w+1 copies of each buffer holds all there is to decide:
//
//	address                                      address
//	  |  [----- a1 -----][----- a3 -----]          |  [----- a odd -----]
//	  |  w- a0 --][----- a2 -----][----- a4        |  a even --][-- a even     cut: it has a head
//	  |  [t0][t1] [t2][t3] [t4][t5]          =>    |  [t even] [t odd]
//	  |  residents ------------------------        |  residents ----------
//	  +---------------------------------> time     +---------------------- place on the circle
//	     |  n |                                       copy 0   | copy 1
//
//  1. find the period, and what lies beside its windows and follows the pattern (period.go)
//  2. each instance goes to place (k mod copies·n) of the circle; a buffer with another life than
//     the rest of its column, or a longer one than the circle, does not
//  3. what is alive from end to end of a window is there all the way round
//  4. pack the circle as the problem that it is, with heads where it is cut: the table's packers
//     and the first recipes, a tenth of the buffers or less
//  5. give every instance its item's address, and fit the rest around (expand.go)
//
// Two instances that meet in time meet on the circle, so a layout of the circle is one of all of
// them: the places of a window and what lies beside it go up with time, and a life is no longer
// than the circle. Instances of different windows are compared when they are put down, and what
// collides goes to the rest: a wrong period costs time and nothing else.
//
// Warm-up and cool-down take the addresses of the steady part, as their conflicts are some of
// its own. What it costs is freedom: an instance may no longer lie anywhere, and on a circle a
// life of two periods and a bit takes three addresses, whatever the load says. Where the circle's
// own load is far below the live peak, or above it, the fold decides nothing and is left out.
//
// Source: the solvers note of this project's design, C5; copies of a value that outlives the
// loop's period are modulo variable expansion (Lam, Software pipelining, PLDI 1988).

// FoldReport says what a fold found.
type FoldReport struct {
	Period    ir.Tick // from one micro-batch to the next, at the first
	Buffers   int     // of a period
	Copies    int     // addresses that a buffer of the period takes turns in
	Instances int     // micro-batches: how often the commonest of its buffers is there
	Folded    int     // buffers that share an item of the circle with their like
	Placed    int     // of them, those that lie where most of their item do in the layout returned
}

// fold is the circle of an instance; nil where there is none.
type fold struct {
	once   sync.Once
	circle *coarse
	report *FoldReport
}

const (
	circleEffort = 4  // cost of packing a circle, in flat tries of the whole
	circleLeast  = 80 // load of a circle that decides something, in per cent of the live peak
	circleMost   = 101
)

// foldTry packs the circle, gives every instance its address and fits the rest around. The table
// looks for the lowest circle, as that leaves the rest its room; drawn fits follow only while the
// circle alone is above the bound of the whole. Tries on
// the circle are given up where the whole would be: what they are worth beyond that is not looked
// at, so that the result does not depend on when the ceiling became known.
func foldTry(w *bench) bool {
	c := w.in.fold().circle
	if c == nil {
		return false
	}
	r := newRace(c.in, Options{Workers: 1})
	r.limit = w.leash.ceil
	tries := r.table(true)
	for k := range tries {
		tries[k].exempt = false
	}
	most := max(minTries, circleEffort*len(w.in.buffers)/len(c.items))
	r.run(tries[:min(len(tries), most)], c.in.bound)
	if r.best.peak > int64(w.in.bound) {
		for k := 0; len(tries) < most; k++ {
			tries = append(tries, try{name: "sample", run: sample(k)})
		}
		r.run(tries[:most], max(c.in.bound, w.in.bound))
	}
	return r.best.offsets != nil && w.expand(c, r.best.offsets, r.best.peak)
}

// fold finds the period and rolls it up, once.
func (in *instance) fold() *fold {
	f := &in.folded
	f.once.Do(func() {
		p := in.findPeriod()
		if p == nil {
			return
		}
		c, report := in.makeCircle(p)
		load, peak := float64(c.in.peak), float64(in.peak)
		if report.Folded-c.boxes >= len(p.seq)/periodSaves && load >= peak*circleLeast/100 && load <= peak*circleMost/100 {
			f.circle, f.report = c, report
		}
	})
	return f
}

// placed counts the folded buffers that are, in a layout, where most of their item are.
func (f *fold) placed(offsets []ir.Offset) int {
	sum := 0
	for _, it := range f.circle.items[:f.circle.boxes] {
		at := make([]ir.Offset, len(it.ids))
		for k, id := range it.ids {
			at[k] = offsets[id]
		}
		_, n := commonest(at)
		sum += n
	}
	return sum
}

// commonest sorts values and returns the one that comes most often, the largest of equals, and how
// often.
func commonest[T cmp.Ordered](values []T) (value T, times int) {
	slices.Sort(values)
	run := 0
	for k, v := range values {
		if run++; k > 0 && v != values[k-1] {
			run = 1
		}
		if run >= times {
			value, times = v, run
		}
	}
	return value, times
}

// makeCircle is the coarse problem of the circle. An item is a copy of a buffer of the period with
// all its instances, or a resident.
func (in *instance) makeCircle(p *period) (*coarse, *FoldReport) {
	x := in.unroll(p)
	lives := x.lives(p)
	most := p.columns(x, lives)
	c := &coarse{rest: slices.Repeat([]bool{true}, len(in.buffers))}
	turn := p.n * p.copies
	arcs := make([]ir.Buffer, turn)
	items := make([]item, turn)
	first := p.windows[0].from
	report := &FoldReport{
		Period:  in.buffers[p.seq[first+p.n]].Start - in.buffers[p.seq[first]].Start,
		Buffers: p.n, Copies: p.copies,
	}
	count := make([]int, p.n)
	for k, g := range x.places {
		if g < 0 || lives[k] > most[g%p.n] {
			continue
		}
		id, at := p.seq[k], g%turn
		c.rest[id] = false
		arcs[at].Size, arcs[at].Start = max(arcs[at].Size, x.sizes[k]), ir.Tick(at)
		arcs[at].End = max(arcs[at].End, ir.Tick(at+lives[k]))
		items[at].ids = append(items[at].ids, id)
		items[at].at = append(items[at].at, 0)
		count[g%p.n]++
		report.Folded++
	}
	report.Instances = slices.Max(count)
	var timed []ir.Buffer
	for at, a := range arcs {
		if len(items[at].ids) == 0 {
			continue
		}
		if end := ir.Tick(turn); a.End > end {
			a.HeadStart, a.HeadEnd, a.End = 0, a.End-end, end
		}
		c.items = append(c.items, items[at])
		timed = append(timed, a)
	}
	c.boxes = len(c.items)
	for _, id := range in.ids(byLife) {
		if c.rest[id] && in.resides(p, id) {
			c.rest[id] = false
			c.items = append(c.items, item{ids: []int32{id}, at: []int64{0}})
			timed = append(timed, ir.Buffer{Size: in.buffers[id].Size, End: ir.Tick(turn)})
		}
	}
	c.in = newInstance(timed, ir.Tick(turn))
	c.in.seed = in.seed
	return c, report
}

// lives are the lives on the circle rolled out, by place in seq: up to and with the last buffer
// there that it meets. Places go up with time, so two that meet in time meet there; one that
// meets another window's is given a life that no column has.
func (x *unrolled) lives(p *period) []int {
	out := make([]int, len(p.seq))
	latest := make([]int, len(p.seq)) // the last on the circle up to k
	at := -1
	for k, g := range x.places {
		if g >= 0 {
			at = k
		}
		latest[k] = at
	}
	for k, g := range x.places {
		if g < 0 {
			continue
		}
		if b := latest[k+p.lives[k]-1]; x.windows[b] == x.windows[k] {
			out[k] = x.places[b] + 1 - g
		} else {
			out[k] = math.MaxInt
		}
	}
	return out
}

// columns returns the longest life that is folded, by place of the period: what most of its
// buffers have, 0 where that is more than the circle.
func (p *period) columns(x *unrolled, lives []int) []int {
	all := make([][]int, p.n)
	for k, g := range x.places {
		if g >= 0 {
			all[g%p.n] = append(all[g%p.n], lives[k])
		}
	}
	out := make([]int, p.n)
	for col, l := range all {
		out[col], _ = commonest(l)
		if out[col] > p.n*p.copies {
			out[col] = 0
		}
	}
	return out
}

// resides reports whether a buffer is alive from end to end of half of the windows.
func (in *instance) resides(p *period, id int32) bool {
	b, n := &in.buffers[id], 0
	for _, w := range p.windows {
		s, e := in.buffers[p.seq[w.from]].Start, in.buffers[p.seq[w.to-1]].Start
		if b.Start <= s && e < b.End || b.HeadStart <= s && e < b.HeadEnd {
			n++
		}
	}
	return n >= max(1, len(p.windows)/2)
}
