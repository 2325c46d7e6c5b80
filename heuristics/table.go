package heuristics

import (
	"slices"

	"stweaver/ir"
)

// diveMost is the most buffers a dive is tried on.
const diveMost = smallProblem

// Packer is one way to give every buffer an address.
type Packer struct {
	Name string // stable: reports, golden files and ByName use it
	Doc  string // one line

	run       func(*bench) bool // places all buffers of the bench's instance; false if the leash ended it
	reference bool              // always runs to its end, so that its peak is known
	most      int               // only for problems of up to this many buffers; 0: any
	coarse    bool              // also tried on coarse problems
	views     bool              // places through the index alone: also where streams share
}

// Layout runs the packer alone. It has the guarantees of Pack, but for the comparison
// with other packers.
func (p Packer) Layout(buffers []ir.Buffer, horizon ir.Tick) ir.Layout {
	w := newBench(newInstance(buffers, horizon))
	if !p.run(w) {
		panic("BUG: heuristics: " + p.Name + ": gave up without a limit")
	}
	return ir.Layout{Offsets: w.offsets, Peak: ir.Bytes(w.peak)}
}

// firstSlow is the packer before which the first coarse batches run: what ends a race early
// usually does so before it.
const firstSlow = "area"

// firstGrouped is the packer before which the fold runs: those before it cost less than a fold.
const firstGrouped = "groups"

// packers is the portfolio, in the order in which Pack tries it: cheap ones that settle
// most programs first.
var packers = []Packer{
	{Name: "size", Doc: "greedy by size, first fit", views: true, run: greedy(bySize, firstFit)},
	{Name: "two-level-1", Doc: "two-level fit: long by start, short by size, first fit", views: true, coarse: true,
		run: twoLevel(per{1, 5}, byStart, bySize, firstFit, firstFit, smallAsOthers, per{0, 1}, per{0, 1}, off)},
	{Name: "two-level-2", Doc: "two-level fit: long by start, short by crest, first fit, promotion within 0.3 %", views: true, coarse: true,
		run: twoLevel(per{1, 50}, byStart, byCrest, firstFit, firstFit, smallLast, per{1, 5000}, per{0, 1}, per{3, 1000})},
	{Name: "two-level-3", Doc: "two-level fit: long by size and end, short by size, best and first fit, promotion at the peak", views: true, coarse: true,
		run: twoLevel(per{1, 40}, bySizeEnd, bySize, bestFit, firstFit, smallFirst, per{1, 30000}, per{0, 1}, per{0, 1})},
	{Name: "two-level-5", Doc: "two-level fit: long by start, short by need, first and best fit, promotion within 0.005 %", views: true, coarse: true,
		run: twoLevel(per{1, 37}, byStart, byNeed, firstFit, bestFit, smallLastAll, per{1, 2000}, per{0, 1}, per{5, 100000})},
	{Name: "two-level-6", Doc: "two-level fit: long by family and end, short by need, best and first fit, promotion within 0.3 %, half-lived first", views: true, coarse: true,
		run: twoLevel(per{1, 90}, byFamEnd, byNeed, bestFit, firstFit, smallLastSizes, per{1, 500}, per{1, 2}, per{3, 1000})},
	{Name: "two-level-7", Doc: "two-level fit: long by end, short by crest, best fit, promotion at the peak", views: true, coarse: true,
		run: twoLevel(per{1, 37}, byEnd, byCrest, bestFit, bestFit, smallLastAll, per{1, 2000}, per{0, 1}, per{0, 1})},
	{Name: "groups", Doc: "groups of congruent lifetimes by time-memory product, first fit", views: true, run: greedy(byGroup, firstFit)},
	{Name: "layers", Doc: "groups and sizes in layers, after the STWeaver paper", run: packLayers},
	{Name: "two-level-8", Doc: "two-level fit: long by start, short by crest, best and first fit", views: true, coarse: true,
		run: twoLevel(per{1, 5}, byStart, byCrest, bestFit, firstFit, smallFirst, per{1, 2000}, per{0, 1}, off)},
	{Name: "two-level-4", Doc: "two-level fit: long by size and start, short by crest and start, best fit, promotion within 0.3 %", views: true, coarse: true,
		run: twoLevel(per{1, 75}, bySizeStart, byCrestStart, bestFit, bestFit, smallLast, per{1, 2000}, per{0, 1}, per{3, 1000})},
	{Name: "area", Doc: "greedy by size × life, first fit", views: true, run: greedy(byArea, firstFit)},
	{Name: "start", Doc: "by start, first fit", views: true, run: greedy(byStart, firstFit)},
	{Name: "size-best", Doc: "greedy by size, best fit: the reference", views: true, reference: true, run: greedy(bySize, bestFit)},
	{Name: "life", Doc: "greedy by lifespan, best fit", views: true, run: greedy(byLife, bestFit)},
	{Name: "start-best", Doc: "by start, best fit: an online heap that knows nothing", views: true, run: greedy(byStart, bestFit)},
	{Name: "dive-need-life", Doc: "lowest place first; ties by need, life, area", coarse: true, most: diveMost, run: dive(byNeedLife)},
	{Name: "dive-need-area", Doc: "lowest place first; ties by need, area, life", coarse: true, most: diveMost, run: dive(byNeedArea)},
	{Name: "dive-start", Doc: "lowest place first; ties by start", most: diveMost, run: dive(byStart)},
	{Name: "dive-area", Doc: "lowest place first; ties by area", most: diveMost, run: dive(byArea)},
	{Name: "dive-size", Doc: "lowest place first; ties by size", most: diveMost, run: dive(bySize)},
	{Name: "dive-crest", Doc: "lowest place first; ties by crest, size", most: diveMost, run: dive(byCrest)},
}

// Packers returns the table, in the order Pack tries it.
func Packers() []Packer { return slices.Clone(packers) }

// ByName returns the packer of that name.
func ByName(name string) (Packer, bool) {
	k := slices.IndexFunc(packers, func(p Packer) bool { return p.Name == name })
	if k < 0 {
		return Packer{}, false
	}
	return packers[k], true
}
