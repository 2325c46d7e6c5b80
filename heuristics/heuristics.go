package heuristics

import "stweaver/ir"

// Effort levels: tries of the improvement search after the table of packers.
const (
	EffortFast    = 0
	EffortDefault = 24
	EffortMax     = 160
)

// Options of Pack. The zero value is the fast effort on all processors.
type Options struct {
	// Effort is how much work the improvement search gets: about 200,000 placements a unit,
	// hence some tries on 100,000 buffers and hundreds on a few thousand (the work limit in
	// portfolio.go).
	Effort int
	// Capacity is the most memory the caller can use, in bytes; 0: no limit. While the
	// best layout is above a capacity that the bound allows, the search goes on past
	// Effort, up to EffortMax tries. The result may still be above it.
	Capacity ir.Bytes
	// Progress, if not nil, is told after each try how many of how many have ended, and
	// the best peak and the bound. Calls do not overlap, but come from other goroutines,
	// and with several workers what they see of best depends on timing. tries may grow.
	Progress func(try, tries int, best, bound ir.Bytes)
	// Stop, if not nil, is asked between tries. Once it is true only what the promises need
	// still runs, and the best layout so far is returned: valid, and never above greedy by
	// size with best fit, but which one depends on when. Called from several goroutines.
	Stop func() bool
	// Exact, if not nil, may return a lower layout of a few buffers than best: congruent blocks
	// of up to ExactMembers buffers that stay above their live peak are given to it, once each. It
	// must be a function of its arguments. Called from several goroutines.
	Exact func(buffers []ir.Buffer, best ir.Layout) ir.Layout
	// Lower, if not nil, may lower a layout that PackUnder's ordinary race made of buffers, and raise its bound.
	Lower func(buffers []ir.Buffer, best ir.Layout, bound ir.Bytes) (ir.Layout, ir.Bytes)
	// Seed makes other draws than the usual ones, which are those of 0.
	Seed uint64
	// Shared, if not nil: buffers of different streams may share addresses on these terms. Else
	// streams and lags mean nothing here.
	Shared *Shared
	// Workers is the number of goroutines; 0: one for each processor. It does not change
	// the result.
	Workers int

	only int // 1 + the number of the only try that is made; 0: all are (AlternativesUnder)
}

// Result of Pack.
type Result struct {
	Layout ir.Layout
	// Bound is a peak that no layout can be below: the live peak, heads included.
	Bound ir.Bytes
	// Load is, of PackUnder, what of Bound does not come from addresses and windows: the live peak under the rules.
	Load ir.Bytes
	// Packer names the winner: a name of the table, "sample-N" for a drawn fit, or
	// "coarse-RECIPE-N" for a coarse problem that was expanded, "fold" for a circle that was, or
	// "crux-…" for a crux.
	Packer string
	// Tries is how many tries it took: where the bound was reached, up to and with the
	// first that did; else all that the effort allows.
	Tries int
	// Peaks are the peaks of the tries that were better than all before them, in order,
	// and of the reference where it ran. The others were given up on the way.
	Peaks []PackerPeak
	// Stopped is true if Options.Stop ended the search.
	Stopped bool
	// Blocks and Groups are the repeats that were found, where the race got as far as to look
	// for them; ordered by what they save and by size × life.
	Blocks []BlockClass
	Groups []GroupClass
	// Fold is the period of the micro-batches, where the race got as far as to look for one and
	// there is one; else nil.
	Fold *FoldReport
}

// PackerPeak is the peak one packer came to, in bytes.
type PackerPeak struct {
	Name string
	Peak ir.Bytes
}

// Pack places the buffers of one arena on the timeline [0, horizon). A buffer's main and
// head pieces share its address; buffers with no time at all get address 0.
//
// The buffers must pass ir.Check: sizes are not negative and their sum fits an int64.
// Ticks may be anything. It is safe for concurrent use.
func Pack(buffers []ir.Buffer, horizon ir.Tick, o Options) Result {
	if o.Shared != nil {
		return packShared(buffers, horizon, o)
	}
	in := newInstance(buffers, horizon)
	r := newRace(in, o)
	r.run(r.listed(EffortFast), in.bound)
	if r.best.peak > int64(in.bound) && o.Effort > EffortFast {
		r.cruxes = r.wantsCruxes()
		r.run(r.listed(o.Effort/2), in.bound)
	}
	if !r.near() {
		r.run(r.listed(o.Effort), in.bound)
	}
	if goal := o.Capacity; goal >= in.bound && r.best.peak > int64(goal) {
		r.run(r.listed(EffortMax), goal)
	}
	return r.result()
}

// LivePeak is the largest sum of sizes alive at one tick, head pieces included: a bound
// on the peak of every layout. In bytes; the horizon bounds nothing.
func LivePeak(buffers []ir.Buffer, horizon ir.Tick) ir.Bytes {
	return newInstance(buffers, horizon).peak
}
