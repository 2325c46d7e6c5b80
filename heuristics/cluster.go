package heuristics

import (
	"cmp"
	"math"
	"slices"

	"stweaver/ir"
)

// Clusters: buffers that are made together and die together.
//
// A program that trains makes the same things again and again: all that one layer, or one
// chunk of layers, saves in the forward of a micro-batch lives until the backward of that
// micro-batch. Such buffers can be placed as one, and no marks are needed to find them:
//
//	time ->   taken by start, a buffer joins the group whose last member
//	 +------------+        started at most gap ticks ago
//	  +-----------+        and ended within gap of it;
//	   +---------+         of several, the one that grew last
//	      +-----------+    <- not this one: it ends too late
//
// A carried buffer has three edges (start, and start and end of its head): all must agree.
//
// Two rules say which buffers may share a group at all. By life: those that live from
// theta to half of the timeline. By moment: those that are alive in exactly the same
// tight sections, which are the ones with a load within delta of the live peak. Where
// only some moments decide, the second merges thousands of buffers into the few that
// matter there, whatever they do in between:
//
//	load                                      alive at      A: 1      one box
//	 |   . .|. . . . |. .|. .  within delta                 B: 1 2    one box
//	 |  /\  1  /\    2   3                                  C: 2 3    one box
//	 | /  \___/  \__/ \_/ \                                 D: none   not in the core
//	 +------------------------> time

// moment is the tight sections a buffer is alive in, as two half-open ranges of their
// ranks. The zero moment is none.
type moment struct{ s, e, hs, he int32 }

// moments ranks the sections with a load of at least peak - delta and returns each
// buffer's moment.
func (in *instance) moments(delta ir.Bytes) []moment {
	rank := make([]int32, len(in.load)+1)
	n := int32(0)
	for k, load := range in.load {
		rank[k] = n
		if load >= in.peak-delta {
			n++
		}
	}
	rank[len(in.load)] = n
	out := make([]moment, len(in.pieces))
	for i, p := range in.pieces {
		m := moment{rank[p.s], rank[p.e], rank[p.hs], rank[p.he]}
		if m.s == m.e {
			m.s, m.e = 0, 0
		}
		if m.hs == m.he {
			m.hs, m.he = 0, 0
		}
		out[i] = m
	}
	return out
}

// clusterRule says who may share a group.
type clusterRule struct {
	least, most ir.Tick  // lives from least (for those of no moment) to below most
	moments     []moment // by buffer: only equal ones share; nil: no such rule
	gap         ir.Tick
	whole       bool // no gap within a moment
}

// residents groups the buffers that live for half of the timeline or more by their moment,
// whenever they are made: that happens in a start-up where little else is alive.
func (in *instance) residents(m []moment) [][]int32 {
	var groups [][]int32
	at := map[moment]int{}
	for _, id := range in.ids(byStart) {
		if in.life(id) < in.span/2 || in.buffers[id].Size == 0 || in.pieces[id].empty() || m[id] == (moment{}) {
			continue
		}
		g, ok := at[m[id]]
		if !ok {
			g = len(groups)
			at[m[id]] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], id)
	}
	return groups
}

// clusters returns groups in the order of their first start; every buffer that may be in
// one is, most of them alone.
func (in *instance) clusters(r clusterRule) [][]int32 {
	type bin struct {
		end ir.Tick // of the last member, in gaps
		m   moment
	}
	gap := max(r.gap, 1)
	near := func(a, b ir.Tick) bool { return max(a-b, b-a) <= gap }
	var groups [][]int32
	latest := map[bin]int{} // the group of that bin that grew last
	for _, id := range in.ids(byStart) {
		if in.buffers[id].Size == 0 || in.pieces[id].empty() || in.life(id) >= r.most {
			continue
		}
		var m moment
		if r.moments != nil {
			m = r.moments[id]
		}
		if m == (moment{}) && in.life(id) < r.least {
			continue
		}
		b := &in.buffers[id]
		end := b.End
		if b.HasHead() {
			end = b.HeadEnd
		}
		to := -1
		if r.whole && m != (moment{}) {
			end = 0
		}
		for slot := end/gap - 1; slot <= end/gap+1; slot++ {
			g, ok := latest[bin{slot, m}]
			if !ok || g <= to {
				continue
			}
			l := &in.buffers[groups[g][len(groups[g])-1]]
			if l.HasHead() == b.HasHead() && (r.whole && m != (moment{}) || near(l.Start, b.Start) && near(l.End, b.End) &&
				near(l.HeadStart, b.HeadStart) && near(l.HeadEnd, b.HeadEnd)) {
				to = g
			}
		}
		if to < 0 {
			to = len(groups)
			groups = append(groups, nil)
		}
		groups[to] = append(groups[to], id)
		latest[bin{end / gap, m}] = to
	}
	return groups
}

