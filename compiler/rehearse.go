package compiler

import (
	"context"
	"fmt"
	"slices"

	"stweaver/heuristics"
	"stweaver/ir"
	"stweaver/runtime/model"
)

// A plan is judged before it is shipped. The rehearsal runs the recorded iterations, in their
// recorded order, through the runtime's model: once with the plan, once with the heap alone.
// A plan for a program whose sizes vary can lose: what is planned lies in the arena whether it is
// in use or not, and what varies goes to the heap beside it. Then the plan shrinks to what lives for
// the whole run, which costs nothing; all else becomes dynamic, and the report says so. Unless what varies can be
// planned as well (vary.go).
//
//	full plan     | arena: static part, at its own peak    | heap: the rest, at its own peak |
//	shrunk plan   | arena: whole-run part | heap: everything else, at the peak of the sum |
//	no plan       | heap: everything |
//
// Before that, layouts of equal peak are told apart: where the idle space lies decides how many of
// the dynamic requests it takes. Each of a few is rehearsed, and the one with which plan and heap
// reserve least is kept (dynamic.md 3 measured up to 0.9 % between two of them).
//
// The rehearsal needs no marks: it must hold for programs that set none.

// Rehearsal is what it showed, in bytes reserved at the peak.
type Rehearsal struct {
	Plan    ir.Bytes `json:"plan_bytes"`
	Heap    ir.Bytes `json:"heap_bytes"`
	Live    ir.Bytes `json:"live_bytes"`              // peak allocated: nothing can reserve less
	Shrunk  ir.Bytes `json:"shrunk_bytes,omitempty"`  // of the plan that was shrunk, where one was tried
	Varying ir.Bytes `json:"varying_bytes,omitempty"` // of the plan with what varies in it, where one won
	Holds   string   `json:"holds"`                   // "all", "optional", "largest", "persistent" or "nothing": what the plan holds
	// Layouts of equal peak that were compared, of the plan with what varies where that won, and the most that one of
	// them reserved: 1 and what the plan reserves where there was no choice.
	Layouts int      `json:"layouts"`
	Worst   ir.Bytes `json:"worst_layout_bytes"`
}

// Kept is what the plan that was kept reserves, with the heap beside it.
func (r *Rehearsal) Kept() ir.Bytes {
	switch r.Holds {
	case keepOptional, keepLargest:
		return r.Varying
	case keepPersistent:
		return r.Shrunk
	case keepNothing:
		return r.Heap
	}
	return r.Plan
}

// Values of Options.Keep and of the plan's Info.
const (
	keepAll        = "all"
	keepOptional   = "optional"
	keepLargest    = "largest"
	keepPersistent = "persistent"
	keepNothing    = "nothing"
)

// rehearsalPage is what memory is counted in: the finest, so that pages do not decide.
const rehearsalPage = 512

// runRehearse judges the plan and shrinks it where the heap alone is better. It is skipped where
// the plan cannot lose: everything is planned, within a hundredth of the bound.
func (c *Compiled) runRehearse(ctx context.Context) error {
	if err := c.judge(ctx); err != nil {
		return err
	}
	if c.reserved() == 0 {
		return nil
	}
	w, err := c.recorded()
	if err != nil {
		return err
	}
	with, _ := c.rehearse(w, c.Plan)
	c.weighReserve(w, with)
	return c.runVerify(ctx)
}

func (c *Compiled) judge(ctx context.Context) error {
	dynamic := false
	for k := range c.Problem.Entries {
		dynamic = dynamic || c.Problem.Entries[k].Kind == ir.Dynamic
	}
	if c.options.Keep != "" || !dynamic && c.Layout.Peak-c.Bound() <= c.Bound()/100 {
		return nil
	}
	w, err := c.recorded()
	if err != nil {
		return err
	}
	r := &Rehearsal{Holds: keepAll}
	r.Plan, r.Live = c.rehearse(w, c.Plan)
	r.Heap, _ = c.rehearse(w, nil)
	c.Rehearsal = r
	if r.Plan, err = c.chooseLayout(ctx, w, r, r.Plan); err != nil {
		return err
	}
	for _, keep := range []string{keepOptional, keepLargest} {
		if err := c.tryVarying(ctx, w, r, keep); err != nil {
			return err
		}
	}
	asked := c.ruled() || c.ordered()
	if r.Plan > r.Heap && !asked && r.Kept()-r.Live > r.Live/choiceWorth {
		if err := c.shrink(ctx, w, r); err != nil {
			return err
		}
	}
	if note := r.note(asked); note != "" {
		c.Notes = append(c.Notes, note)
	}
	return nil
}

