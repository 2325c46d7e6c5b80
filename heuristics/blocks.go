package heuristics

import (
	"cmp"
	"slices"
	"sync"

	"stweaver/ir"
)

// Congruent blocks: solve once, translate.
//
// Inside a layer the same transients come and go in the same order, layer after layer and
// micro-batch after micro-batch. The short-lived buffers fall into blocks, runs of time that
// none of them crosses; two blocks are congruent when their members start and end in the
// same order and have the same sizes, whatever else is allocated between them:
//
//	time ->  | a-- b-----  |  c-- d----- |     a, b and c, d: rank of start, rank of end, size
//	         |   e---      |    f---     |     (0,2,·) (1,4,·) … are equal: congruent
//
// Packing depends on nothing but which lives meet and on the sizes, so a layout of one is a
// layout of all. It is found once, by the table's packers, and every instance is placed as
// a rigid body: by its hull, in the shape of its members. A try then places a fraction of
// the buffers. Rigid bodies cost where it is tight, so blocks that reach above the bound
// are melted: taken out again and fitted buffer by buffer around the rest (expand.go).
//
// Source: the congruence of repeated parts is noted in the STWeaver paper (arXiv 2507.16274)
// for phases; normal forms by rank are ours.

// BlockClass is a set of congruent blocks.
type BlockClass struct {
	Members   int      // of one block
	Instances int      // at least 2
	Height    ir.Bytes // of the one layout they share
	Load      ir.Bytes // live peak of one block: no layout is lower
	Exact     bool     // Options.Exact lowered it
}

// Saved is how many buffers a try does not have to place one by one.
func (b BlockClass) Saved() int { return (b.Instances - 1) * b.Members }

// GroupClass is a set of groups with the same sizes (tmp.go).
type GroupClass struct {
	Members   int // of one group
	Instances int
	Bytes     ir.Bytes // of one group
	TMP       float64  // time-memory product of all of them together, 0 to 1
}

// Repeats looks for what is regular in the buffers of one arena: congruent blocks, ordered by
// what they save, and groups, by size × life. It is what a Result reports where the race got as
// far as to look. It is safe for concurrent use.
func Repeats(buffers []ir.Buffer, horizon ir.Tick, o Options) ([]BlockClass, []GroupClass) {
	in := newInstance(buffers, horizon)
	in.exact = o.Exact
	return in.regularity()
}

// regularity summarises the repeats: blocks by what they save, groups by size × life.
func (in *instance) regularity() ([]BlockClass, []GroupClass) {
	blocks := slices.Clone(in.blockSet().classes)
	slices.SortStableFunc(blocks, func(a, b BlockClass) int { return cmp.Compare(b.Saved(), a.Saved()) })
	type sum struct {
		GroupClass
		area, box float64
	}
	at := map[string]int{}
	var sums []sum
	for _, ids := range in.groups() {
		if len(ids) == 1 {
			continue
		}
		key := in.sizesKey(ids)
		k, ok := at[key]
		if !ok {
			k = len(sums)
			at[key] = k
			sums = append(sums, sum{GroupClass: GroupClass{Members: len(ids), Bytes: in.hull(ids).Size}})
		}
		area, tmp := in.timeMemory(ids)
		sums[k].Instances++
		sums[k].area += area
		sums[k].box += area / tmp
	}
	slices.SortStableFunc(sums, func(a, b sum) int { return cmp.Compare(b.area, a.area) })
	var groups []GroupClass
	for _, s := range sums {
		s.TMP = s.area / s.box
		groups = append(groups, s.GroupClass)
	}
	return blocks, groups
}

const (
	blockMembers = 3     // the fewest of a block
	blockMost    = 2_000 // the most
	blockEffort  = 2     // of solving one

	// ExactMembers is the most members of a block that Options.Exact is asked about.
	ExactMembers = 100
)

// block is one instance: ids in the order of the normal form, and its class.
type block struct {
	ids   []int32
	class int
}

type blockSet struct {
	once    sync.Once
	blocks  []block
	classes []BlockClass
	layouts [][]ir.Offset // by class: of the members in normal form
}

