package testkit

import (
	"fmt"
	"slices"

	"stweaver/ir"
)

// A made-up training process, at the level of its requests: a decoder of some layers, trained by
// micro-batches. What it does is what frameworks do:
//
//	start      weights; for a resumed job, a loaded copy of each beside it, which is then let go
//	step       gradients of the step before are let go | forwards and backwards, one-forward-one-
//	           backward after Warm forwards | grad norm, optimizer | the next batch is loaded
//	forward    each layer saves what its backward needs, and drops the rest
//	backward   frees it layer by layer; the first one makes the gradients, later ones add to them
//
// The first step makes the optimizer's state. Gradients, the prefetched batch and the losses cross the
// border between steps. With experts, the tokens of each expert are drawn anew for every layer of
// every micro-batch, and an expert without tokens asks for nothing.
//
// Every request has a role, the same in every step: "B3.1 dqkv" is the gradient of qkv of layer 1 in
// the backward of micro-batch 3. By roles a test knows which planned address a request should have,
// whatever happened before. A step may depart from the usual one (Step), be abandoned, or stand beside
// an evaluation, a checkpoint or a step of another model.

// Trainer describes the usual step.
type Trainer struct {
	Layers    int
	Micro     int   // micro-batches of a step
	Warm      int   // forwards before the first backward; 0 is 1
	Seq       int   // tokens of a sequence
	Batch     int   // sequences of a micro-batch
	Hidden    int   // width
	Vocab     int   //
	Experts   int   // of every second layer; 0: dense
	Recompute bool  // keep a layer's input alone, make the rest again in the backward
	Overlap   bool  // gradients are reduced on a second stream
	First     int64 // number of the first step
	Seed      uint64
}

// Step says how a step departs from the usual one. The zero value does not.
type Step struct {
	Micro      int // micro-batches; 0: as usual
	Seq, Batch int // 0: as usual
	Abandon    int // an exception after so many percent of the step's events; 0: none
}

// Program is what a process asked of its allocator.
type Program struct {
	Events  []ir.Event // Entry is always ir.NoEntry
	Role    []string   // by request
	Names   []string   // of phases
	Streams []uint64
	Steps   []int // index in Events at which each step begins
}

// Process is a training process under way.
type Process struct {
	Program
	t     Trainer
	model string         // prefix of all roles: tells models apart
	scope string         // prefix of the roles of this step
	seen  map[string]int // roles of this step
	live  map[uint32]bool
	state state
	next  int64 // number of the next step
	cold  bool
}

// state is what outlives a step.
type state struct {
	weights, grads, moments, losses []uint32
	batch                           []uint32 // the prefetched one, if any
}

// Phases of a step.
const (
	phaseForward = iota + 1
	phaseBackward
	phaseOptimizer
	phaseEval
	phaseSave
)

const commStream = 1

// Start begins a process: its weights. A resumed one loads each parameter and its optimizer state beside the
// model first, and lets the loaded copies go when all are in place.
func (t Trainer) Start(resumed bool) *Process {
	q := &Process{t: t, seen: make(map[string]int), live: make(map[uint32]bool), next: t.First, cold: true}
	q.Names = []string{"", "forward", "backward", "optimizer step", "evaluation", "save"}
	q.Streams = []uint64{0}
	if t.Overlap {
		q.Streams = append(q.Streams, 0x7f00)
	}
	q.load(resumed)
	return q
}

func (q *Process) load(resumed bool) {
	q.scope = "init "
	var loaded []uint32
	for l := range q.t.Layers + 1 {
		for _, w := range q.t.params(l) {
			if resumed {
				loaded = append(loaded, q.alloc("loaded "+w.name, w.bytes))
				loaded = append(loaded, q.alloc("loaded state "+w.name, 4*w.bytes))
			}
			q.state.weights = append(q.state.weights, q.alloc(w.name, w.bytes))
		}
	}
	if resumed {
		q.scope = "0 "
		q.moments()
		q.cold = false
	}
	q.free(loaded...)
}

// param is one parameter tensor.
type param struct {
	name  string
	bytes ir.Bytes
}

