package heuristics

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"stweaver/ir"
)

// The race of the tries.
//
// Tries are numbered, and workers take them in that order. What a try finds out early
// must not depend on who was faster, so information flows from lower numbers to higher
// ones only:
//
//   - a try is given up when its peak reaches the best peak of a finished try of lower
//     number. It could not have won: the winner is the least (peak, number).
//   - when try k reaches the goal, tries above k are given up, and those below k run on,
//     since one of them may reach it too and is then the winner.
//
// A try that beats all before it is therefore never given up, whatever the timing, and
// the winner, the number of tries and the list of improving peaks are functions of the
// input. Steps are bounded too: a try that needs far more than others of its size (many
// tiny gaps, a best fit looking at each) ends at a fixed count.
//
// Work limit. A table and a search that take a second at 10^5 buffers must not take a
// minute at 10^6, and small problems can have hundreds of tries for the price of one: so
// there are as many tries as place about placements buffers, and placementsPerTry more
// for each unit of effort; but minTries always, and never more than mostPerEffort for
// each unit after the table.

const (
	placements       = 3_000_000
	placementsPerTry = 200_000
	minTries         = 4 // the reference among them
	mostPerEffort    = 40

	smallProblem = 8_192 // buffers up to which dives are tried

	stepsPerBuffer = 4_000
	stepsAtLeast   = 50_000_000
)

// try is one entry of the race.
type try struct {
	name   string
	run    func(*bench) bool
	exempt bool // from being given up for its peak or steps
	coarse bool // works on a coarse problem
	fold   bool // looks for a period
}

// outcome of a finished try.
type outcome struct {
	peak int64 // math.MaxInt64 if it was given up
	done bool
}

type race struct {
	in       *instance
	workers  int
	progress func(try, tries int, best, bound ir.Bytes)
	stop     func() bool
	limit    func() int64 // the highest peak that is of use; nil: any

	mu       sync.Mutex
	tries    []try
	outcomes []outcome // by number, as far as started
	next     int       // number of the next try
	ended    int
	stopped  bool
	cruxes   bool // they are among the tries
	goal     int64
	first    int // lowest number that reached the goal; len(tries) if none
	best     struct {
		peak    int64
		number  int
		offsets []ir.Offset
	}
}

func newRace(in *instance, o Options) *race {
	r := &race{in: in, workers: o.Workers, progress: o.Progress, stop: o.Stop}
	if r.workers <= 0 {
		r.workers = runtime.GOMAXPROCS(0)
	}
	r.best.peak = math.MaxInt64
	in.exact, in.seed = o.Exact, o.Seed
	return r
}

// listed returns the tries for an effort. Those for a lower one are the beginning of it.
//
//	the first of the table | the fold | more of the table | a batch of each of the first recipes |
//	the rest of the table | the cruxes, if wanted | in turn a batch of the next recipe and a drawn fit
//
// The fold is beyond the work limit, and where that cuts the table short it comes second.
func (r *race) listed(effort int) []try {
	effort = max(effort, 0)
	n := max(len(r.in.buffers), 1)
	tries := r.table(true)
	// Where the work limit can cut the reference off, it comes before the cut.
	ref := slices.IndexFunc(tries, func(t try) bool { return t.exempt })
	if ref >= placements/n {
		t := tries[ref]
		tries = slices.Insert(slices.Delete(tries, ref, ref+1), minTries-1, t)
	}
	tries[0].exempt = true // something must be there
	at := slices.IndexFunc(tries, func(t try) bool { return t.name == firstGrouped })
	if at >= placements/n {
		at = 1
	}
	tries = slices.Insert(tries, at, try{name: "fold", run: foldTry, fold: true})
	tries = append(tries, r.cruxTries()...)
	most := min(1+max(minTries, (placements+effort*placementsPerTry)/n), len(tries)+effort*mostPerEffort)
	for i := 0; len(tries) < most; i++ {
		if k := i / 2; i%2 == 0 {
			k += firstRecipes
			tries = append(tries, coarseTry(k%len(recipes), k/len(recipes)))
		} else {
			tries = append(tries, try{name: fmt.Sprintf("sample-%d", k), run: sample(k)})
		}
	}
	return tries[:min(len(tries), most)]
}

// table returns a try of each packer for problems of this size, and of the first recipes if
// asked.
func (r *race) table(coarse bool) (tries []try) {
	for _, p := range packers {
		if p.Name == firstSlow && coarse {
			for k := range firstRecipes {
				tries = append(tries, coarseTry(k, 0))
			}
		}
		if p.most == 0 || len(r.in.buffers) <= p.most {
			tries = append(tries, try{name: p.Name, run: p.run, exempt: p.reference})
		}
	}
	return tries
}

