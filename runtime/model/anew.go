package model

// An iteration that begins anew, after an exception, an evaluation or another model's step, is known by what it begins
// with, the anchor, once nothing of the last one is alive. A loop may be unrolled, for tensors that outlive an iteration:
//
//	|--- prologue ---|-- copy 0 --|-- copy 1 --|
//	                   anchor       anchor
//
// Then it is the copy under way that begins anew: the addresses of another one are not free.

// findAnchor returns the loop's first planned entry of one size, more than commonBytes, that is always
// there, among the first anchorWithin; -1 for none.
func (m *matcher) findAnchor() int {
	for pos := m.loop; pos < min(m.n, m.loop+anchorWithin); pos++ {
		s := m.plan.Slots[m.plan.Entries[pos].Slot]
		if begin, end := s.span(); s.fixed() && s.Flags&Optional == 0 && end-begin > commonBytes {
			return pos
		}
	}
	return -1
}

// maxCopies is how many times the same a loop can be: the compiler unrolls no further.
const maxCopies = 4

// findCopies returns how many times the same the loop is.
func (m *matcher) findCopies() int {
	for copies := maxCopies; copies > 1; copies-- {
		each := (m.n - m.loop) / copies
		alike := each > 0 && (m.n-m.loop)%copies == 0
		for pos := m.loop; alike && pos+each < m.n; pos++ {
			a, b := m.plan.Entries[pos], m.plan.Entries[pos+each]
			x, y := m.plan.Slots[a.Slot], m.plan.Slots[b.Slot]
			a.Slot, b.Slot = 0, 0
			alike = a == b && x.Stream == y.Stream && x.Flags == y.Flags && x.Hi == y.Hi && x.Varies == y.Varies
		}
		if alike {
			return copies
		}
	}
	return 1
}

// copyOf returns the copy in which the loop's entry pos is.
func (m *matcher) copyOf(pos int) int { return (pos - m.loop) / ((m.n - m.loop) / m.copies) }

// isInner reports whether the request of entry pos is dead when its iteration is over.
func (m *matcher) isInner(pos int) bool {
	if pos < m.loop {
		return false
	}
	life := int64(m.plan.Entries[pos].Life)
	end := m.loop + (m.copyOf(pos)+1)*((m.n-m.loop)/m.copies)
	return life < MaxLife && int64(pos)+life <= int64(end)
}

// anew reports whether a request that is not what was expected begins an iteration: nothing of the
// last one is alive, and it is what an iteration begins with.
func (m *matcher) anew(z int64, stream int) bool {
	if m.last < 0 || m.inner > 0 || m.anchor < 0 {
		return false
	}
	s := m.plan.Slots[m.plan.Entries[m.anchor].Slot]
	begin, end := s.span()
	return int(s.Stream) == stream && int64(end-begin) == z
}

// begin answers a request with the anchor of the copy that was under way, or was to be next, whatever the
// position is.
func (m *matcher) begin() int {
	pos := m.anchor + m.copyOf(m.succ(m.last))*((m.n-m.loop)/m.copies)
	m.jump(pos)
	return m.goOn(pos)
}
