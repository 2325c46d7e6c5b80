package model

import "slices"

// What a plan repeats, micro-batches or tokens that are generated, a program may do once more or once less:
//
//	plan       | F B | F B | F B | F B | optimizer |
//	                  ^ over               ^ again        what is asked for here may be what comes there
//
// A stretch is such a part. Its end is where it is over, whatever number of periods before; and at its end its last
// period may come again. The frees say that one of these points has been reached, the size which way it goes.

// stretch is entries [begin, end), each alike the one a period later, as far as that one is in the stretch.
type stretch struct{ begin, end, period int }

const (
	windowAlike   = 8       // entries in a row that suggest a period, and the shortest one
	periodsTried  = 8       // of a part of the plan
	stretchesKept = 32      // of the plan
	repeatsWithin = 1 << 20 // entries; longer parts are not looked at
)

// kind is what alike entries have in common: the stream, and the size if it is planned and does not vary.
func (m *matcher) kind(pos int) uint64 {
	s := m.plan.Slots[m.plan.Entries[pos].Slot]
	switch {
	case s.fixed():
		return uint64(s.Stream)<<33 | 1<<32 | uint64(s.Hi)
	case s.Flags&Planned != 0:
		return uint64(s.Stream)<<33 | 1
	}
	return uint64(s.Stream) << 33
}

// findStretches looks for what repeats in entries [from, to).
func (m *matcher) findStretches(from, to int) {
	if to-from > repeatsWithin {
		return
	}
	votes := make(map[int]int)
	last := make(map[[windowAlike]uint64]int)
	for at := from; at+windowAlike <= to; at++ {
		var window [windowAlike]uint64
		for k := range window {
			window[k] = m.kind(at + k)
		}
		if before, ok := last[window]; ok && at-before >= windowAlike {
			votes[at-before]++
		}
		last[window] = at
	}
	var periods []int
	for p := range votes {
		periods = append(periods, p)
	}
	slices.SortFunc(periods, func(a, b int) int {
		if votes[a] != votes[b] {
			return votes[b] - votes[a]
		}
		return a - b
	})
	for _, p := range periods[:min(len(periods), periodsTried)] {
		run := 0
		for at := from; at+p <= to; at++ {
			if at+p < to && m.kind(at) == m.kind(at+p) {
				run++
				continue
			}
			if run >= p && len(m.stretches) < stretchesKept {
				m.stretches = append(m.stretches, stretch{at - run, at + p, p})
			}
			run = 0
		}
	}
}

// repeats returns the entry at which the program goes on, where that is not the one expected: what repeats is over, or
// comes again. -1: neither.
func (m *matcher) repeats(z int64, stream int) int {
	here := m.hyps[0].pos
	if len(m.hyps) > 1 || len(m.votes) == 0 || m.sized(here, z) {
		return -1
	}
	for _, v := range m.votes {
		if v != here {
			return -1
		}
	}
	base := 0
	if here >= m.loop {
		base = m.copyOf(here) * ((m.n - m.loop) / m.copies)
	}
	for _, s := range m.stretches {
		to := -1
		if at := here - base; s.begin <= at && at < s.end && (s.end-at)%s.period == 0 {
			to = m.place(s.end + base)
		} else if m.place(s.end+base) == here {
			to = s.end - s.period + base
		}
		if to >= 0 && m.sized(to, z) && int(m.plan.Slots[m.plan.Entries[to].Slot].Stream) == stream {
			return to
		}
	}
	return -1
}
