package compiler

import (
	"fmt"

	"stweaver/ir"
)

// The second judge: the plan's addresses, executed on recorded events. It knows nothing of buffers,
// carried pieces or twins, and finds a lowering that is wrong although its layout is right.
//
// Where streams share it counts, at each address, the entries between the free and the next request that
// gets it. Entries an iteration leaves out count, too: AGE is a distance in the plan.

// VerifyWorkload places every request that has a planned entry at that entry's address for as long as
// it really lives: no two may meet, and where streams share, what waits for another stream comes AGE entries after
// the free. It returns the number of placed requests and what is wrong.
func VerifyWorkload(w *Workload, p *ir.Plan) (placed int, violations []ir.Violation) {
	x := execution{p: p, index: make([]int, w.Requests)}
	for i := range x.index {
		x.index[i] = -1
	}
	for k := range w.Events {
		ev := &w.Events[k]
		switch {
		case ev.Kind == ir.EvAlloc && ev.Entry != ir.NoEntry:
			x.tick(ev.Entry)
			s := &p.Slots[p.Entries[ev.Entry].Slot]
			if s.Flags&ir.SlotPlanned == 0 {
				break
			}
			if ir.RoundUp(ev.Size) > ir.Bytes(s.Hi) {
				violations = append(violations, ir.Violation{Rule: "V6", A: ir.BufferID(ev.ID), B: ir.NoBuffer,
					Msg: fmt.Sprintf("event %d asks for %d bytes, its planned entry %d has %d", k, ev.Size, ev.Entry, s.Hi)})
				break
			}
			x.index[ev.ID] = len(x.items)
			x.items = append(x.items, ir.Placed{ID: uint32(len(x.items)), Start: ir.Tick(k), End: ir.Never, From: ir.Offset(s.Lo), To: ir.Offset(s.Lo + s.Hi)})
			x.lives = append(x.lives, executed{id: ev.ID, entry: ev.Entry, start: x.clock, end: ir.Never, life: ir.Buffer{Stream: s.Stream}})
		case ev.Kind == ir.EvFree && x.index[ev.ID] >= 0:
			i := x.index[ev.ID]
			x.items[i].End = ir.Tick(k)
			x.lives[i].end, x.lives[i].life.Lag = x.clock+1, ev.Lag
		}
	}
	for _, c := range ir.VerifyPlaced(x.items, maxExecuted) {
		violations = append(violations, ir.Violation{Rule: "V6", A: ir.BufferID(x.lives[c[0].ID].id), B: ir.BufferID(x.lives[c[1].ID].id),
			Msg: fmt.Sprintf("replayed requests %d at [%d, %d) and %d at [%d, %d) are both alive at event %d",
				x.lives[c[0].ID].id, c[0].From, c[0].To, x.lives[c[1].ID].id, c[1].From, c[1].To, c[1].Start)})
	}
	if p.SharedAge > 0 && len(violations) == 0 {
		violations = x.young()
	}
	return len(x.items), violations
}

// maxExecuted caps what one execution reports of each kind.
const maxExecuted = 20

// execution is a plan under way.
type execution struct {
	p     *ir.Plan
	index []int // item of each request, -1 for none
	items []ir.Placed
	lives []executed // by item
	last  uint32     // entry
	begun bool
	turn  ir.Tick // entries in all turns before this one
	clock ir.Tick // entries so far
}

// executed is a placed request on the plan's clock, which goes on through turns of the loop.
type executed struct {
	id, entry  uint32
	start, end ir.Tick
	life       ir.Buffer // stream and lag, for the rule
}

// tick moves the clock to an entry. What is freed from then on ends at the next one, requested or left out.
func (x *execution) tick(entry uint32) {
	if x.begun && entry <= x.last { // the loop, or the pass, begins again
		x.turn += ir.Tick(len(x.p.Entries)) - ir.Tick(x.p.LoopStart)
		if int(x.p.LoopStart) == len(x.p.Entries) {
			x.turn += ir.Tick(len(x.p.Entries)) + ir.Tick(x.p.SharedAge) // passes are runs of their own
		}
	}
	x.last, x.begun, x.clock = entry, true, x.turn+ir.Tick(entry)
}

// young lists the reuses that must wait for another stream, and come too early.
func (x *execution) young() (out []ir.Violation) {
	age := SharingOf(x.p).Age
	ir.Successions(x.items, func(p, q ir.Placed) {
		a, b := &x.lives[p.ID], &x.lives[q.ID]
		slot := func(l *executed) uint32 { return x.p.Entries[l.entry].Slot }
		own := a.entry == b.entry || a.entry < x.p.LoopStart && b.entry >= x.p.LoopStart && slot(a) == slot(b) // the next instance
		least := a.life.Distance(b.life.Stream, age)
		if own || b.start-a.end >= least || len(out) == maxExecuted {
			return
		}
		out = append(out, ir.Violation{Rule: "V6", A: ir.BufferID(a.id), B: ir.BufferID(b.id),
			Msg: fmt.Sprintf("replayed request %d of stream %d at [%d, %d) is freed, and %d entries later request %d of stream %d at [%d, %d) is made: fewer than %d",
				a.id, a.life.Stream, p.From, p.To, b.start-a.end, b.id, b.life.Stream, q.From, q.To, least)})
	})
	return out
}
