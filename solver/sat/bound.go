package sat

import (
	"slices"
	"time"
)

// LowerBound raises load, a height already known to be needed, by refuting capacities on parts of
// the instance: what some of the buffers need, all need. upper is a height known to be reached; a
// bound that meets it is a proof. Two families of cores are tried, small first:
//
//	largest   the k largest buffers, k = 10, 20, 30, ...
//	grown     some of the largest, laid out at the capacity; the rest follows by first fit in order of size,
//	          and those that end above the capacity join the core, until the core is refuted
//	          or nothing is left outside
//
// To go up by one refuted capacity at a time would be slow, so a core that refutes the bound is minimised,
// and its optimum, or else one more than the highest capacity refuted, becomes the bound.
//
// Source: the idea that OPT of a subset bounds OPT is folklore; the way grown cores are fed is
// counterexample-guided abstraction refinement (Clarke et al. 2000).
func LowerBound(in Instance, load, upper int64, b Budget) Bound {
	deadline := time.Now().Add(b.duration())
	bound := Bound{Value: load, Kind: "live peak"}
	if int64(len(in.Conflicts)) > b.clauses() {
		return bound
	}
	g := newGraph(in)
	order := make([]int32, 0, len(in.Sizes))
	for v, size := range in.Sizes {
		if size > 0 {
			order = append(order, int32(v))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return int(min(max(in.Sizes[b]-in.Sizes[a], -1), 1)) })
	try := func(core []int32) (a Answer) {
		slices.Sort(core)
		sub := restrict(g, core)
		share := time.Until(deadline) / 4
		a = Decide(sub, bound.Value, Budget{b.MaxClauses, max(share.Seconds(), 0.001)})
		if a.Verdict == Infeasible {
			left := time.Until(deadline) / 2
			_, _, low, _ := Minimise(sub, bound.Value+1, max(upper, bound.Value+1), Budget{b.MaxClauses, max(left.Seconds(), 0.001)})
			bound = Bound{Value: max(bound.Value+1, low), Kind: "core", Core: core}
			if bound.Value >= upper {
				bound.Kind = "proved"
			}
		}
		return a
	}
	open := func() bool { return bound.Value < upper && time.Now().Before(deadline) }
	grown := slices.Clone(order[:min(10, len(order))])
	dead := false
	for _, k := range coreSizes {
		if !open() {
			return bound
		}
		if k < len(order) {
			try(slices.Clone(order[:k]))
		}
		for !dead && len(grown) <= k && open() {
			a := try(slices.Clone(grown))
			if a.Verdict == Infeasible {
				continue // the bound has risen: the same core again, at the new one
			}
			if a.Verdict == Unknown {
				dead = true
				break
			}
			before := len(grown)
			grown = grow(g, grown, order, a.Offsets, bound.Value)
			if len(grown) == before {
				return bound // a layout of all: nothing above the bound can be proved
			}
		}
	}
	if open() && len(order) > 0 {
		try(order)
	}
	return bound
}

// coreSizes are the sizes of cores tried, in turn.
var coreSizes = []int{10, 20, 30, 40, 60, 80, 100, 150, 200, 300, 450, 700, 1000, 1500, 2000, 3000}

// restrict is the instance of the buffers of core alone, which must be ascending.
func restrict(g *graph, core []int32) Instance {
	sub := Instance{Sizes: make([]int64, len(core)), Fixed: make([]int64, len(core))}
	local := make([]int32, len(g.size))
	for k, v := range core {
		local[v] = int32(k) + 1
		sub.Sizes[k], sub.Fixed[k] = g.size[v], g.fixed[v]
	}
	for k, v := range core {
		for _, u := range g.adj[v] {
			if j := local[u] - 1; j > int32(k) {
				sub.Conflicts = append(sub.Conflicts, [2]int32{int32(k), j})
			}
		}
	}
	return sub
}

// growBy is how many buffers join a core at a time.
const growBy = 8

// grow places the buffers outside core round its layout, in the given order, and adds to it the first
// few that end above the capacity. It returns core itself where there are none.
func grow(g *graph, core, order []int32, layout []int64, capacity int64) []int32 {
	offsets := slices.Repeat([]int64{-1}, len(g.size))
	sorted := slices.Clone(core)
	slices.Sort(sorted)
	for k, v := range sorted {
		offsets[v] = layout[k]
	}
	// What is fixed comes first: no layout of the core may ask it to move.
	var high []int32
	for _, v := range order {
		if g.fixed[v] < 0 || offsets[v] >= 0 {
			continue
		}
		if offsets[v] = g.fixed[v]; clash(g, v, offsets) || offsets[v]+g.size[v] > capacity {
			high = append(high, v)
		}
	}
	for _, v := range order {
		if len(high) >= growBy {
			break
		}
		if offsets[v] >= 0 {
			continue
		}
		if o := firstFit(g, v, 0, offsets); o+g.size[v] <= capacity {
			offsets[v] = o
		} else {
			high = append(high, v)
		}
	}
	return append(sorted, high...)
}

// clash reports whether v, placed, meets a placed neighbour.
func clash(g *graph, v int32, offsets []int64) bool {
	for _, u := range g.adj[v] {
		if offsets[u] >= 0 && offsets[u] < offsets[v]+g.size[v] && offsets[v] < offsets[u]+g.size[u] {
			return true
		}
	}
	return false
}
