package model

// Search finds the position again when the matcher is lost: every entry of the plan is a
// hypothesis with score 0, and up to searchColumn requests are aligned against all of them.
// It ends well when the best hypothesis has been reached by a match searchStreak times in a
// row; it is over without success after searchColumn requests. Searches begin at least a quarter
// of the plan apart, so that what they cost stays small beside the requests they serve.

func (m *matcher) beginSearch() {
	m.restarts++
	m.mode = searching
	m.began = m.asked
	m.columns, m.streak = 0, 0
	m.path, m.stay = m.path[:0], m.stay[:0]
	for i := range m.n {
		m.path = append(m.path, i)
		m.stay = append(m.stay, 0)
	}
}

// search aligns one request against the whole plan, as a line that does not wrap: only the
// match of the last entry goes round to where the loop starts.
func (m *matcher) search(z int64, stream int) int {
	m.columns++
	m.column(z, stream, m.loop)
	best := firstLargest(m.next)
	top := m.next[best]
	from := m.how[best].from
	if from >= 0 && m.how[best].own >= 0 {
		m.streak++
	} else {
		m.streak = 0
	}
	if m.streak >= searchStreak {
		m.settle(best)
		return from
	}
	if m.columns == searchColumn {
		m.mode = lost
		return -1
	}
	m.stay, m.next = m.next, m.stay
	for i, h := range m.stay {
		m.stay[i] = h - top
		if h < none/2 || h < top-dropBelow {
			m.stay[i] = none
		}
	}
	return -1
}
