package heuristics

import (
	"math"
	"slices"
	"sync"

	"stweaver/ir"
)

// Coarse to fine.
//
// In a deep interleaving dozens of groups come and go in an order that is neither first in
// first out nor last in first out, and the load is at its highest again and again. A fit of
// 100,000 single buffers loses the columns of the groups after a few of them. So the
// problem is first solved for boxes:
//
//	address                             1. cluster: groups become boxes     (cluster.go)
//	  |  +---+ +---------+              2. cut boxes to the core of their kind, and strip
//	  |  | B | |    D    |                 what dies first
//	  |  +---+ +----+----+  <- coarse   3. add what is long lived or critical, as it is
//	  |  |   A      | C  |              4. pack the few thousand items, many times
//	  |  +----------+----+              5. expand: fix them, and fit the 100,000 that are
//	  +---------------------> time         left into what is free          (expand.go)
//
// A buffer is critical where the slack during its life is small against its own size:
// peak - need <= kappa × size. A threshold on the slack alone leaves out large transients
// in half-tight places, and they come back as excess in the expansion.
//
// A box is searched a place for by the hull of its members, and put in as a staircase of
// parts with their own times, so that what it has not begun to use yet, or no longer uses,
// is free for others. Members are stacked by birth: a box opens from the top.
//
// Recipes differ in how groups are found and how much is stripped. None is best: the race
// takes them in turn with the flat fits, a batch of coarse tries at a time.
//
// Source: the interleaving notes of this project's design; boxing as such is Buchsbaum et
// al. (STOC'03), with boxes there chosen by size and here by life.

const (
	kappa    = 4
	boxParts = 8
	// A part load this far above the peak (1/500) is taken for fewer boxes.
	partSlack = 500
)

// recipe is one way to make a coarse problem. Fractions are of the timeline (theta) and of
// the live peak (delta).
type recipe struct {
	name  string
	how   rule
	delta per  // how far below the peak a moment is tight; off: moments do not matter
	theta per  // the shortest life of a member of a group by life, and of a single item
	strip int  // how many members that die first are stripped from each box
	loose bool // buffers of no moment stay single
}

// rule is what makes a box.
type rule uint8

const (
	byGaps   rule = iota // close starts and ends, and one moment where delta says so
	byMoment             // one moment, whenever they start and end
	coreOnly             // one moment; there are no other items, and time is the tight moments only
	byBlock              // congruent blocks (blocks.go)
)

// recipes in the order in which the race takes them. The core alone is the cheapest by far,
// and enough where few moments decide; groups by life are the best on interleaved pipelines.
var recipes = [...]recipe{
	{name: "core-200", how: coreOnly, delta: per{1, 200}},
	{name: "life-180", how: byGaps, delta: off, theta: per{1, 180}, strip: 4},
	{name: "moment-250", how: byMoment, delta: per{1, 250}, theta: per{1, 100}},
	{name: "gaps-250", how: byGaps, delta: per{1, 250}, theta: per{1, 100}},
	{name: "life-400", how: byGaps, delta: off, theta: per{1, 400}},
	{name: "gaps-1000", how: byGaps, delta: per{1, 1000}, theta: per{1, 100}, loose: true},
	{name: "moment-50", how: byMoment, delta: per{1, 50}, theta: per{1, 100}, loose: true},
	{name: "core-30", how: coreOnly, delta: per{1, 30}},
	{name: "blocks", how: byBlock},
}

// firstRecipes are tried at every effort.
const firstRecipes = 3

// part is a piece of a box: the inner addresses [lo, hi) during p.
type part struct {
	p      piece
	lo, hi int64
}

// item is what a coarse problem places: a box or a single buffer.
type item struct {
	ids   []int32
	at    []int64 // inner address of each
	rigid bool    // a congruent block: each member is a part of its own
}

// coarse is a coarse problem: an instance whose buffer k is the hull of items[k].
type coarse struct {
	in     *instance
	items  []item
	rest   []bool // by buffer of the full problem: not in an item
	boxes  int    // items of more than one member
	climbs bool   // a batch that does not reach the bound goes on with a climb
	dives  bool   // one ends within its leash
}

// coarseOnce makes the coarse problem of a recipe once. nil: the recipe finds no boxes.
type coarseOnce struct {
	once sync.Once
	c    *coarse
}

func (in *instance) coarse(r int) *coarse {
	o := &in.coarses[r]
	o.once.Do(func() {
		if o.c = in.makeCoarse(recipes[r]); o.c != nil {
			o.c.climbs = in.climbs
		}
	})
	return o.c
}

