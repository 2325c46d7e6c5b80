package plantest

import (
	"fmt"

	"stweaver/ir"
	"stweaver/runtime/model"
)

// Events writes a program's events in the runtime's words, with a snapshot of the counters where
// each step begins; steps are indices in events. Without marks the program announces nothing.
func Events(events []ir.Event, names []string, streams []uint64, steps []int, marks bool) *model.Script {
	s := &model.Script{Names: names}
	for k := range len(events) + 1 {
		for len(steps) > 0 && steps[0] == k {
			s.Starts = append(s.Starts, len(s.Ops))
			s.Ops = append(s.Ops, model.SnapshotOp())
			steps = steps[1:]
		}
		if k == len(events) {
			break
		}
		switch ev := &events[k]; {
		case ev.Kind == ir.EvAlloc:
			s.Ops = append(s.Ops, model.AllocOp(ev.ID, int64(ev.Size), streams[ev.Stream]))
			s.IDs = max(s.IDs, ev.ID+1)
		case ev.Kind == ir.EvFree:
			s.Ops = append(s.Ops, model.FreeOp(ev.ID))
		case !marks:
		case ev.Mark == ir.MarkIteration:
			s.Ops = append(s.Ops, model.IterationOp(ev.Value))
		default:
			s.Ops = append(s.Ops, model.PhaseOp(uint32(ev.Name)))
		}
	}
	return s
}

// DivergeStep lets one step of s, counted by its snapshots, diverge as spec says, and leaves all others as they
// are: frees that are late come at the end of the step. Rates must be for each iteration, and not
// restarts. Requests keep their ids.
func DivergeStep(s *model.Script, step int, spec model.Spec, seed uint64) (*model.Script, error) {
	if spec.Restart != (model.Rate{}) {
		return nil, fmt.Errorf("plantest: a restart is no divergence of one step")
	}
	var bounds []int
	for i, op := range s.Ops {
		if op.Kind == model.OpSnapshot {
			bounds = append(bounds, i)
		}
	}
	bounds = append(bounds, len(s.Ops))
	if step+1 >= len(bounds) {
		return nil, fmt.Errorf("plantest: step %d of %d", step, len(bounds)-1)
	}
	head := &model.Script{Names: s.Names, IDs: s.IDs, Ops: s.Ops[:bounds[step+1]], Starts: []int{bounds[step]}}
	d, err := model.Diverge(head, spec, seed)
	if err != nil {
		return nil, err
	}
	out := &model.Script{Names: s.Names, IDs: d.IDs, Ops: d.Ops}
	made := make([]bool, d.IDs)
	for _, op := range d.Ops {
		if op.Kind == model.OpAlloc {
			made[op.ID] = true
		}
	}
	for _, op := range s.Ops[bounds[step+1]:] {
		if op.Kind == model.OpFree && !made[op.ID] {
			continue
		}
		if op.Kind == model.OpAlloc {
			made[op.ID] = true
		}
		out.Ops = append(out.Ops, op)
	}
	for i, op := range out.Ops {
		if op.Kind == model.OpSnapshot {
			out.Starts = append(out.Starts, i)
		}
	}
	return out, nil
}