// params of layer l; layer Layers is the embedding and head.
func (t Trainer) params(l int) []param {
	h := ir.Bytes(t.Hidden)
	if l == t.Layers {
		return []param{{"head", 2 * h * ir.Bytes(t.Vocab)}}
	}
	name := func(s string) string { return fmt.Sprintf("%d.%s", l, s) }
	list := []param{{name("norm1"), 2 * h}, {name("qkv"), 6 * h * h}, {name("proj"), 2 * h * h}, {name("norm2"), 2 * h}}
	if t.moe(l) {
		list = append(list, param{name("router"), 2 * h * ir.Bytes(t.Experts)}, param{name("experts"), 2 * h * h * ir.Bytes(t.Experts)})
	} else {
		list = append(list, param{name("up"), 8 * h * h}, param{name("down"), 8 * h * h})
	}
	return list
}

func (t Trainer) moe(l int) bool { return t.Experts > 0 && l%2 == 1 }

func (q *Process) alloc(role string, n ir.Bytes) uint32 { return q.allocOn(role, n, 0) }

func (q *Process) allocOn(role string, n ir.Bytes, stream ir.StreamID) uint32 {
	id := uint32(len(q.Role))
	role = q.model + q.scope + role
	q.seen[role]++
	if k := q.seen[role]; k > 1 {
		role = fmt.Sprintf("%s #%d", role, k)
	}
	q.Role = append(q.Role, role)
	q.Events = append(q.Events, ir.Event{Kind: ir.EvAlloc, ID: id, Size: n, Stream: stream, Entry: ir.NoEntry})
	q.live[id] = true
	return id
}

func (q *Process) free(ids ...uint32) {
	for _, id := range ids {
		if !q.live[id] {
			panic(fmt.Sprintf("BUG: testkit: request %d (%s) is freed while not live", id, q.Role[id]))
		}
		delete(q.live, id)
		q.Events = append(q.Events, ir.Event{Kind: ir.EvFree, ID: id, Entry: ir.NoEntry})
	}
}

func (q *Process) phase(name ir.NameID) {
	q.Events = append(q.Events, ir.Event{Kind: ir.EvMark, Mark: ir.MarkPhase, Name: name, Entry: ir.NoEntry})
}

// begin opens a step; Mark announces it if it counts as an iteration.
func (q *Process) begin(scope string) {
	q.Steps = append(q.Steps, len(q.Events))
	q.scope = scope
	clear(q.seen)
}

// moments makes the optimizer's state.
func (q *Process) moments() {
	for l := range q.t.Layers + 1 {
		for _, w := range q.t.params(l) {
			q.state.moments = append(q.state.moments, q.alloc("m "+w.name, 2*w.bytes), q.alloc("v "+w.name, 2*w.bytes))
		}
	}
}

// Train runs a step.
func (q *Process) Train(s Step) {
	undo := q.mayFail(s.Abandon)
	scope := ""
	if q.cold {
		scope = "0 "
	}
	q.begin(scope)
	q.Events = append(q.Events, ir.Event{Kind: ir.EvMark, Mark: ir.MarkIteration, Value: q.next, Entry: ir.NoEntry})
	q.next++
	run := &pass{Process: q, micro: orDefault(s.Micro, q.t.Micro), tokens: orDefault(s.Seq, q.t.Seq) * orDefault(s.Batch, q.t.Batch)}
	run.step()
	undo()
}

// mayFail returns what cuts off, after so many percent of its events, what is played between; of 0 percent: nothing.
func (q *Process) mayFail(percent int) func() {
	before := state{batch: slices.Clone(q.state.batch), grads: slices.Clone(q.state.grads), losses: slices.Clone(q.state.losses)}
	first, ids := len(q.Events), len(q.Role)
	return func() {
		if percent > 0 {
			q.abandon(first+(len(q.Events)-first)*percent/100, ids, before)
		}
	}
}