// makeCore makes the problem of the tight moments alone.
func (in *instance) makeCore(r recipe) *coarse {
	in.crests.Do(in.rankCrests)
	moments := in.moments(ir.Bytes(r.delta.of(int64(in.peak))))
	c := &coarse{rest: make([]bool, len(in.buffers))}
	at := map[moment]int{}
	var boxes []ir.Buffer
	for _, id := range in.ids(byStart) {
		m := moments[id]
		if m == (moment{}) || in.buffers[id].Size == 0 {
			c.rest[id] = true
			continue
		}
		k, ok := at[m]
		if !ok {
			k = len(c.items)
			at[m] = k
			c.items = append(c.items, item{})
			boxes = append(boxes, ir.Buffer{Start: ir.Tick(m.s), End: ir.Tick(m.e), HeadStart: ir.Tick(m.hs), HeadEnd: ir.Tick(m.he)})
		}
		it := &c.items[k]
		it.ids = append(it.ids, id)
		it.at = append(it.at, int64(boxes[k].Size))
		boxes[k].Size += in.buffers[id].Size
	}
	c.boxes = len(c.items)
	c.in = newInstance(boxes, 0)
	c.in.seed = in.seed
	b := newBench(c.in)
	b.leash = c.leash(nil)
	c.dives = b.dive(c.in.ids(byNeedLife))
	return c
}

// makeCoarse follows the recipe.
func (in *instance) makeCoarse(r recipe) *coarse {
	switch r.how {
	case coreOnly:
		return in.makeCore(r)
	case byBlock:
		return in.makeBlocks()
	}
	in.crests.Do(in.rankCrests)
	t := int64(in.span)
	theta := ir.Tick(r.theta.of(t))
	want := clusterRule{least: theta, most: in.span / 2}
	tight := r.delta
	if tight == off {
		tight = per{1, 250}
	}
	moments := in.moments(ir.Bytes(tight.of(int64(in.peak))))
	if r.delta != off {
		want.moments = moments
		if r.loose {
			want.least = math.MaxInt64
		}
	}
	residents := in.residents(moments)
	if in.partLoad(residents) > in.peak {
		residents = nil
		if r.delta != off {
			want.most = math.MaxInt64
		}
	}
	var groups [][]int32
	want.whole = r.how == byMoment
	for _, gap := range []ir.Tick{24, 48, 96, 192} {
		if gap > max(theta/2, 24) {
			break
		}
		want.gap = gap
		g := in.dissolve(in.clusters(want))
		if groups == nil || len(g) < len(groups) && in.partLoad(g) <= in.peak+in.peak/partSlack {
			groups = g
		}
	}
	groups, stripped := in.cores(groups)
	c := &coarse{rest: make([]bool, len(in.buffers))}
	for i := range c.rest {
		c.rest[i] = true
	}
	add := func(ids []int32) {
		it := item{ids: ids, at: make([]int64, len(ids))}
		top := int64(0)
		for k, id := range ids {
			it.at[k] = top
			top += int64(in.buffers[id].Size)
			c.rest[id] = false
		}
		if len(ids) > 1 {
			c.boxes++
		}
		c.items = append(c.items, it)
	}
	for _, ids := range groups {
		if len(ids) > r.strip+coreMembers {
			var cut []int32
			ids, cut = in.stripFirst(ids, r.strip)
			stripped = append(stripped, cut...)
		}
		add(ids)
	}
	if c.boxes == 0 {
		return nil
	}
	for _, ids := range residents {
		add(ids)
	}
	for _, id := range stripped {
		add([]int32{id})
	}
	for i := range in.buffers {
		id := int32(i)
		if b := &in.buffers[i]; c.rest[i] && b.Size > 0 && !in.pieces[i].empty() &&
			(in.life(id) >= theta || in.peak-in.need[i] <= kappa*b.Size) {
			add([]int32{id})
		}
	}
	c.in = in.coarsened(c.items)
	b := newBench(c.in)
	b.leash = c.leash(nil)
	c.dives = b.dive(c.in.ids(byNeedLife))
	return c
}

// leash is that of a coarse try.
func (c *coarse) leash(ceil func() int64) leash {
	return leash{ceil: ceil, steps: stepsAtLeast, pops: max(coarsePops, coarsePopsPerItem*int64(len(c.items)))}
}

