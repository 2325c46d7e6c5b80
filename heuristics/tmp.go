package heuristics

import (
	"cmp"
	"math"
	"slices"
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
//	height: the sum of the sizes            |     |########|
//	                                        +-----------------> time
//
// A dense group can be placed like one large buffer, so groups come in the order of
// sum(size × life) × TMP, largest first, and their members follow each other, latest end
// first, so that space opens from the top. A group that fills less than 0.7 of its
// rectangle is dissolved: each member stands for itself, with TMP 1.
//
// Groups need no marks of the program (cluster.go): a buffer that lives longer than two
// gaps may be in one.
//
// Source: the groups of requests by phase of allocation and free, and their measure, in
// the STWeaver paper (arXiv 2507.16274). Here they give an order; what rigid layers
// of them cost is in layers.go.

const (
	gapsInSpan = 400 // a gap is this part of the timeline
	denseTMP   = 0.7 // below it a group is dissolved
)

// groups returns the dense groups, and every other buffer alone.
func (in *instance) groups() [][]int32 {
	gap := max(in.span/gapsInSpan, 1)
	var out [][]int32
	for _, ids := range in.clusters(clusterRule{least: 2*gap + 1, most: math.MaxInt64, gap: gap}) {
		if len(ids) > 1 {
			if _, tmp := in.timeMemory(ids); tmp < denseTMP {
				for k := range ids {
					out = append(out, ids[k:k+1])
				}
				continue
			}
		}
		out = append(out, ids)
	}
	grouped := make([]bool, len(in.buffers))
	for _, ids := range out {
		for _, id := range ids {
			grouped[id] = true
		}
	}
	for _, id := range in.ids(byStart) {
		if !grouped[id] {
			out = append(out, []int32{id})
		}
	}
	return out
}

// groupOrder is the order of byGroup.
func (in *instance) groupOrder() []int32 {
	type weighed struct {
		ids    []int32
		weight float64 // sum(size × life) × TMP, byte ticks
	}
	var groups []weighed
	for _, ids := range in.groups() {
		area, tmp := in.timeMemory(ids)
		if len(ids) == 1 {
			tmp = 1
		}
		groups = append(groups, weighed{slices.Clone(ids), area * tmp})
	}
	slices.SortFunc(groups, func(a, b weighed) int {
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

// area is the size × life of one buffer. As for every float here, each product is
// rounded by a conversion before it is used, or some processors would fuse it with what
// follows and order equals differently.
func (in *instance) area(id int32) float64 {
	return float64(float64(in.buffers[id].Size) * float64(in.life(id)))
}

// timeMemory returns the sum of size × life of a group and its TMP.
func (in *instance) timeMemory(ids []int32) (area, tmp float64) {
	for _, id := range ids {
		area += in.area(id)
	}
	h := in.hull(ids)
	box := float64(float64(h.Size) * float64(h.Life()))
	if box == 0 {
		return area, 0
	}
	return area, area / box
}