// Cores. Groups of one kind differ by a buffer or two: an input that came early, an output
// that only the first chunk has. Boxes of different height leave a gap wherever one takes
// the place of another, so each group is cut down to what it has in common with its kind.

const (
	coreOfClass = 80 // per cent of a kind's bytes that its core keeps at least
	coreOfCore  = 99 // per cent of an earlier core's bytes that are left when a kind joins
	coreMembers = 4  // smaller groups are left as they are
)

// sizes is a multiset of sizes.
type sizes map[ir.Bytes]int

func (s sizes) bytes() (sum ir.Bytes) {
	for z, n := range s {
		sum += z * ir.Bytes(n)
	}
	return sum
}

func (s sizes) meet(o sizes) sizes {
	both := sizes{}
	for z, n := range s {
		if m := min(n, o[z]); m > 0 {
			both[z] = m
		}
	}
	return both
}

// cores cuts groups to their common part: what is cut off comes back as stripped. Kinds
// are taken by area; one joins the first core that loses next to nothing by it.
func (in *instance) cores(groups [][]int32) (kept [][]int32, stripped []int32) {
	type kind struct {
		sizes  sizes
		area   float64
		groups []int // indices of groups
		core   *sizes
	}
	var kinds []*kind
	byKey := map[string]*kind{}
	for g, ids := range groups {
		if len(ids) < coreMembers {
			continue
		}
		key := in.sizesKey(ids)
		k := byKey[key]
		if k == nil {
			k = &kind{sizes: sizes{}}
			for _, id := range ids {
				k.sizes[in.buffers[id].Size]++
			}
			byKey[key] = k
			kinds = append(kinds, k)
		}
		k.groups = append(k.groups, g)
		for _, id := range ids {
			k.area += in.area(id)
		}
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int { return cmp.Compare(b.area, a.area) })
	var cores []*sizes
	for _, k := range kinds {
		for _, c := range cores {
			both := k.sizes.meet(*c)
			if z := both.bytes(); z*100 >= k.sizes.bytes()*coreOfClass && z*100 >= c.bytes()*coreOfCore {
				*c, k.core = both, c
				break
			}
		}
		if k.core == nil {
			own := k.sizes.meet(k.sizes)
			k.core = &own
			cores = append(cores, k.core)
		}
	}
	kept = make([][]int32, len(groups))
	copy(kept, groups)
	for _, k := range kinds {
		for _, g := range k.groups {
			left := sizes{}
			for z, n := range k.sizes {
				left[z] = n - (*k.core)[z]
			}
			ids := slices.Clone(groups[g])
			// Of equal sizes the longest lived go: those that were made early.
			slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(in.life(b), in.life(a)) })
			drop := map[int32]bool{}
			for _, id := range ids {
				if z := in.buffers[id].Size; left[z] > 0 {
					left[z]--
					drop[id] = true
					stripped = append(stripped, id)
				}
			}
			kept[g] = slices.DeleteFunc(slices.Clone(groups[g]), func(id int32) bool { return drop[id] })
		}
	}
	return slices.DeleteFunc(kept, func(ids []int32) bool { return len(ids) == 0 }), stripped
}

// sizesKey is equal for groups with the same sizes.
func (in *instance) sizesKey(ids []int32) string {
	zs := make([]ir.Bytes, len(ids))
	for k, id := range ids {
		zs[k] = in.buffers[id].Size
	}
	slices.Sort(zs)
	key := make([]byte, 0, 8*len(zs))
	for _, z := range zs {
		for b := 0; b < 64; b += 8 {
			key = append(key, byte(z>>b))
		}
	}
	return string(key)
}

// hull is the time around the members of a group: one range for all main pieces, one for
// all heads.
func (in *instance) hull(ids []int32) ir.Buffer {
	h := ir.Buffer{Start: math.MaxInt64, End: math.MinInt64, HeadStart: math.MaxInt64, HeadEnd: math.MinInt64}
	for _, id := range ids {
		b := &in.buffers[id]
		h.Size += b.Size
		if b.End > b.Start {
			h.Start, h.End = min(h.Start, b.Start), max(h.End, b.End)
		}
		if b.HasHead() {
			h.HeadStart, h.HeadEnd = min(h.HeadStart, b.HeadStart), max(h.HeadEnd, b.HeadEnd)
		}
	}
	if h.Start > h.End {
		h.Start, h.End = 0, 0
	}
	if h.HeadStart > h.HeadEnd {
		h.HeadStart, h.HeadEnd = 0, 0
	}
	return h
}
