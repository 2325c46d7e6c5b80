package compiler

import (
	"cmp"
	"fmt"
	"slices"

	"stweaver/ir"
)

// A workload is what replay runs: the recorded events up to the first steady iteration, then
// steady iterations, recorded order inside each, as often as asked for.
//
//	recorded    init | 0 | 1 | 2 |            N = 5
//	replayed    init | 0 | 1 | 2 | 1 | 2 | 1 |
//	                              ^ seam
//
// At a seam the next iteration is not the one that followed in the recording. It frees tensors that
// the iteration before *it* had allocated; here they were allocated by another one. What is live at
// a seam therefore dies at the clock at which its template entry usually does. What has no entry takes a
// free of the same size and stream, or goes at the seam. What the recording never frees in any iteration
// accumulates here as it did there.

// Workload is a sequence of events with what is needed to judge a replay of it.
type Workload struct {
	Events   []ir.Event
	Requests int   // number of ids: Events use [0, Requests)
	Starts   []int // index in Events at which each replayed iteration begins
}

// WorkloadOptions choose what is replayed.
type WorkloadOptions struct {
	Iterations int  // steady iterations (passes of a one-pass trace); at least 1
	From, To   int  // iterations of the profile to take turns with; both 0: the steady ones of the plan
	Marks      bool // announce iterations and phases as the profile marks them
}

// Workload builds the events of a replay from a compiled profile.
func (c *Compiled) Workload(o WorkloadOptions) (*Workload, error) {
	if o.Iterations < 1 {
		return nil, fmt.Errorf("compiler: a replay needs at least one iteration")
	}
	b := &workloadBuilder{
		c: c, t: c.Trace, opts: o,
		idOf: make([]uint32, len(c.Trace.Requests)),
		at:   make([]int32, c.Trace.Events),
	}
	for i := range b.idOf {
		b.idOf[i] = noID
	}
	for i := range b.t.Requests {
		r := &b.t.Requests[i]
		if r.Alloc != ir.Before {
			b.at[r.Alloc] = int32(i + 1)
		}
		if r.Free != ir.Never {
			b.at[r.Free] = -int32(i + 1)
		}
	}
	if c.mapping.tmpl == nil {
		if err := o.bounded(ir.Tick(c.Trace.Events)); err != nil {
			return nil, err
		}
		return b.onePass(), nil
	}
	windows := c.mapping.tmpl.Windows
	if o.From != 0 || o.To != 0 {
		if o.From < 0 || o.To <= o.From || o.To > c.Steps.N() {
			return nil, fmt.Errorf("compiler: iterations %d:%d of a profile that has %d", o.From, o.To, c.Steps.N())
		}
		windows = nil
		for i := o.From; i < o.To; i++ {
			windows = append(windows, [2]ir.Tick{c.Steps.Cuts[i], c.Steps.Cuts[i+1]})
		}
	}
	longest := ir.Tick(0)
	for _, w := range windows {
		longest = max(longest, w[1]-w[0])
	}
	if err := o.bounded(longest); err != nil {
		return nil, err
	}
	b.steady(windows)
	return &b.w, nil
}

// bounded refuses more iterations of so many events than can be run.
func (o *WorkloadOptions) bounded(events ir.Tick) error {
	events = max(events, 1)
	if ir.Tick(o.Iterations) <= maxEvents/events {
		return nil
	}
	return fmt.Errorf("compiler: %d iterations of up to %d events: at most %d events are run, which %d iterations have", o.Iterations, events, maxEvents, maxEvents/events)
}

const noID = ^uint32(0)

// maxEvents bounds what is made of the iterations asked for: some 200 bytes each, in all who work on them.
const maxEvents = 1 << 26

