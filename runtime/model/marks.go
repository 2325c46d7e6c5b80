package model

// Marks are the program's own word on where it is. An iteration mark goes to the prologue's
// mark of that number, else to the first iteration mark of the loop, which stands for all of
// them. A phase mark goes to the nearest entry that has that phase: up to lookAhead entries
// ahead along the loop, up to keepBehind behind.

// markIteration handles the beginning of an iteration.
func (m *matcher) markIteration(value int64) {
	target := -1
	for _, k := range m.plan.Marks {
		if k.Kind != MarkIteration {
			continue
		}
		if k.Entry < m.plan.LoopStart && k.Value == value {
			m.jump(int(k.Entry))
			return
		}
		if k.Entry >= m.plan.LoopStart && target < 0 {
			target = int(k.Entry)
		}
	}
	if target >= 0 {
		m.jump(target)
	}
}

// markPhase handles the beginning of a phase.
func (m *matcher) markPhase(name string) {
	if m.n == 0 || m.mode != inSync {
		return
	}
	at := m.phases[HashName(name)]
	here, _ := m.best()
	ahead := here
	for d := range lookAhead + 1 {
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