// blockSet finds the blocks. Which lives are short is not known before: lives of up to 8,
// 16, … ticks are tried, and the limit that saves the most placements wins.
func (in *instance) blockSet() *blockSet {
	s := &in.blocks
	s.once.Do(func() {
		saved := 0
		for limit := ir.Tick(8); limit <= in.span/16 && limit <= 4096; limit *= 2 {
			blocks, members := in.congruent(limit)
			n := 0
			for _, b := range blocks {
				n += len(b.ids)
			}
			for _, m := range members {
				n -= m
			}
			if n > saved {
				saved = n
				s.blocks = blocks
				s.classes = make([]BlockClass, len(members))
			}
		}
		s.layouts = make([][]ir.Offset, len(s.classes))
		for _, b := range s.blocks {
			c := &s.classes[b.class]
			c.Instances++
			if s.layouts[b.class] != nil {
				continue
			}
			own := make([]ir.Buffer, len(b.ids))
			for k, id := range b.ids {
				own[k] = in.buffers[id]
			}
			r := newRace(newInstance(own, 0), Options{Workers: 1})
			r.run(r.flat(blockEffort), r.in.bound)
			l := ir.Layout{Offsets: r.best.offsets, Peak: ir.Bytes(r.best.peak)}
			c.Members, c.Load = len(b.ids), r.in.peak
			if in.exact != nil && l.Peak > r.in.bound && len(own) <= ExactMembers {
				if better := in.exact(own, l); better.Peak < l.Peak {
					l, c.Exact = better, true
				}
			}
			s.layouts[b.class], c.Height = l.Offsets, l.Peak
		}
	})
	return s
}

// congruent cuts the buffers that live up to limit ticks into blocks and returns those that
// have a congruent one, and the number of members of each class.
func (in *instance) congruent(limit ir.Tick) (blocks []block, members []int) {
	byForm := map[string][]block{}
	var forms []string // in the order of first appearance
	var run []int32
	var reach ir.Tick
	flush := func() {
		if len(run) >= blockMembers && len(run) <= blockMost {
			form := in.normalForm(run)
			if byForm[form] == nil {
				forms = append(forms, form)
			}
			byForm[form] = append(byForm[form], block{ids: slices.Clone(run)})
		}
		run = run[:0]
	}
	for _, id := range in.ids(byStart) {
		b := &in.buffers[id]
		if b.HasHead() || b.Size == 0 || in.pieces[id].empty() || b.Life() > limit {
			continue
		}
		if b.Start >= reach {
			flush()
			reach = b.End
		}
		run = append(run, id)
		reach = max(reach, b.End)
	}
	flush()
	for _, f := range forms {
		if len(byForm[f]) < 2 {
			continue
		}
		for _, b := range byForm[f] {
			b.class = len(members)
			blocks = append(blocks, b)
		}
		members = append(members, len(byForm[f][0].ids))
	}
	return blocks, members
}

// normalForm is equal for congruent runs of buffers ordered by start. The ranks are among
// the ticks of the run's own starts and ends.
func (in *instance) normalForm(run []int32) string {
	ticks := make([]ir.Tick, 0, 2*len(run))
	for _, id := range run {
		ticks = append(ticks, in.buffers[id].Start, in.buffers[id].End)
	}
	slices.Sort(ticks)
	ticks = slices.Compact(ticks)
	rank := func(t ir.Tick) uint64 {
		k, _ := slices.BinarySearch(ticks, t)
		return uint64(k)
	}
	form := make([]byte, 0, 14*len(run))
	for _, id := range run {
		b := &in.buffers[id]
		form = appendBytes(form, rank(b.Start), 3)
		form = appendBytes(form, rank(b.End), 3)
		form = appendBytes(form, uint64(b.Size), 8)
	}
	return string(form)
}

// appendBytes appends the n low bytes of v.
func appendBytes(to []byte, v uint64, n int) []byte {
	for range n {
		to = append(to, byte(v))
		v >>= 8
	}
	return to
}

// makeBlocks is the coarse problem of blocks: every buffer is in an item, most of them in
// rigid ones.
func (in *instance) makeBlocks() *coarse {
	in.crests.Do(in.rankCrests)
	s := in.blockSet()
	if len(s.blocks) == 0 {
		return nil
	}
	c := &coarse{in: nil, rest: make([]bool, len(in.buffers)), boxes: len(s.blocks)}
	inBlock := make([]bool, len(in.buffers))
	for _, b := range s.blocks {
		it := item{ids: b.ids, at: make([]int64, len(b.ids)), rigid: true}
		for k, off := range s.layouts[b.class] {
			it.at[k] = int64(off)
			inBlock[b.ids[k]] = true
		}
		c.items = append(c.items, it)
	}
	for i := range in.buffers {
		if !inBlock[i] && in.buffers[i].Size > 0 && !in.pieces[i].empty() {
			c.items = append(c.items, item{ids: []int32{int32(i)}, at: []int64{0}})
		} else if !inBlock[i] {
			c.rest[i] = true
		}
	}
	slices.SortStableFunc(c.items, func(a, b item) int { return cmp.Compare(in.first(a.ids[0]), in.first(b.ids[0])) })
	c.in = in.coarsened(c.items)
	return c
}