// abandon cuts the step off at event cut. The exception frees what the step holds, the newest first;
// what older steps had left stays as it was, unless the step freed it.
func (q *Process) abandon(cut, ids int, before state) {
	for _, ev := range q.Events[cut:] { // undo, for those that stay
		if ev.Kind == ir.EvFree && int(ev.ID) < ids {
			q.live[ev.ID] = true
		}
	}
	q.Events = q.Events[:cut]
	made := uint32(ids)
	open := make(map[uint32]bool)
	for _, ev := range q.Events[q.Steps[len(q.Steps)-1]:] {
		if ev.Kind == ir.EvAlloc {
			open[ev.ID] = true
			made = max(made, ev.ID+1)
		} else if ev.Kind == ir.EvFree {
			delete(open, ev.ID)
		}
	}
	for id := int(made); id < len(q.Role); id++ {
		delete(q.live, uint32(id))
	}
	q.Role = q.Role[:made]
	for id := made; id > uint32(ids); id-- {
		if open[id-1] {
			q.live[id-1] = true
			q.free(id - 1)
		}
	}
	still := func(list []uint32) []uint32 {
		return slices.DeleteFunc(list, func(id uint32) bool { return !q.live[id] })
	}
	q.state.batch, q.state.grads, q.state.losses = still(before.batch), still(before.grads), still(before.losses)
}

// Evaluate runs n batches forward, and keeps nothing but their losses to its end; abandon as in Step.
func (q *Process) Evaluate(n, seq, abandon int) {
	defer q.mayFail(abandon)()
	q.begin("eval ")
	q.phase(phaseEval)
	run := &pass{Process: q, tokens: orDefault(seq, q.t.Seq) * q.t.Batch}
	var losses []uint32
	for k := range n {
		tag := fmt.Sprintf("E%d", k)
		in := q.alloc(tag+" tokens", ir.Bytes(8*run.tokens))
		x := q.alloc(tag+" embedding", run.act(1))
		for l := range q.t.Layers {
			saved, out := run.layer(tag, k, l)
			q.free(saved...)
			q.free(x)
			x = out
		}
		logits := q.alloc(tag+" logits", ir.Bytes(2*run.tokens*q.t.Vocab))
		q.free(x)
		losses = append(losses, q.alloc(tag+" loss", 4))
		q.free(logits, in)
	}
	q.free(losses...)
}

// Save writes a checkpoint: a copy of every parameter and of its state, in full precision, all of
// them alive until the last one is out.
func (q *Process) Save() {
	q.begin("save ")
	q.phase(phaseSave)
	var staged []uint32
	for l := range q.t.Layers + 1 {
		for _, w := range q.t.params(l) {
			staged = append(staged, q.alloc("stage "+w.name, 2*w.bytes))
		}
	}
	q.free(staged...)
}

// Join adds another process's model to this one: requests of both come to one allocator. The other must
// have been started as this one was, and use the same streams.
func (q *Process) Join(t Trainer, name string) *Process {
	o := &Process{t: t, model: name, seen: make(map[string]int), live: make(map[uint32]bool), cold: true}
	o.Program = q.Program
	o.load(false)
	q.Program = o.Program
	return o
}

// Turn runs a step of the joined process o, as the next step of q. It tells no iteration.
func (q *Process) Turn(o *Process, s Step) {
	o.Program = q.Program
	marks := len(o.Events)
	o.Train(s)
	o.Events = slices.Delete(o.Events, marks, marks+1) // the iteration's
	for i := marks; i < len(o.Events); {
		if o.Events[i].Kind == ir.EvMark {
			o.Events = slices.Delete(o.Events, i, i+1)
			continue
		}
		i++
	}
	q.Program = o.Program
}

// pass is one step under way.
type pass struct {
	*Process
	micro, tokens int
	saved         [][][]uint32 // by micro-batch and layer; the input of the layer comes first
}

// act is the bytes of n activations.
func (p *pass) act(n int) ir.Bytes { return ir.Bytes(2 * n * p.tokens * p.t.Hidden) }

func (p *pass) step() {
	p.free(p.state.grads...)
	p.free(p.state.losses...)
	p.state.grads, p.state.losses = nil, nil
	p.saved = make([][][]uint32, p.micro)
	warm := min(max(p.t.Warm, 1), p.micro)
	for m := range warm {
		p.forward(m)
	}
	for m := range p.micro {
		p.backward(m)
		if m+warm < p.micro {
			p.forward(m + warm)
		}
	}
	p.optimizer()
	p.state.batch = []uint32{p.alloc("next batch", ir.Bytes(8*p.tokens))}
}