type workloadBuilder struct {
	c    *Compiled
	t    *ir.Trace
	opts WorkloadOptions
	w    Workload
	at   []int32   // event of each tick: +(r+1) alloc, -(r+1) free, 0 neither
	idOf []uint32  // live instance of each request, noID where it has none
	live []kept    // what steady iterations allocated and may still be live at a seam
	pass int       // steady iteration under way, from 0
	due  []dueFree // instances whose free no recorded event stands for, by clock
	mark int       // next mark of the trace
}

// kept is a request whose instance outlived the pass that allocated it.
type kept struct {
	r    uint32
	pass int
}

// dueFree is the free of an instance at a clock of the iteration under way, in entries.
type dueFree struct {
	clock int
	id, r uint32 // r: the request it is an instance of
}

func (b *workloadBuilder) alloc(r uint32) {
	q := &b.t.Requests[r]
	id := uint32(b.w.Requests)
	b.w.Requests++
	b.idOf[r] = id
	b.w.Events = append(b.w.Events, ir.Event{Kind: ir.EvAlloc, ID: id, Size: q.Size, Stream: q.Stream, Pool: q.Pool, Entry: b.entry(r)})
}

// entry is the plan entry that request r is an instance of in this pass.
func (b *workloadBuilder) entry(r uint32) uint32 {
	m := b.c.mapping
	if k := m.memberOf[r]; k != ir.NoEntry {
		return uint32(b.c.Problem.L0) + uint32(b.pass%m.unroll*len(m.tmpl.Entries)) + k
	}
	return m.entryOf[r]
}

func (b *workloadBuilder) free(r uint32) {
	if id := b.idOf[r]; id != noID {
		b.idOf[r] = noID
		b.freeID(id, r)
	}
}

// freeID frees instance id of request r.
func (b *workloadBuilder) freeID(id, r uint32) {
	q := &b.t.Requests[r]
	b.w.Events = append(b.w.Events, ir.Event{Kind: ir.EvFree, ID: id, Entry: ir.NoEntry, Stream: q.Stream, Lag: b.t.Lag(r)})
}

// freeDue frees what is due at or before clock.
func (b *workloadBuilder) freeDue(clock int) {
	n := 0
	for ; n < len(b.due) && b.due[n].clock <= clock; n++ {
		b.freeID(b.due[n].id, b.due[n].r)
	}
	b.due = b.due[n:]
}

// run appends the recorded events of [from, to), with the marks that lie there.
func (b *workloadBuilder) run(from, to ir.Tick) {
	for b.mark = 0; b.mark < len(b.t.Marks) && b.t.Marks[b.mark].Tick < from; b.mark++ {
	}
	for k := from; k < to; k++ {
		b.marksAt(k)
		switch v := b.at[k]; {
		case v > 0:
			if k := b.c.mapping.memberOf[v-1]; len(b.due) > 0 && k != ir.NoEntry {
				b.freeDue(int(k))
			}
			b.alloc(uint32(v - 1))
		case v < 0:
			b.free(uint32(-v - 1))
		}
	}
}

func (b *workloadBuilder) marksAt(k ir.Tick) {
	for ; b.mark < len(b.t.Marks) && b.t.Marks[b.mark].Tick <= k; b.mark++ {
		m := b.t.Marks[b.mark]
		if b.opts.Marks && planMark(m) {
			b.w.Events = append(b.w.Events, ir.Event{Kind: ir.EvMark, Mark: m.Kind, Value: m.Value, Name: m.Name, Entry: ir.NoEntry})
		}
	}
}

// before allocates what was live when recording began.
func (b *workloadBuilder) before() {
	for i := range b.t.Requests {
		if b.t.Requests[i].Alloc != ir.Before {
			break
		}
		b.alloc(uint32(i))
	}
}

func (b *workloadBuilder) onePass() *Workload {
	b.before()
	for range b.opts.Iterations {
		b.w.Starts = append(b.w.Starts, len(b.w.Events))
		if b.opts.Marks && !slices.ContainsFunc(b.t.Marks, planMark) {
			b.w.Events = append(b.w.Events, ir.Event{Kind: ir.EvMark, Mark: ir.MarkIteration, Entry: ir.NoEntry})
		}
		b.run(0, ir.Tick(b.t.Events))
		for i := range b.t.Requests { // the pass ends: what it left alive goes
			if b.t.Requests[i].Alloc != ir.Before {
				b.free(uint32(i))
			}
		}
	}
	return &b.w
}

