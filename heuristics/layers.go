package heuristics

import (
	"cmp"
	"slices"

	"stweaver/ir"
)

// Layers: the planner of the STWeaver paper, without marks.
//
// HomoPhase: what is made together and dies together is a group, packed densely and then
// handled as one rectangle (cluster.go; a group that fills less than 0.7 of its hull is
// dissolved). HomoSize: rectangles of one size are a class. Classes go by size, largest
// first; within one, by start. A rectangle takes, in this order,
//
//  1. a layer of its class: the one whose last tenant left most recently
//  2. an idle interval of what lies below the top: between the tenants of larger layers
//  3. a new layer on the top
//
//     address
//       |  +----+  +-----+      layer of class 2, opened last
//       |  +----+  +-----+
//       |  +---------++-----+   layer of class 1; in its pause there is room for
//       |  |         ||     |   rectangles of smaller classes
//       |  +---------++-----+
//       +---------------------> time
//
// The paper's code puts idle intervals to use at multiples of the smaller size only, and
// keeps one occupancy array a layer and tick; here the index answers both, in place of a
// quadratic table. What stays is the method's own limit: the peak is about a sum of
// layers, so mixed sizes cost: from nothing (ZeRO-1 with recompute) to 31 per cent (a
// mixture of experts), where the portfolio ends within 0.3. It is one packer of the table.
//
// Source: STWeaver (arXiv 2507.16274), sections on homogeneous grouping and interval
// partition.

// tenancy is a layer of the class in work.
type tenancy struct {
	at   int64
	tail ir.Tick // when its last tenant leaves
}

// packLayers places everything by groups, classes and layers.
func packLayers(w *bench) bool {
	in := w.in
	items := in.rectangles()
	w.start()
	top := int64(0)
	var layers []tenancy
	for n, it := range items {
		if n%asking == 0 && !w.wanted() {
			return false
		}
		size := int64(it.hull.Size)
		if n == 0 || items[n-1].hull.Size != it.hull.Size {
			layers = layers[:0]
		}
		p := in.clock.piece(&it.hull)
		if size == 0 || p.empty() {
			for _, id := range it.ids {
				w.put(id, 0)
			}
			continue
		}
		w.index.locate(p)
		at := int64(-1)
		start, end := it.hull.Start, it.hull.End
		if it.hull.HasHead() {
			start = min(start, it.hull.HeadStart)
		}
		// Layers are kept by tail; the last of those that are free is the most recent.
		k, _ := slices.BinarySearchFunc(layers, start, func(l tenancy, t ir.Tick) int {
			return cmp.Or(cmp.Compare(l.tail, t), -1)
		})
		if k > 0 && w.index.vacant(layers[k-1].at, layers[k-1].at+size) {
			at = layers[k-1].at
			layers = slices.Delete(layers, k-1, k)
		} else if at = w.index.find(size, top, firstFit); at < 0 {
			at = top
		}
		k, _ = slices.BinarySearchFunc(layers, end, func(l tenancy, t ir.Tick) int { return cmp.Compare(l.tail, t) })
		layers = slices.Insert(layers, k, tenancy{at, end})
		top = max(top, at+size)
		w.index.take(at, at+size)
		w.peak = max(w.peak, at+size)
		for _, id := range it.ids {
			w.offsets[id] = ir.Offset(at)
			at += int64(in.buffers[id].Size)
		}
	}
	return true
}

// rectangle is a group, or a buffer alone.
type rectangle struct {
	ids  []int32
	hull ir.Buffer
}

// rectangles returns the groups and what is in none, by size, then start.
func (in *instance) rectangles() []rectangle {
	var out []rectangle
	for _, ids := range in.groups() {
		out = append(out, rectangle{ids, in.hull(ids)})
	}
	slices.SortFunc(out, func(a, b rectangle) int {
		return cmp.Or(cmp.Compare(b.hull.Size, a.hull.Size), cmp.Compare(in.first(a.ids[0]), in.first(b.ids[0])), cmp.Compare(a.ids[0], b.ids[0]))
	})
	return out
}
