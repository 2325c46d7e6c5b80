package sat

// cutCycles forbids cycles among the buffers that chains left over: those of three if there are
// any, else a shortest one through each buffer in turn. A cycle reversed is a cycle.
func (m *orientModel) cutCycles() {
	c := m.c
	left := func(v int32) bool { return m.degree[v] > 0 }
	found := 0
	for u := range int32(c.n) {
		if !left(u) {
			continue
		}
		for k, v := range c.adj[u] {
			if !left(v) || v < u || !m.up(c.eids[u][k], u, v) {
				continue
			}
			for k, w := range c.adj[v] {
				if w < u || !left(w) || !m.up(c.eids[v][k], v, w) {
					continue
				}
				if e := c.edge(w, u); e >= 0 && m.up(int32(e), w, u) {
					m.forbid([]int32{u, v, w, u}, true)
					if found++; found == cyclesPerRound {
						return
					}
				}
			}
		}
	}
	if found > 0 {
		return
	}
	for u := range int32(c.n) {
		if !left(u) {
			continue
		}
		if cycle := m.cycleThrough(u); cycle != nil {
			m.forbid(cycle, true)
			if found++; found == cutsPerRound {
				return
			}
		}
	}
}

// cycleThrough finds a shortest directed cycle through u, as a closed walk from u to u, or nil.
func (m *orientModel) cycleThrough(u int32) []int32 {
	c := m.c
	from := make([]int32, c.n)
	for v := range from {
		from[v] = -1
	}
	queue := []int32{u}
	for k := 0; k < len(queue); k++ {
		v := queue[k]
		for k, w := range c.adj[v] {
			if m.degree[w] == 0 || !m.up(c.eids[v][k], v, w) {
				continue
			}
			if w == u {
				cycle := []int32{u}
				for x := v; x != u; x = from[x] {
					cycle = append(cycle, x)
				}
				cycle = append(cycle, u)
				for a, b := 0, len(cycle)-1; a < b; a, b = a+1, b-1 {
					cycle[a], cycle[b] = cycle[b], cycle[a]
				}
				return cycle
			}
			if from[w] < 0 {
				from[w] = v
				queue = append(queue, w)
			}
		}
	}
	return nil
}
