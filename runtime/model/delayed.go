package model

import pq "container/heap"

// delayed emits operations with some held back. The clock counts allocations and frees.
type delayed struct {
	ops   []Op
	clock int
	held  int // operations held back so far
	wait  dueHeap
}

func newDelayed(capacity int) *delayed { return &delayed{ops: make([]Op, 0, capacity)} }

// emit issues op now, then what has become due.
func (d *delayed) emit(op Op) {
	d.ops = append(d.ops, op)
	if op.Kind == OpAlloc || op.Kind == OpFree {
		d.clock++
	}
	for len(d.wait) > 0 && d.wait[0].at <= d.clock {
		d.ops = append(d.ops, pq.Pop(&d.wait).(due).op)
	}
}

// later issues op after n more events.
func (d *delayed) later(op Op, n int) {
	d.held++
	pq.Push(&d.wait, due{d.clock + n, d.held, op})
}

// finish issues what is still held back and returns all.
func (d *delayed) finish() []Op {
	for len(d.wait) > 0 {
		d.ops = append(d.ops, pq.Pop(&d.wait).(due).op)
	}
	return d.ops
}

// due is an operation that is issued when the clock reaches at; seq orders equals.
type due struct {
	at, seq int
	op      Op
}

type dueHeap []due

func (h dueHeap) Len() int      { return len(h) }
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(due)) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