func (b *workloadBuilder) steady(windows [][2]ir.Tick) {
	b.before()
	b.run(0, windows[0][0])
	n := len(b.c.mapping.tmpl.Entries)
	for i := range b.opts.Iterations {
		win := windows[i%len(windows)]
		b.pass = i
		b.w.Starts = append(b.w.Starts, len(b.w.Events))
		if i > 0 && i%len(windows) == 0 {
			b.seam(win)
		}
		b.run(win[0], win[1])
		b.freeDue(n - 1)
		for k := range b.due {
			b.due[k].clock -= n
		}
		for k := win[0]; k < win[1]; k++ {
			if v := b.at[k]; v > 0 && b.idOf[v-1] != noID {
				b.live = append(b.live, kept{uint32(v - 1), i})
			}
		}
	}
}

// seam finds the frees of what the last iteration leaves over.
func (b *workloadBuilder) seam(next [2]ir.Tick) {
	var left []kept
	for _, x := range b.live {
		if b.idOf[x.r] != noID {
			left = append(left, x)
		}
	}
	b.live = b.live[:0]
	var open []uint32 // requests that the next iteration frees, made before it, and not live here
	for k := next[0]; k < next[1]; k++ {
		if v := b.at[k]; v < 0 {
			if q := &b.t.Requests[-v-1]; q.Alloc < next[0] && q.Alloc != ir.Before && b.idOf[-v-1] == noID {
				open = append(open, uint32(-v-1))
			}
		}
	}
	b.release(left, open)
}

// release ends the instances of left: when their entry usually dies, else by a free in open of the
// same size and stream, else now.
func (b *workloadBuilder) release(left []kept, open []uint32) {
	type key struct {
		size   ir.Bytes
		stream ir.StreamID
	}
	same := make(map[key][]uint32)
	for _, r := range open {
		q := &b.t.Requests[r]
		same[key{q.Rounded(), q.Stream}] = append(same[key{q.Rounded(), q.Stream}], r)
	}
	for _, x := range left {
		r, id := x.r, b.idOf[x.r]
		q := &b.t.Requests[r]
		b.idOf[r] = noID // a new instance of r may come
		k := key{q.Rounded(), q.Stream}
		if clock, ok := b.c.usualDeath(r); ok {
			clock -= (b.pass - x.pass) * len(b.c.mapping.tmpl.Entries)
			b.due = append(b.due, dueFree{max(clock, 0), id, r})
		} else if list := same[k]; len(list) > 0 {
			same[k] = list[1:]
			b.idOf[list[0]] = id
		} else if q.Free != ir.Never || b.c.diesSomewhere(r) {
			b.freeID(id, r)
		}
	}
	slices.SortStableFunc(b.due, func(x, y dueFree) int { return cmp.Compare(x.clock, y.clock) })
}

// usualDeath is the clock of r's own iteration at which its entry is dead.
func (c *Compiled) usualDeath(r uint32) (clock int, ok bool) {
	k := c.mapping.memberOf[r]
	if k == ir.NoEntry {
		return 0, false
	}
	life := c.mapping.tmpl.Entries[k].Life
	return int(k) + int(life), life < ir.MaxLife
}

// diesSomewhere reports whether another instance of r's entry is freed in the recording.
func (c *Compiled) diesSomewhere(r uint32) bool {
	k := c.mapping.memberOf[r]
	if k == ir.NoEntry {
		return false
	}
	for _, member := range c.mapping.tmpl.Member {
		if q := member[k]; q != NoRequest && c.Trace.Requests[q].Free != ir.Never {
			return true
		}
	}
	return false
}
