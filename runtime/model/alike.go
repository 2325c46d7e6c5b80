package model

// Look-alikes. An optional stretch may begin like what follows it:
//
//	entries    a b x | a b c           x was seen in one iteration only, with an a and a b of its own
//	requests   a b     c               the usual iteration: which a and b were these?
//
// In step the next entry is the answer, and a and b are taken for the stretch's. When c comes the matcher would have to explain that
// two entries that are always there were left out, and rather takes c for x. So where the entry expected is not what is asked for, the one
// behind the stretch of which what was asked for says the same is expected, too, at the price of having skipped the stretch.

// lookAlike returns the hypothesis that there is beside pos, the only one; false where there is none.
func (m *matcher) lookAlike(pos int) (hypothesis, bool) {
	begin, end := 0, m.n
	if pos < m.loop {
		end = m.loop
	} else {
		begin = m.loop
	}
	s, t := pos, pos
	for s > begin && pos-s <= lookAhead && m.optional(s-1) {
		s--
	}
	for s < pos && t < end && t-s <= lookAhead && m.optional(t) {
		t++
	}
	if s == pos || t-s > lookAhead || t+pos-s >= end {
		return hypothesis{}, false
	}
	for k := range pos - s {
		if !m.alike(s+k, t+k) {
			return hypothesis{}, false
		}
	}
	return hypothesis{t + pos - s, -int64(openOptional + skipOptional*(t-s))}, true
}

func (m *matcher) optional(pos int) bool {
	return m.plan.Slots[m.plan.Entries[pos].Slot].Flags&Optional != 0
}

// alike reports whether one request could be either of two entries.
func (m *matcher) alike(p, q int) bool {
	a, b := &m.plan.Entries[p], &m.plan.Entries[q]
	x, y := &m.plan.Slots[a.Slot], &m.plan.Slots[b.Slot]
	xl, xh := x.sizes()
	yl, yh := y.sizes()
	return x.Stream == y.Stream && xl <= yh && yl <= xh && a.NfMin <= b.NfMax && b.NfMin <= a.NfMax
}