// shrink makes the plan of less where that reserves less than the best so far.
func (c *Compiled) shrink(ctx context.Context, w *Workload, r *Rehearsal) error {
	best := *c
	if err := c.relower(ctx, keepPersistent); err != nil {
		return err
	}
	var err error
	if r.Shrunk, err = c.repack(ctx, w); err != nil {
		return err
	}
	if r.Shrunk < r.Kept() {
		r.Holds = keepPersistent
	} else {
		*c = best
	}
	if r.Kept()-r.Heap > r.Live/choiceWorth {
		r.Holds = keepNothing
		if err = c.relower(ctx, keepNothing); err == nil {
			_, err = c.repack(ctx, w)
		}
	}
	return err
}

// note says what was decided, where that is not the usual; asked: rules want addresses.
func (r *Rehearsal) note(asked bool) string {
	switch {
	case r.Holds == keepOptional:
		return fmt.Sprintf("what only some iterations ask for is planned, too: plan and heap reserve %s in rehearsal; %s without that, the heap alone %s", Size(r.Varying), Size(r.Plan), Size(r.Heap))
	case r.Holds == keepLargest:
		return fmt.Sprintf("sizes vary together, and are planned at their largest: plan and heap reserve %s in rehearsal; %s with what has one size planned, the heap alone %s", Size(r.Varying), Size(r.Plan), Size(r.Heap))
	case r.Holds == keepPersistent:
		return fmt.Sprintf("sizes vary too much for a full plan: it would reserve %s where the heap alone takes %s; only what lives for the whole run is planned (%s in rehearsal)",
			Size(r.Plan), Size(r.Heap), Size(r.Shrunk))
	case r.Holds == keepNothing:
		return fmt.Sprintf("what varies leaves a plan nothing to gain: in rehearsal the heap alone reserves %s, with any plan %s; nothing is planned", Size(r.Heap), Size(min(r.Plan, r.Shrunk)))
	case r.Plan > r.Heap && asked:
		return fmt.Sprintf("in rehearsal the heap alone reserves %s, the plan %s; it is kept whole, for the rules ask for it", Size(r.Heap), Size(r.Plan))
	case r.Plan > r.Heap:
		return fmt.Sprintf("in rehearsal the heap alone reserves %s, the plan %s", Size(r.Heap), Size(r.Plan))
	}
	return ""
}

// relower makes the problem again, of what keep names.
func (c *Compiled) relower(ctx context.Context, keep string) error {
	c.options.Keep = keep
	if err := c.runLower(ctx); err != nil {
		return err
	}
	return c.runConstrain(ctx)
}

// repack makes a plan of the problem again, and rehearses it: what it reserves.
func (c *Compiled) repack(ctx context.Context, w *Workload) (ir.Bytes, error) {
	if err := c.runPack(ctx); err != nil {
		return 0, err
	}
	if err := c.runVerify(ctx); err != nil {
		return 0, err
	}
	reserved, _ := c.rehearse(w, c.Plan)
	return reserved, nil
}

// choiceWorth: less than this part of what is live (1/2,000) is not worth a choice.
const choiceWorth = 2_000

