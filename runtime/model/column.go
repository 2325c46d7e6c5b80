package model

// One column of the alignment that match.go draws: the path it runs along, and the new score of each position.

// layPath fills path and stay for a slow request in sync. It returns the path index the match
// of the last position goes to: that of a position it would repeat, or len(path) if the path
// was cut by its length.
func (m *matcher) layPath() (fold int) {
	m.path, m.stay = m.path[:0], m.stay[:0]
	first := m.hyps[0].pos
	limit, at := -1, 0
	for pos := first; ; pos = m.succ(pos) {
		i := len(m.path)
		h := int64(none)
		if at < len(m.hyps) && m.hyps[at].pos == pos {
			h = m.hyps[at].h
			at++
			if h == 0 && limit < 0 {
				limit = i + lookAhead + 1
			}
		}
		m.path = append(m.path, pos)
		m.stay = append(m.stay, h)
		next := m.succ(pos)
		wraps := pos == m.n-1 && first <= m.loop
		if wraps || next == first {
			fold = 0
			if first < m.loop {
				fold = m.loop - first
			}
			break
		}
		if limit >= 0 && len(m.path) >= limit {
			fold = len(m.path)
			break
		}
	}
	if at != len(m.hyps) {
		panic("BUG: model: a hypothesis is not on the path of the first")
	}
	return fold
}

// column computes next and how from stay for one request, along path. The match of the last
// position goes to index fold.
func (m *matcher) column(z int64, stream, fold int) {
	k := len(m.path)
	size := max(k, fold+1)
	m.next = append(m.next[:0], make([]int64, size)...)
	m.how = append(m.how[:0], make([]reach, size)...)
	for i := range m.next {
		m.next[i], m.how[i].from = none, -1
		if i < k && m.stay[i] > none/2 {
			m.next[i] = m.stay[i] - extraPrice
		}
	}
	gapO, gapM := int64(none), int64(none)
	for i, pos := range m.path {
		arrive, gap := m.stay[i], false
		if g := max(gapO, gapM); g > arrive {
			arrive, gap = g, true
		}
		if arrive > none/2 {
			if s, ok := m.score(pos, z, stream); ok {
				to := i + 1
				if i == k-1 {
					to = fold
				}
				if v := arrive + s; v >= m.next[to] {
					m.next[to], m.how[to] = v, reach{i, gap, s}
				}
			}
		}
		open := m.stay[i] - openMust
		if m.optional(pos) {
			gapO = max(gapO, m.stay[i]-openOptional) - skipOptional
			gapM = max(gapM, open) - skipOptional
		} else {
			gapO = none
			gapM = max(gapM, open) - skipMust
		}
	}
}

// firstLargest returns the lowest index of the largest score.
func firstLargest(scores []int64) int {
	best := 0
	for i, v := range scores {
		if v > scores[best] {
			best = i
		}
	}
	return best
}
