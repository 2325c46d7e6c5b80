package heuristics

import (
	"math"
	"slices"

	"stweaver/ir"
)

// The crux: a race within the race.
//
// Where a layout ends a few bytes above the bound, the fault is at the live peaks: there
// every byte must be in use, so the buffers alive at one must tile the memory, and those that
// live through several must do so at each. Of 52,017 buffers of a stage of Llama 2 that is 4,847; all
// else has 84 MiB of slack and fits anywhere. A try of all spends a tenth of its time on
// what matters, and lets the rest settle in its way.
//
// So the critical buffers are packed alone, as a problem of their own, and the rest is fitted
// into what they leave (expand.go):
//
//	slack                       critical: peak - need <= kappa × size
//	  |  . rest .   .           lasting:  life >= theta, in the crux too: what lives long and
//	  | .   . /kappa            lies where it should not leaves holes that nothing fits into
//	  |  . /  crux
//	  | /_______ size
//
// The crux is packed by the recipes of coarse.go in turn: made of so few buffers, it becomes one or two
// hundred items, and those are climbed (climb.go) where the drawn tries of a batch do not reach the
// bound, which is that of the whole. The first recipe that reaches it ends the inner race.
//
// Growing. Which buffers decide cannot be told by a rule alone. What ends above the bound
// after the expansion was wanting: it joins the crux, and the crux is packed again, beginning
// with the recipe that did it: on llama7b-V-s0 three times 3 buffers, on qwenmoe-V-s0 59 at
// once. Where the crux cannot be packed under the bound, or the expansion is far above, there is
// no next round.
//
// All of it is one try of the race, alone on its goroutine; its steps, draws and rounds are
// counted. At default effort, five training profiles that the race without it leaves 512 to
// 1,049,088 bytes above their bound end at it, and so does a sixth that was not looked at while
// the cruxes were chosen (gpt2-V-rank4), in 1.5 to 5.5 CPU seconds for the whole compile.
//
// Source: the loop of solving a part, checking it against the whole and adding what fails is
// that of counterexample-guided abstraction refinement (Clarke et al. 2000), here for finding.

// crux is one choice of buffers.
type crux struct {
	name  string
	kappa per // slack over size
	theta per // of the timeline; {0, 1}: life does not matter
}

// cruxes in the order in which the race takes them.
var cruxes = [...]crux{
	{"crux-1", per{1, 1}, per{0, 1}},
	{"crux-4", per{1, 4}, per{0, 1}},
	{"crux-2-24", per{1, 2}, per{1, 24}},
}

const (
	cruxRounds  = 6
	cruxBatches = 2     // of each recipe in a round
	cruxLeast   = 1_024 // buffers of a problem with cruxes: smaller ones have hundreds of tries anyway
	cruxShare   = 2     // a crux is at most one in so many of the buffers
	cruxNear    = 2_000 // cruxes are tried where the table's best is within this part of the bound (1/2000)
	cruxFar     = 100   // an expansion more than this part of the bound above it (1/100) ends the growing
)

// cruxTries are the tries of the cruxes; none before something is near the bound.
func (r *race) cruxTries() (tries []try) {
	if !r.cruxes {
		return nil
	}
	for _, c := range cruxes {
		tries = append(tries, try{name: c.name, coarse: true, run: func(w *bench) bool { return w.packCrux(c) }})
	}
	return tries
}

// wantsCruxes reports whether they are worth a try after what was run.
func (r *race) wantsCruxes() bool {
	bound := int64(r.in.bound)
	return len(r.in.buffers) >= cruxLeast && r.best.peak > bound && r.best.peak-bound <= bound/cruxNear
}

// packCrux packs a crux and expands the result, and again with the crux grown. What it learns
// from the leash is only that it cannot win any more.
func (w *bench) packCrux(c crux) bool {
	in, bound := w.in, int64(w.in.bound)
	ceil := w.leash.ceil
	w.leash.ceil = nil // how far an expansion goes decides what grows
	defer func() { w.leash.ceil = ceil }()
	stop := func() bool { return ceil != nil && ceil() < bound }
	ids := in.cruxIDs(c)
	var best []ir.Offset
	low := int64(math.MaxInt64)
	first := 0 // recipe
	for range cruxRounds {
		if len(ids) == 0 || len(ids) > len(in.buffers)/cruxShare {
			break
		}
		inner := make([]ir.Buffer, len(ids))
		items := &coarse{items: make([]item, len(ids))}
		for k, id := range ids {
			inner[k] = in.buffers[id]
			items.items[k] = item{ids: []int32{id}, at: []int64{0}}
		}
		r := newRace(newInstance(inner, in.span), Options{Workers: 1, Stop: stop})
		r.in.climbs = true
		tries, recipe := cruxBatchesFrom(first)
		r.run(tries, in.bound)
		if r.stopped {
			return false
		}
		first = recipe[r.best.number]
		if !w.expand(items, r.best.offsets, r.best.peak) {
			break
		}
		if w.peak < low {
			low = w.peak
			best = append(best[:0], w.offsets...)
		}
		if w.peak <= bound || r.best.peak > bound || w.peak-bound > bound/cruxFar || stop() {
			break
		}
		for i := range in.buffers {
			if int64(w.offsets[i])+int64(in.buffers[i].Size) > bound {
				ids = append(ids, int32(i))
			}
		}
		slices.Sort(ids)
	}
	if best == nil {
		return false
	}
	copy(w.offsets, best)
	w.peak = low
	return true
}

// cruxBatchesFrom are the tries of an inner race, a batch of the given recipe before all others, and the
// recipe of each.
func cruxBatchesFrom(first int) (tries []try, recipe []int) {
	tries = []try{{name: "size", run: greedy(bySize, firstFit), exempt: true}} // something must be there
	recipe = []int{first}
	add := func(r, n int) {
		tries = append(tries, coarseTry(r, n))
		recipe = append(recipe, r)
	}
	for n := range cruxBatches {
		add(first, n)
		for r := range recipes {
			if r != first {
				add(r, n)
			}
		}
	}
	return tries, recipe
}

// cruxIDs are the buffers of a crux, ascending.
func (in *instance) cruxIDs(c crux) []int32 {
	in.crests.Do(in.rankCrests)
	theta := ir.Tick(c.theta.of(int64(in.span)))
	var ids []int32
	for i := range in.buffers {
		id := int32(i)
		size := in.buffers[i].Size
		if size == 0 || in.pieces[i].empty() {
			continue
		}
		if in.peak-in.need[i] <= ir.Bytes(c.kappa.of(int64(size))) || theta > 0 && in.life(id) >= theta {
			ids = append(ids, id)
		}
	}
	return ids
}