// chooseLayout tries other layouts of the same peak, a stream at a time, and keeps the one with
// which plan and heap reserve least: the answer; so far it is least.
func (c *Compiled) chooseLayout(ctx context.Context, w *Workload, r *Rehearsal, least ir.Bytes) (ir.Bytes, error) {
	r.Layouts, r.Worst = 1, least
	search, done := c.searching(ctx)
	defer done()
	o := heuristics.Options{Stop: func() bool { return search.Err() != nil }, Seed: c.options.Rules.Seed}
	changed := false
	for i := range c.Packs {
		sp := &c.Packs[i]
		s := &c.shares[sp.Stream]
		if least-r.Live <= r.Live/choiceWorth || !c.hasDynamic(s.streams) {
			continue
		}
		o.Shared = c.terms(s.buffers)
		best := s.layout
		for _, a := range c.alternatives(s, sp.Peak, o) {
			s.layout = a.Layout
			c.stack()
			if c.ruled() && len(ir.Verify(c.Problem, nil, c.Layout)) > 0 { // what lies above has moved, or a region's parts are too large together
				s.layout = best
				c.stack()
				continue
			}
			c.makePlan()
			r.Layouts++
			reserved, _ := c.rehearse(w, c.Plan)
			r.Worst = max(r.Worst, reserved)
			if reserved < least {
				least, best, sp.Packer, changed = reserved, a.Layout, a.Packer, true
			}
		}
		s.layout, sp.Peak = best, best.Peak
	}
	if r.Layouts == 1 {
		return least, nil
	}
	c.stack()
	if !changed {
		c.makePlan()
		return least, nil
	}
	return least, c.runVerify(ctx)
}

// layouts is how many others of equal peak are compared where dynamic requests tell them apart.
func (e Effort) layouts() int {
	switch e {
	case Fast:
		return 0
	case Max:
		return 8
	}
	return 3
}

func (c *Compiled) hasDynamic(streams []ir.StreamID) bool {
	return slices.ContainsFunc(c.Problem.Entries, func(e ir.Entry) bool { return e.Kind == ir.Dynamic && slices.Contains(streams, e.Stream) })
}

// recorded is the workload of the recording itself: each steady iteration once.
func (c *Compiled) recorded() (*Workload, error) {
	n := 1
	if c.template != nil {
		n = len(c.template.Windows)
	}
	return c.Workload(WorkloadOptions{Iterations: n})
}

// rehearse runs w through the model with plan, nil for the heap alone. Idle memory is not moved: that helps
// for a while, and a plan should do without.
func (c *Compiled) rehearse(w *Workload, plan *ir.Plan) (reserved, live ir.Bytes) {
	var p *model.Plan
	if plan != nil {
		p = ModelPlan(plan)
	}
	a, err := model.New(p, model.Options{Granularity: rehearsalPage, HeapBytes: 1 << 40, Still: true})
	if err != nil {
		panic(fmt.Sprintf("BUG: rehearsal: %v", err))
	}
	at := make([]model.Addr, w.Requests)
	has := make([]bool, w.Requests)
	for k := range w.Events {
		switch ev := &w.Events[k]; ev.Kind {
		case ir.EvAlloc:
			at[ev.ID], has[ev.ID] = a.Malloc(uint64(ev.Size), c.Trace.Streams[ev.Stream])
		case ir.EvFree:
			if has[ev.ID] {
				a.Free(at[ev.ID])
			}
		}
	}
	s := a.Stats()
	return ir.Bytes(s.PeakReservedBytes), ir.Bytes(s.PeakLiveBytes)
}

// ModelPlan writes a plan in the words of the runtime's model.
func ModelPlan(p *ir.Plan) *model.Plan {
	m := &model.Plan{LoopStart: p.LoopStart, SharedAge: p.SharedAge, Arena: uint64(p.Arena), Capacity: uint64(p.Capacity)}
	for _, s := range p.Slots {
		m.Slots = append(m.Slots, model.Slot{Lo: uint32(s.Lo / model.Unit), Hi: uint32(s.Hi / model.Unit),
			Stream: uint16(s.Stream), Flags: model.SlotFlags(s.Flags), List: s.List, Varies: s.Varies})
	}
	for _, l := range p.Needs {
		list := [][2]uint32{}
		for _, r := range l {
			list = append(list, [2]uint32{uint32(r.Begin / model.Unit), uint32(r.End / model.Unit)})
		}
		m.Needs = append(m.Needs, list)
	}
	for _, e := range p.Entries {
		m.Entries = append(m.Entries, model.Entry{Slot: e.Slot, Life: e.Life, Firm: e.Firm, NfMin: e.NfMin, NfMax: e.NfMax})
	}
	for _, s := range p.Streams {
		m.Streams = append(m.Streams, model.Stream{Handle: s.Handle, Begin: uint64(s.Begin), End: uint64(s.End)})
	}
	for _, k := range p.Marks {
		m.Marks = append(m.Marks, model.Mark{Entry: k.Entry, Kind: model.MarkKind(k.Kind), Value: k.Value, Name: k.Name})
	}
	return m
}
