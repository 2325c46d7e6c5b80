package main

import (
	"slices"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/runtime/model"
)

// someStream is the stream that has used a request which was under record_stream: profiles do not say which one did.
const someStream = 1<<63 + 1

// script writes a workload in the runtime's words, with a snapshot of the counters at each
// iteration. entries maps request ids to plan entries.
func script(t *ir.Trace, w *compiler.Workload) (s *model.Script, entries []uint32) {
	s = &model.Script{Names: t.Names, IDs: uint32(w.Requests)}
	entries = make([]uint32, w.Requests)
	next := 0
	for k := range w.Events {
		for next < len(w.Starts) && w.Starts[next] == k {
			s.Starts = append(s.Starts, len(s.Ops))
			s.Ops = append(s.Ops, model.SnapshotOp())
			next++
		}
		switch ev := &w.Events[k]; {
		case ev.Kind == ir.EvAlloc:
			entries[ev.ID] = ev.Entry
			s.Ops = append(s.Ops, model.AllocOp(ev.ID, int64(ev.Size), t.Streams[ev.Stream]))
		case ev.Kind == ir.EvFree && ev.Lag > 0:
			s.Ops = append(s.Ops, model.MarkedFreeOp(ev.ID, someStream))
		case ev.Kind == ir.EvFree:
			s.Ops = append(s.Ops, model.FreeOp(ev.ID))
		case ev.Mark == ir.MarkIteration:
			s.Ops = append(s.Ops, model.IterationOp(ev.Value))
		default:
			s.Ops = append(s.Ops, model.PhaseOp(uint32(ev.Name)))
		}
	}
	return s, entries
}

// diverged are the events of w with the departures of spec, as simulate takes them: the entry of a request is the one of plan
// that the runtime would take it for. A request that spec adds is of the default pool.
func diverged(t *ir.Trace, w *compiler.Workload, spec model.Spec, seed uint64, plan *ir.Plan) ([]ir.Event, error) {
	s, _ := script(t, w)
	s, err := model.Diverge(s, spec, seed)
	if err != nil {
		return nil, usagef("--diverge: %v", err)
	}
	var answers []model.Answer
	if plan != nil {
		m, err := model.New(compiler.ModelPlan(plan), model.Options{HeapBytes: 1 << 50})
		if err != nil {
			return nil, err
		}
		answers = m.Run(s).Answers
	}
	pools := make([]uint32, w.Requests)
	for _, ev := range w.Events {
		if ev.Kind == ir.EvAlloc {
			pools[ev.ID] = ev.Pool
		}
	}
	events := make([]ir.Event, 0, len(s.Ops))
	for _, op := range s.Ops {
		ev := ir.Event{ID: op.ID, Entry: ir.NoEntry}
		switch op.Kind {
		case model.OpAlloc:
			ev.Kind, ev.Size, ev.Stream = ir.EvAlloc, ir.Bytes(op.Size), ir.StreamID(slices.Index(t.Streams, op.Stream))
			if int(op.ID) < len(pools) {
				ev.Pool = pools[op.ID]
			}
		case model.OpFree:
			ev.Kind = ir.EvFree
		default:
			continue // its ID is no request's
		}
		if answers != nil && answers[op.ID].Entry >= 0 {
			ev.Entry = uint32(answers[op.ID].Entry)
		}
		events = append(events, ev)
	}
	return events, nil
}
