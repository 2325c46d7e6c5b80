package model

// Blocks that several streams use, as MATCHER.md says.

// limbo is a freed block that waits for the streams that marked it.
type limbo struct {
	at, size      uint64 // units
	number, asked uint64
	marks         []uint64
}

// RecordStream says that work of stream, queued before the block at `at` is freed, uses it, too. It
// reports whether the block is live.
func (a *Allocator) RecordStream(at Addr, stream uint64) bool {
	b, ok := a.live[at]
	if !ok {
		return false
	}
	if !a.opts.Events.On || stream == b.stream {
		return true
	}
	index := a.streamIndex(stream)
	if a.order == nil {
		a.order = newOrder(false, 0)
	}
	for _, m := range b.marks {
		if m == stream {
			return true
		}
	}
	switch {
	case index >= orderedStreams:
		b.pinned = true
	case len(b.marks) == 0:
		b.marks = []uint64{stream}
	default:
		b.marks = append([]uint64{b.marks[0], stream}, b.marks[1:]...)
	}
	if index < orderedStreams {
		a.order.line(stream)
	}
	a.live[at] = b
	return true
}

// enterLimbo holds back a marked block of a heap.
func (a *Allocator) enterLimbo(h *growing, at Addr, b live) {
	o := a.order
	o.frees++
	for _, s := range b.marks {
		a.note(o.line(s))
	}
	h.limbo = append(h.limbo, limbo{at.Offset / Unit, b.size / Unit, o.frees, a.answered(), b.marks})
	a.stats.Deferred++
}

// leave frees what may be freed of a heap's limbo, and reports whether that was anything.
func (a *Allocator) leave(h *growing, wait bool) bool {
	if len(h.limbo) == 0 {
		return false
	}
	a.runDue()
	any := false
	for len(h.limbo) > 0 && a.leaves(h.handle, h.limbo[0], wait) {
		h.give(h.limbo[0].at, h.limbo[0].size)
		h.limbo = h.limbo[1:]
		any = true
	}
	return any
}

func (a *Allocator) leaves(b uint64, x limbo, wait bool) bool {
	o := a.order
	ordered := a.streamIndex(b) < orderedStreams
	wait = ordered && (wait || a.answered()-x.asked >= o.age)
	for _, m := range x.marks {
		l := o.line(m)
		if ordered && o.known[[2]uint64{b, m}] >= x.number || a.isReached(l, x.number) {
			continue
		}
		if !wait || !a.wait(b, l, x.number) {
			return false
		}
	}
	return true
}

// leaveAll does the same for all heaps, in the order of their streams.
func (a *Allocator) leaveAll(wait bool) bool {
	any := false
	for _, handle := range a.handles {
		if h := a.byStream[handle]; h != nil && a.leave(h, wait) {
			any = true
		}
	}
	return any
}
