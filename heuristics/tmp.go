package heuristics

import (
	"cmp"
	"slices"

	"stweaver/ir"
)

// The time-memory-product order.
//
// Requests that are made together and die together (the activations that one layer
// saves, the gradients of one bucket) form a group. The time-memory product of a group is
// how well it fills the rectangle around it:
//
//	         sum of size × life          address
//	TMP = ------------------------          |  +--------+
//	       height × length of hull          |  |########|--+
//	                                        |  +--+-----+##|
//	height: the group's own live peak       |     |########|
//	                                        +-----------------> time
//
// A dense group can be placed like one large buffer, so groups come in the order of
// sum(size × life) × TMP, largest first, and their members follow each other, latest end
// first, so that space opens from the top. A group that fills less than 0.7 of its
// rectangle is dissolved: each member stands for itself, with TMP 1.
//
// Groups need no marks of the program: taken by start, a buffer that lives longer than
// two gaps joins the group whose last member started, and ended, within a gap of it.
//
// Source: the groups of requests by phase of allocation and free, and their measure, in
// the STWeaver paper (arXiv 2507.16274). Here they give an order only: a peak that is a
// sum of rigid layers was measured 4 to 20 per cent above the load where sizes are mixed.

const (
	gapsInSpan = 400 // a gap is this part of the timeline
	denseTMP   = 0.7 // below it a group is dissolved
)

type group struct {
	ids    []int32
	weight float64 // sum(size × life) × TMP, byte ticks
}

// groupOrder is the order of byGroup.
func (in *instance) groupOrder() []int32 {
	var groups []group
	for _, ids := range in.cluster() {
		if len(ids) > 1 {
			area, tmp := in.timeMemory(ids)
			if tmp >= denseTMP {
				groups = append(groups, group{ids, area * tmp})
				continue
			}
		}
		for k := range ids {
			groups = append(groups, group{ids[k : k+1], in.area(ids[k])})
		}
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.ids[0], b.ids[0]))
	})
	order := make([]int32, 0, len(in.buffers))
	for _, g := range groups {
		slices.SortFunc(g.ids, func(a, b int32) int {
			return cmp.Or(cmp.Compare(in.last(b), in.last(a)),
				cmp.Compare(in.buffers[b].Size, in.buffers[a].Size), cmp.Compare(a, b))
		})
		order = append(order, g.ids...)
	}
	return order
}

// cluster returns the groups, in the order of their first start.
func (in *instance) cluster() [][]int32 {
	gap := max(in.span/gapsInSpan, 1)
	var groups [][]int32
	latest := map[ir.Tick]int{} // by end of the last member, in gaps: the group that grew last
	for _, id := range in.ids(byStart) {
		start, end := in.first(id), in.last(id)
		if in.life(id) <= 2*gap {
			groups = append(groups, []int32{id})
			continue
		}
		to := -1
		for slot := end/gap - 1; slot <= end/gap+1; slot++ {
			g, ok := latest[slot]
			if !ok || g <= to {
				continue
			}
			m := groups[g][len(groups[g])-1]
			if start-in.first(m) <= gap && max(end-in.last(m), in.last(m)-end) <= gap {
				to = g
			}
		}
		if to < 0 {
			to = len(groups)
			groups = append(groups, nil)
		}
		groups[to] = append(groups[to], id)
		latest[end/gap] = to
	}
	return groups
}

// area is the size × life of one buffer. As for every float here, each product is
// rounded by a conversion before it is used, or some processors would fuse it with what
// follows and order equals differently.
func (in *instance) area(id int32) float64 {
	return float64(float64(in.buffers[id].Size) * float64(in.life(id)))
}

// timeMemory returns the sum of size × life of a group and its TMP.
func (in *instance) timeMemory(ids []int32) (area, tmp float64) {
	start, end := in.first(ids[0]), in.last(ids[0])
	for _, id := range ids {
		area += in.area(id)
		start, end = min(start, in.first(id)), max(end, in.last(id))
	}
	box := float64(float64(in.loadOf(ids)) * float64(end-start))
	if box == 0 {
		return area, 0
	}
	return area, area / box
}
