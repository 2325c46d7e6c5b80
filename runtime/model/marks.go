package model

// Marks are the program's own word on where it is. An iteration mark goes to the prologue's
// mark of that number, else to the nearest iteration mark of the loop, which may hold several
// iterations: at any distance ahead along the loop, up to keepBehind behind. A phase mark goes to the
// nearest entry that has that phase, up to lookAhead entries ahead, up to keepBehind behind; but if it has not just begun, and
// what repeats may be over here, or come again, with that phase, it goes there.

// markIteration handles the beginning of an iteration.
func (m *matcher) markIteration(value int64) {
	if m.n == 0 {
		return
	}
	first := -1
	at := make(map[int]bool)
	for _, k := range m.plan.Marks {
		if k.Kind != MarkIteration {
			continue
		}
		if k.Entry < m.plan.LoopStart {
			if k.Value == value {
				m.jump(int(k.Entry))
				return
			}
			continue
		}
		at[m.place(int(k.Entry))] = true
		if first < 0 {
			first = int(k.Entry)
		}
	}
	switch {
	case first < 0:
	case m.mode != inSync:
		m.jump(first)
	default:
		m.jumpNearest(at, m.n)
	}
}

// markPhase handles the beginning of a phase.
func (m *matcher) markPhase(name string) {
	if m.n == 0 || m.mode != inSync {
		return
	}
	at := m.phases[HashName(name)]
	here, _ := m.best()
	if to := m.turn(here, func(to int) bool { return at[to] }); to >= 0 && !at[here] {
		for i, v := range m.votes { // the frees so far spoke of where it turned
			if v == here {
				m.votes[i] = to
			}
		}
		m.jump(to)
		return
	}
	m.jumpNearest(at, lookAhead)
}

// jumpNearest jumps to the nearest of some positions, if one is near enough: at most far
// ahead along the path of successors, at most keepBehind behind; ahead first.
func (m *matcher) jumpNearest(at map[int]bool, far int) {
	here, _ := m.best()
	ahead := here
	for d := range far + 1 {
		if at[ahead] {
			m.jump(ahead)
			return
		}
		if 1 <= d && d <= keepBehind && at[here-d] {
			m.jump(here - d)
			return
		}
		ahead = m.succ(ahead)
	}
}

// place is the position a mark's entry stands for: the end of the plan is the loop's start.
func (m *matcher) place(entry int) int {
	if entry == m.n {
		return m.loop
	}
	return entry
}

// jump makes entry the only hypothesis.
func (m *matcher) jump(entry int) {
	if m.n == 0 {
		return
	}
	entry = m.place(entry)
	if here, _ := m.best(); here != entry || m.mode != inSync {
		m.resyncs++
	}
	m.settle(entry)
}