func (p *pass) forward(m int) {
	p.phase(phaseForward)
	tag := fmt.Sprintf("F%d", m)
	in := p.state.batch
	p.state.batch = nil
	if len(in) == 0 {
		in = []uint32{p.alloc(tag+" tokens", ir.Bytes(8*p.tokens))}
	}
	x := p.alloc(tag+" embedding", p.act(1))
	for l := range p.t.Layers {
		saved, out := p.layer(tag, m, l)
		if p.t.Recompute {
			p.free(saved...)
			saved = nil
		}
		p.saved[m] = append(p.saved[m], append([]uint32{x}, saved...))
		x = out
	}
	logits := p.alloc(tag+" logits", ir.Bytes(2*p.tokens*p.t.Vocab))
	wide := p.alloc(tag+" logits fp32", ir.Bytes(4*p.tokens*p.t.Vocab))
	p.state.losses = append(p.state.losses, p.alloc(tag+" loss", 4))
	p.free(wide)
	p.saved[m] = append(p.saved[m], append([]uint32{x, logits}, in...))
}

// layer is the forward of layer l for batch m; it returns what the backward needs, and the output.
func (p *pass) layer(tag string, m, l int) (saved []uint32, out uint32) {
	tag = fmt.Sprintf("%s.%d ", tag, l)
	small := func(name string, n int) { saved = append(saved, p.alloc(tag+name, ir.Bytes(n*p.tokens))) }
	keep := func(name string, n int) { saved = append(saved, p.alloc(tag+name, p.act(n))) }
	keep("norm1", 1)
	small("stats1", 8)
	keep("qkv", 3)
	keep("attention", 1)
	small("lse", 64)
	proj := p.alloc(tag+"proj", p.act(1))
	keep("residual", 1)
	p.free(proj)
	keep("norm2", 1)
	small("stats2", 8)
	var down uint32
	if p.t.moe(l) {
		experts, combined := p.experts(tag, m, l)
		saved = append(saved, experts...)
		down = combined
	} else {
		keep("up", 4)
		keep("gelu", 4)
		down = p.alloc(tag+"down", p.act(1))
	}
	out = p.alloc(tag+"out", p.act(1))
	p.free(down)
	return saved, out
}

// experts is the forward of the experts of layer l for batch m. Made again, they get the same tokens.
func (p *pass) experts(tag string, m, l int) (saved []uint32, combined uint32) {
	rnd := Rand(p.t.Seed + uint64(p.next)<<32 + uint64(m)<<16 + uint64(l))
	saved = append(saved, p.alloc(tag+"router", ir.Bytes(4*p.tokens*p.t.Experts)))
	left := p.tokens
	mean := p.tokens / p.t.Experts
	var outs []uint32
	for e := range p.t.Experts {
		n := mean/2 + rnd.Below(mean+1)
		if rnd.Below(12) == 0 {
			n = 0
		}
		if n = min(n, left); e == p.t.Experts-1 {
			n = left
		}
		left -= n
		if n == 0 {
			continue
		}
		bytes := ir.Bytes(2 * n * p.t.Hidden)
		name := fmt.Sprintf("%sexpert %d ", tag, e)
		saved = append(saved, p.alloc(name+"in", bytes), p.alloc(name+"up", 4*bytes), p.alloc(name+"act", 4*bytes))
		outs = append(outs, p.alloc(name+"down", bytes))
	}
	combined = p.alloc(tag+"combined", p.act(1))
	p.free(outs...)
	return saved, combined
}

func (p *pass) backward(m int) {
	p.phase(phaseBackward)
	tag := fmt.Sprintf("B%d", m)
	last := p.saved[m][p.t.Layers]
	dlogits := p.alloc(tag+" dlogits", ir.Bytes(2*p.tokens*p.t.Vocab))
	p.free(last[1])
	g := p.alloc(tag+" dx", p.act(1))
	p.gradient(tag, m, p.t.params(p.t.Layers)[0])
	p.free(dlogits, last[0])
	p.free(last[2:]...)
	for l := p.t.Layers - 1; l >= 0; l-- {
		g = p.layerBack(tag, m, l, g)
		if p.t.Overlap && m == p.micro-1 {
			var all ir.Bytes
			for _, w := range p.t.params(l) {
				all += w.bytes
			}
			p.state.losses = append(p.state.losses, p.allocOn(fmt.Sprintf("%s.%d bucket", tag, l), all, commStream))
		}
	}
	p.free(g)
	p.saved[m] = nil
}

