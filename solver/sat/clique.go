package sat

import "slices"

// shape is what the conflict graph of a core looks like: an order in which, if the graph is
// chordal (an interval graph is), the neighbours that follow a buffer are a clique.
type shape struct {
	order   []int32   // the elimination order
	later   [][]int32 // of each buffer, its neighbours that follow it in order, nearest first
	chordal bool
}

// shapeOf orders the buffers by maximum cardinality search, backwards: the next one has the most
// neighbours among those already taken (Tarjan and Yannakakis 1984). The graph is chordal exactly if, for
// each buffer, the later neighbours other than the nearest are neighbours of the nearest.
func shapeOf(c *core) shape {
	n := c.n
	s := shape{order: make([]int32, n), later: make([][]int32, n), chordal: true}
	buckets := make([][]int32, n+1) // by neighbours taken; entries may be stale
	taken, rank := make([]int, n), make([]int, n)
	for v := n - 1; v >= 0; v-- {
		buckets[0] = append(buckets[0], int32(v))
		rank[v] = -1
	}
	for at, top := n-1, 0; at >= 0; {
		if len(buckets[top]) == 0 {
			top--
			continue
		}
		v := buckets[top][len(buckets[top])-1]
		buckets[top] = buckets[top][:len(buckets[top])-1]
		if rank[v] >= 0 || taken[v] != top {
			continue
		}
		rank[v] = at
		s.order[at] = v
		at--
		for _, u := range c.adj[v] {
			if rank[u] < 0 {
				taken[u]++
				buckets[taken[u]] = append(buckets[taken[u]], u)
			} else {
				s.later[v] = append(s.later[v], u)
			}
		}
		slices.SortFunc(s.later[v], func(a, b int32) int { return rank[a] - rank[b] })
		top++ // one more than before at most
	}
	for v := range n {
		for k, u := range s.later[v] {
			if k > 0 && c.edge(s.later[v][0], u) < 0 {
				s.chordal = false
				return s
			}
		}
	}
	return s
}

// clique is the weight of the heaviest clique: exactly where the graph is chordal, else
// that of one found greedily with a bounded number of look-ups.
func (s *shape) clique(c *core) int64 {
	best, lookups := slices.Max(append([]int64{0}, c.size...)), 10_000_000
	for v := range c.n {
		sum := c.size[v]
		if s.chordal {
			for _, u := range s.later[v] {
				sum += c.size[u]
			}
			best = max(best, sum)
			continue
		}
		if lookups < 0 {
			break
		}
		near := slices.Clone(c.adj[v])
		slices.SortStableFunc(near, func(a, b int32) int { return int(min(max(c.size[b]-c.size[a], -1), 1)) })
		in := near[:0]
		for _, u := range near {
			lookups -= 1 + len(in)
			if !slices.ContainsFunc(in, func(w int32) bool { return c.edge(u, w) < 0 }) {
				in = append(in, u)
				sum += c.size[u]
			}
		}
		best = max(best, sum)
	}
	return best
}

// triangles calls f with each triangle once, until f says no.
func (s *shape) triangles(c *core, f func(a, b, d int32) bool) {
	for v := range c.n {
		later := s.later[v]
		for k, a := range later {
			for _, b := range later[:k] {
				if (s.chordal || c.edge(a, b) >= 0) && !f(int32(v), b, a) {
					return
				}
			}
		}
	}
}