// flat returns the table without recipes, and n drawn fits.
func (r *race) flat(n int) []try {
	tries := r.table(false)
	tries[0].exempt = true
	for k := range n {
		tries = append(tries, try{name: fmt.Sprintf("sample-%d", k), run: sample(k)})
	}
	return tries
}

// nearEnough: within this part of the bound (1/20,000) the second half of the search is not
// worth its time.
const nearEnough = 20_000

// near reports whether the best layout is that close.
func (r *race) near() bool { return r.best.peak-int64(r.in.bound) <= int64(r.in.bound)/nearEnough }

// run runs those of the tries that have not run yet, until one reaches the goal.
func (r *race) run(tries []try, goal ir.Bytes) {
	r.tries, r.goal = tries, int64(goal)
	r.outcomes = append(r.outcomes, make([]outcome, max(0, len(tries)-len(r.outcomes)))...)
	r.first = len(tries)
	var wait sync.WaitGroup
	for range min(r.workers, len(tries)-r.next) {
		wait.Go(r.work)
	}
	wait.Wait()
}

// work runs tries until there are none.
func (r *race) work() {
	w := newBench(r.in)
	for {
		stop := r.stop != nil && r.stop()
		r.mu.Lock()
		r.stopped = r.stopped || stop
		for r.stopped && r.next < len(r.tries) && !r.tries[r.next].exempt {
			r.outcomes[r.next] = outcome{peak: math.MaxInt64, done: true}
			r.next++
		}
		k := r.next
		if k >= len(r.tries) || k > r.first {
			r.mu.Unlock()
			return
		}
		r.next++
		r.mu.Unlock()

		t := r.tries[k]
		w.leash = leash{ceil: func() int64 { return r.ceil(k) }}
		if !t.exempt {
			w.leash.steps = max(stepsAtLeast, stepsPerBuffer*int64(len(r.in.buffers)))
		}
		r.end(k, w, t.run(w))
	}
}

// ceil is the highest peak with which try k could still win: -1 if it cannot.
func (r *race) ceil(k int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k > r.first {
		return -1
	}
	if r.tries[k].exempt {
		return math.MaxInt64
	}
	ceil := int64(math.MaxInt64)
	if r.limit != nil {
		ceil = r.limit()
	}
	for _, o := range r.outcomes[:k] {
		if o.done {
			ceil = min(ceil, o.peak-1)
		}
	}
	return ceil
}

func (r *race) end(k int, w *bench, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := outcome{peak: math.MaxInt64, done: true}
	if whole {
		o.peak = w.peak
		// Peaks that reach the goal count as equal, or a try above the first that does
		// could win by having been fast.
		peak, best := max(w.peak, r.goal), max(r.best.peak, r.goal)
		if peak < best || peak == best && k < r.best.number {
			// Swap the layouts; the next try of w overwrites the one it gets.
			keep := r.best.offsets
			if keep == nil {
				keep = make([]ir.Offset, len(w.offsets))
			}
			r.best.peak, r.best.number, r.best.offsets, w.offsets = w.peak, k, w.offsets, keep
		}
		if w.peak <= r.goal {
			r.first = min(r.first, k)
		}
	}
	r.outcomes[k] = o
	r.ended++
	if r.progress != nil {
		r.progress(r.ended, len(r.tries), ir.Bytes(r.best.peak), r.in.bound)
	}
}

func (r *race) result() Result {
	res := Result{
		Layout: ir.Layout{Offsets: r.best.offsets, Peak: ir.Bytes(r.best.peak)},
		Bound:  r.in.bound,
		Packer: r.tries[r.best.number].name,
		Tries:  min(len(r.tries), r.first+1),
	}
	res.Stopped = r.stopped && r.best.peak > r.goal
	if slices.ContainsFunc(r.tries[:res.Tries], func(t try) bool { return t.coarse }) {
		res.Blocks, res.Groups = r.in.regularity()
	}
	if slices.ContainsFunc(r.tries[:res.Tries], func(t try) bool { return t.fold }) && r.in.fold().circle != nil {
		report := *r.in.fold().report
		report.Placed = r.in.fold().placed(r.best.offsets)
		res.Fold = &report
	}
	low := int64(math.MaxInt64)
	for k, o := range r.outcomes[:res.Tries] {
		if o.peak < low || r.tries[k].exempt && k > 0 {
			res.Peaks = append(res.Peaks, PackerPeak{r.tries[k].name, ir.Bytes(o.peak)})
		}
		low = min(low, o.peak)
	}
	return res
}
