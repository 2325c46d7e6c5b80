package solver

import "stweaver/solver/sat"

// Where the search leaves a gap, SAT: it learns from conflicts, which the search does not,
// and refutes in a second what the search never would; it is no good at finding tight
// layouts. What a part's largest buffers alone need, the part needs: a bound on the core
// bounds the whole.

const (
	satItems    = 600       // most buffers handed over: the largest of a part
	satClauses  = 20 << 20  // limit of the encodings
	satSeconds  = 10.0      // for each part
	satMeetings = 100 << 10 // most pairs that meet
)

// refine lets SAT work on the parts that hold the whole up.
func (s *solving) refine() {
	for _, i := range s.needy() {
		s.climbs[i].sat()
	}
}

// sat bounds c from below, and looks for a better layout if all of the part was handed over.
func (c *climb) sat() {
	which := c.largest()
	in := sat.Instance{Sizes: make([]int64, len(which))}
	if c.p.pinned {
		in.Fixed = make([]int64, len(which))
	}
	for n, i := range which {
		it := &c.p.items[i]
		in.Sizes[n] = it.size
		if in.Fixed != nil {
			in.Fixed[n] = it.fixed
		}
		for m := range n {
			if it.meets(&c.p.items[which[m]]) {
				in.Conflicts = append(in.Conflicts, [2]int32{int32(m), int32(n)})
			}
		}
	}
	if len(in.Conflicts) > satMeetings {
		return
	}
	sortBy(in.Conflicts, func(a, b *[2]int32) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] })
	budget := sat.Budget{MaxClauses: satClauses, Seconds: satSeconds / 2}
	bound := sat.LowerBound(in, c.low, c.high, budget)
	c.low = max(c.low, bound.Value)
	if len(which) < len(c.p.items) || c.low >= c.high || c.offsets == nil {
		return
	}
	offsets, peak, low, _ := sat.Minimise(in, c.low, c.high, budget)
	c.low = max(c.low, low)
	if offsets != nil && peak < c.high {
		back := make([]int64, len(c.p.items))
		for n, i := range which {
			back[i] = offsets[n]
		}
		c.take(back, peak)
	}
}

// largest are the largest items of the part, as many as may be handed over, in order.
func (c *climb) largest() []int32 {
	order := make([]int32, len(c.p.items))
	for i := range order {
		order[i] = int32(i)
	}
	items := c.p.items
	sortBy(order, func(a, b *int32) bool {
		x, y := &items[*a], &items[*b]
		return x.size > y.size || x.size == y.size && *a < *b
	})
	order = order[:min(len(order), satItems)]
	sortBy(order, func(a, b *int32) bool { return *a < *b })
	return order
}
