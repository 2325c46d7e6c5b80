package plantest

import "stweaver/runtime/model"

// Repeats is a plan that repeats: weights, then for ever a body, so many times over, and a tail. All that a body asks
// for is freed before the next one begins, at the latest; what the tail asks for before its next request.
type Repeats struct {
	Plan  *model.Plan
	Times int  // of the body in the plan
	Firm  bool // frees say where the program is
	Marks bool // and so do marks

	weights    int
	body, tail []uint32 // units
	death      []int    // of each of the body: the request of it before which it is freed, len(body) at its end
}

// Repeating draws one; the body itself may have a part that comes several times. In one of four no life is firm, and no free says anything.
func Repeating(src Source) *Repeats {
	r := &Repeats{Times: 2 + src(4), weights: src(3)}
	part := 8 + src(12)
	sizes := make([]uint32, part)
	for i := range sizes {
		sizes[i] = uint32(9 + 8*i + src(8))
	}
	for range 1 + src(3) {
		r.body = append(r.body, sizes...)
	}
	for i := range 1 + src(10) {
		r.body = append(r.body, uint32(500+8*i))
		r.tail = append(r.tail, uint32(1+src(3)+300*(i%2)))
	}
	for i := range r.body {
		r.death = append(r.death, i+1+src(len(r.body)-i))
	}
	r.Firm, r.Marks = src(4) > 0, src(2) == 0
	p := &model.Plan{LoopStart: uint32(r.weights)}
	var at uint32
	slot := func(units uint32) uint32 {
		p.Slots = append(p.Slots, model.Slot{Lo: at, Hi: units, Flags: model.Planned})
		at += units
		return uint32(len(p.Slots) - 1)
	}
	for range r.weights {
		p.Entries = append(p.Entries, model.Entry{Slot: slot(40), Life: model.MaxLife, NfMax: 3})
	}
	first := len(p.Slots)
	for _, units := range r.body {
		slot(units)
	}
	mark := func(phase int) {
		if r.Marks {
			p.Marks = append(p.Marks, model.Mark{Entry: uint32(len(p.Entries)), Kind: model.MarkPhase, Name: model.HashName(phases[phase])})
		}
	}
	for range r.Times {
		mark(0)
		for i := range r.body {
			p.Entries = append(p.Entries, model.Entry{Slot: uint32(first + i), Life: uint32(r.death[i] - i), Firm: r.Firm, NfMax: 3})
		}
	}
	mark(1)
	for _, units := range r.tail {
		p.Entries = append(p.Entries, model.Entry{Slot: slot(units), Life: 1, Firm: r.Firm, NfMax: 3})
	}
	p.Arena = uint64(at) * model.Unit
	p.Streams = []model.Stream{{End: p.Arena}}
	r.Plan = p
	return r
}

var phases = []string{"body", "tail"}

// Script is a program that does the body times[k] times in step k; slots are what its requests should have from the plan.
func (r *Repeats) Script(times []int) (s *model.Script, slots []uint32) {
	s = &model.Script{Names: phases}
	mark := func(phase uint32) {
		if r.Marks {
			s.Ops = append(s.Ops, model.PhaseOp(phase))
		}
	}
	ask := func(slot uint32) uint32 {
		s.Ops = append(s.Ops, model.AllocOp(s.IDs, int64(r.Plan.Slots[slot].Hi)*model.Unit, 0))
		slots = append(slots, slot)
		s.IDs++
		return s.IDs - 1
	}
	free := func(id uint32) { s.Ops = append(s.Ops, model.FreeOp(id)) }
	for k := range r.weights {
		ask(uint32(k))
	}
	last := int64(-1) // of the tail
	for _, n := range times {
		s.Starts = append(s.Starts, len(s.Ops))
		for range n {
			mark(0)
			first := s.IDs
			for i := range r.body {
				for j := range i {
					if r.death[j] == i {
						free(first + uint32(j))
					}
				}
				if last >= 0 {
					free(uint32(last))
					last = -1
				}
				ask(uint32(r.weights + i))
			}
			for j := range r.body {
				if r.death[j] == len(r.body) {
					free(first + uint32(j))
				}
			}
		}
		mark(1)
		for i := range r.tail {
			if last >= 0 {
				free(uint32(last))
			}
			last = int64(ask(uint32(r.weights + len(r.body) + i)))
		}
	}
	return s, slots
}
