package model

import "slices"

// What a plan repeats, micro-batches or tokens that are generated, a program may do once more or once less:
//
//	plan       | F B | F B | F B | F B | optimizer |
//	                  ^ over               ^ again        what is asked for here may be what comes there
//
// A stretch is such a part. Its end is where it is over, whatever number of periods before; and at its end its last
// period may come again. The frees say that one of these points has been reached, the size which way it goes. Where lives
// vary, and frees say nothing, the sizes of three requests do; and where one request may just be one too many.

// stretch is entries [begin, end), each alike the one a period later, as far as that one is in the stretch.
type stretch struct{ begin, end, period int }

const (
	windowAlike   = 8       // entries in a row that suggest a period, and the shortest one
	periodsTried  = 8       // of a part of the plan
	stretchesKept = 64      // of a part of the plan
	soonWithin    = 4       // entries that a request may be early by
	trailEnough   = 3       // requests in a row whose sizes show where the program is
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
	periods = periods[:min(len(periods), periodsTried)]
	slices.Sort(periods)
	kept := 0
	for _, p := range slices.Backward(periods) {
		run := 0
		for at := from; at+p <= to; at++ {
			if at+p < to && m.kind(at) == m.kind(at+p) {
				run++
				continue
			}
			if run >= p && kept < stretchesKept {
				kept++
				m.stretches = append(m.stretches, stretch{at - run, at + p, p})
			}
			run = 0
		}
	}
}

// trail is where the program may have gone, where nothing but sizes says so; or where it came from, if it did not.
type trail struct {
	next  int    // the entry to come
	seen  int    // requests that fitted it so far; trailEnough - 1: one more will do; 0: none
	asked uint64 // the latest of them
}

// repeats returns the entry at which the program goes on, where that is not the one expected: what repeats is over, or
// comes again. -1: neither, as far as is known.
func (m *matcher) repeats(z int64, stream int) int {
	if t := &m.trail; t.seen > 0 {
		if m.asked != t.asked+1 || !m.takes(t.next, z, stream) {
			t.seen = 0
		} else if t.seen++; t.seen == trailEnough {
			t.seen = 0
			return t.next
		} else {
			t.next, t.asked = m.succ(t.next), m.asked
			return -1
		}
	}
	here := m.hyps[0].pos
	if len(m.hyps) > 1 || m.sized(here, z) {
		return -1
	}
	for _, v := range m.votes {
		if v != here {
			return -1
		}
	}
	to := m.turn(here, func(to int) bool { return m.takes(to, z, stream) })
	switch {
	case to < 0:
	case len(m.votes) == 0 || m.kind(m.succ(to)) == m.kind(here) || m.soon(here, z, stream):
		m.trail = trail{m.succ(to), 1, m.asked}
		return -1
	default: // if it was one too many, the next one is what was expected here
		m.trail = trail{here, trailEnough - 1, m.asked}
	}
	return to
}

// soon reports whether one of the entries right behind pos takes a request: it may have come too early, or others not at all.
func (m *matcher) soon(pos int, z int64, stream int) bool {
	for range soonWithin {
		if pos = m.succ(pos); m.takes(pos, z, stream) {
			return true
		}
	}
	return false
}

// takes reports whether entry pos is planned for just such a request.
func (m *matcher) takes(pos int, z int64, stream int) bool {
	return m.sized(pos, z) && int(m.plan.Slots[m.plan.Entries[pos].Slot].Stream) == stream
}

// turn returns the first entry that fits of those where the program may go on at position here, where a stretch may be
// over, or come again; -1 for none.
func (m *matcher) turn(here int, fits func(to int) bool) int {
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
		if to >= 0 && fits(to) {
			return to
		}
	}
	return -1
}
