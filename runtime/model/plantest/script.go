package plantest

import (
	"slices"

	"stweaver/runtime/model"
)

// walk goes through the plan, prologue and then loop so many times. For every entry it calls
// free for those that die before it, then asks whether it is requested, and calls alloc if so.
// Instances are numbered by the caller: free gets the number of calls of alloc before the one
// that made it.
func (c *Case) walk(iterations int, wanted func(entry int) bool, alloc func(entry int), free func(instance int)) {
	type death struct{ instance int }
	deaths := make(map[int][]death)
	made, now := 0, 0
	n, loop := len(c.Plan.Entries), int(c.Plan.LoopStart)
	step := func(k int) {
		for _, d := range deaths[now] {
			free(d.instance)
		}
		delete(deaths, now)
		if wanted(k) {
			alloc(k)
			if c.Life[k] != Forever {
				deaths[now+c.Life[k]] = append(deaths[now+c.Life[k]], death{made})
			}
			made++
		}
		now++
	}
	for k := range loop {
		step(k)
	}
	if loop == n {
		loop = 0
		iterations--
	}
	for range iterations {
		for k := loop; k < n; k++ {
			step(k)
		}
	}
	var left []int
	for at := range deaths {
		left = append(left, at)
	}
	slices.Sort(left)
	for _, at := range left {
		for _, d := range deaths[at] {
			free(d.instance)
		}
	}
}

// Script returns the requests of a program that keeps to the plan for so many iterations, with
// sizes that vary and the presence of optional entries drawn from src, and raw stream handles
// that are not the recorded ones. With marks, it tells of its iterations and of the plan's phases.
func (c *Case) Script(src Source, iterations int, marks bool) *model.Script {
	s := &model.Script{}
	var hashes []uint64
	for k := range Phases {
		s.Names = append(s.Names, Phase(k))
		hashes = append(hashes, model.HashName(Phase(k)))
	}
	p := c.Plan
	phases := make(map[int][]uint32) // names by entry
	for _, m := range p.Marks {
		if marks && m.Kind == model.MarkPhase {
			phases[int(m.Entry)] = append(phases[int(m.Entry)], uint32(slices.Index(hashes, m.Name)))
		}
	}
	handle := func(stream uint16) uint64 {
		if h := p.Streams[stream].Handle; h != 0 {
			return h*7 + 1
		}
		return 0
	}
	iteration := int64(-1)
	wanted := func(k int) bool {
		slot := p.Slots[p.Entries[k].Slot]
		if k == int(p.LoopStart) || int(p.LoopStart) == len(p.Entries) && k == 0 {
			iteration++
			s.Starts = append(s.Starts, len(s.Ops))
			if marks {
				s.Ops = append(s.Ops, model.IterationOp(iteration))
			}
		}
		return slot.Flags&model.Optional == 0 || !src.yes(3)
	}
	alloc := func(k int) {
		slot := p.Slots[p.Entries[k].Slot]
		size := int64(slot.Hi) * model.Unit
		if slot.Flags&model.Planned == 0 {
			size = int64(int(slot.Lo)+src(int(slot.Hi-slot.Lo)+1)) * model.Unit
		} else if least := max(int64(slot.Hi)*int64(slot.Varies)>>16, 1); slot.Varies != 0 && !src.yes(3) {
			size = (least + int64(src(int(int64(slot.Hi)-least)+1))) * model.Unit
		}
		for _, name := range phases[k] {
			s.Ops = append(s.Ops, model.PhaseOp(name))
		}
		s.Ops = append(s.Ops, model.AllocOp(s.IDs, size-int64(src(model.Unit)), handle(slot.Stream)))
		s.IDs++
	}
	c.walk(iterations, wanted, alloc, func(i int) { s.Ops = append(s.Ops, model.FreeOp(uint32(i))) })
	if err := s.Check(); err != nil {
		panic("BUG: plantest: " + err.Error())
	}
	return s
}