// layerBack is the backward of layer l; it takes the gradient of its output and returns that of its input.
func (p *pass) layerBack(tag string, m, l int, g uint32) uint32 {
	in, saved := p.saved[m][l][0], p.saved[m][l][1:]
	if p.t.Recompute {
		var out uint32
		saved, out = p.layer(fmt.Sprintf("R%d", m), m, l)
		p.free(out)
	}
	params := p.t.params(l)
	at := fmt.Sprintf("%s.%d ", tag, l)
	wide := p.alloc(at+"dgelu", p.act(4))
	p.gradient(at, m, params[len(params)-1])
	up := p.alloc(at+"dup", p.act(4))
	p.free(wide)
	p.free(saved[8:]...) // gelu, up, or those of the experts
	p.gradient(at, m, params[len(params)-2])
	dn := p.alloc(at+"dnorm2", p.act(1))
	p.free(up, saved[7], saved[6])
	p.gradient(at, m, params[3])
	dr := p.alloc(at+"dresidual", p.act(1))
	p.free(dn, g, saved[5])
	p.gradient(at, m, params[2])
	dq := p.alloc(at+"dqkv", p.act(3))
	p.free(saved[4], saved[3], saved[2])
	p.gradient(at, m, params[1])
	d1 := p.alloc(at+"dnorm1", p.act(1))
	p.free(dq, saved[1], saved[0])
	p.gradient(at, m, params[0])
	dx := p.alloc(at+"dx", p.act(1))
	p.free(d1, dr, in)
	return dx
}

// gradient makes the gradient of a parameter in the first backward, and adds to it in others.
func (p *pass) gradient(at string, m int, w param) {
	id := p.alloc(at+" grad "+w.name, w.bytes)
	if m == 0 {
		p.state.grads = append(p.state.grads, id)
		return
	}
	p.free(id)
}

func (p *pass) optimizer() {
	p.phase(phaseOptimizer)
	var norms []uint32
	for l := range p.t.Layers + 1 {
		for _, w := range p.t.params(l) {
			norms = append(norms, p.alloc("norm of "+w.name, 4))
		}
	}
	total := p.alloc("grad norm", ir.Bytes(4*len(norms)))
	p.free(norms...)
	p.free(total)
	if p.cold {
		p.moments()
		p.Process.cold = false
	}
	for l := range p.t.Layers + 1 {
		for _, w := range p.t.params(l) {
			a := p.alloc("update "+w.name, 2*w.bytes)
			b := p.alloc("denominator "+w.name, 2*w.bytes)
			p.free(a, b)
		}
	}
}

// Trace is the program as a profile: the marks it made, and the end of the last step.
func (p *Program) Trace() *ir.Trace {
	t := &ir.Trace{Names: p.Names, Streams: p.Streams, Format: "made up", Reserved: -1, Requests: make([]ir.Request, 0, len(p.Role))}
	var tick ir.Tick
	at := make([]int, len(p.Role))
	for _, ev := range p.Events {
		switch ev.Kind {
		case ir.EvAlloc:
			at[ev.ID] = len(t.Requests)
			t.Requests = append(t.Requests, ir.Request{Size: ev.Size, Alloc: tick, FreeRequested: ir.Never, Free: ir.Never, Stream: ev.Stream})
			tick++
		case ir.EvFree:
			t.Requests[at[ev.ID]].FreeRequested, t.Requests[at[ev.ID]].Free = tick, tick
			tick++
		default:
			t.Marks = append(t.Marks, ir.Mark{Tick: tick, Kind: ev.Mark, Value: ev.Value, Name: ev.Name})
		}
	}
	t.Marks = append(t.Marks, ir.Mark{Tick: tick, Kind: ir.MarkIteration, Value: -1})
	t.Events = int64(tick)
	return t
}

// Profile is the recording that a plan is made from: the cold first step and n usual ones.
func (t Trainer) Profile(n int) *Program {
	q := t.Start(false)
	for range n + 1 {
		q.Train(Step{})
	}
	return &q.Program
}