// dissolve breaks up groups that fill less than half of their hull.
func (in *instance) dissolve(groups [][]int32) [][]int32 {
	var out [][]int32
	for _, ids := range groups {
		h := in.hull(ids)
		area := 0.0
		for _, id := range ids {
			area += in.area(id)
		}
		if len(ids) == 1 || 2*area >= float64(float64(h.Size)*float64(h.Life())) {
			out = append(out, ids)
			continue
		}
		for k := range ids {
			out = append(out, ids[k:k+1])
		}
	}
	return out
}

// stripFirst takes the n members that die first off a group.
func (in *instance) stripFirst(ids []int32, n int) (kept, cut []int32) {
	if n == 0 {
		return ids, nil
	}
	end := func(id int32) ir.Tick {
		if b := &in.buffers[id]; b.HasHead() {
			return b.HeadEnd
		}
		return in.buffers[id].End
	}
	byDeath := slices.Clone(ids)
	slices.SortStableFunc(byDeath, func(a, b int32) int { return int(end(a) - end(b)) })
	cut = byDeath[:n]
	kept = slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return slices.Contains(cut, id) })
	return kept, cut
}

// staircase cuts a stack of members into at most boxParts of about equal height, each with the
// hull of its members: as buffers, the time of which is in ticks.
func (in *instance) staircase(ids []int32) (hulls []ir.Buffer) {
	total := in.hull(ids).Size
	from, done := 0, ir.Bytes(0)
	for k := range ids {
		done += in.buffers[ids[k]].Size
		if k+1 == len(ids) || done*boxParts >= total*ir.Bytes(len(hulls)+1) {
			hulls = append(hulls, in.hull(ids[from:k+1]))
			from = k + 1
		}
	}
	return hulls
}

// partLoad is the live peak with groups replaced by their parts.
func (in *instance) partLoad(groups [][]int32) ir.Bytes {
	change := make([]ir.Bytes, len(in.load)+1)
	add := func(p piece, z ir.Bytes) {
		change[p.s] += z
		change[p.e] -= z
		change[p.hs] += z
		change[p.he] -= z
	}
	for _, ids := range groups {
		if len(ids) == 1 {
			continue
		}
		for _, id := range ids {
			add(in.pieces[id], -in.buffers[id].Size)
		}
		for _, h := range in.staircase(ids) {
			add(in.clock.piece(&h), h.Size)
		}
	}
	var peak, extra ir.Bytes
	for k, load := range in.load {
		extra += change[k]
		peak = max(peak, load+extra)
	}
	return peak
}

// coarsened makes the instance of the items. Thresholds, needs and crests are those of
// the full problem: what an item is worth does not change by leaving others out.
func (in *instance) coarsened(items []item) *instance {
	hulls := make([]ir.Buffer, len(items))
	timed := make([]ir.Buffer, 0, 2*len(items)) // everything that has edges in time
	steps := make([][]ir.Buffer, len(items))
	for k, it := range items {
		hulls[k] = in.hull(it.ids)
		if it.rigid {
			hulls[k].Size = 0
			for j, id := range it.ids {
				b := in.buffers[id]
				hulls[k].Size = max(hulls[k].Size, ir.Bytes(it.at[j])+b.Size)
				steps[k] = append(steps[k], b)
			}
		} else if len(it.ids) > 1 {
			steps[k] = in.staircase(it.ids)
		}
		timed = append(timed, hulls[k])
		timed = append(timed, steps[k]...)
	}
	c := newClock(timed)
	out := &instance{buffers: hulls, clock: c, span: in.span, peak: in.peak, bound: in.bound,
		pieces: make([]piece, len(items)), parts: make([][]part, len(items)), load: make([]ir.Bytes, c.sections),
		crest: make([]int32, len(items)), need: make([]ir.Bytes, len(items))}
	for k, it := range items {
		out.pieces[k] = c.piece(&hulls[k])
		lo := int64(0)
		for i := range steps[k] {
			h := &steps[k][i]
			if it.rigid {
				lo = it.at[i]
			}
			out.parts[k] = append(out.parts[k], part{c.piece(h), lo, lo + int64(h.Size)})
			lo += int64(h.Size)
		}
		out.crest[k] = math.MaxInt32
		for _, id := range it.ids {
			out.crest[k] = min(out.crest[k], in.crest[id])
			out.need[k] = max(out.need[k], in.need[id])
		}
	}
	out.crests.Do(func() {})
	return out
}
