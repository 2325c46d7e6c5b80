package compiler

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"stweaver/ir"
)

// Lowering turns requests and their template into the problem that is packed: entries (what the
// runtime will expect), buffers (what is placed), and the timeline of prologue and loop.
//
//	trace       | init | iteration 0 | 1 | 2 | … | going away |
//	                                 \___|___/
//	                                  template
//	problem     |      prologue      |  loop  |
//	            0                    L0       L1
//
// Everything before the first steady iteration is prologue, request by request. The loop is the
// template. A tick of the problem is an entry, so a free maps to the first entry allocated after
// it. A request of the prologue that dies in the first steady iteration lives [alloc, L0 + x); one
// that dies later, or never, lives to L1: from the loop's point of view it is always there.
//
// Unrolling. A tensor that outlives a whole iteration (the outputs of the step before, held by a
// variable until the next ones are there) has two instances alive at once, which one address
// cannot serve. Where such tensors matter the loop holds two iterations, or up to four, each with
// addresses of its own; the template is laid down once for each:
//
//	  prologue |  copy 0  |  copy 1  |
//	        [--A--]    [----B-----]    [--A-…      life of more than one iteration
//	           L0         L0 + n     L1 = L0 + 2n
//
// Twins. A tensor carried from iteration to iteration (a gradient, a prefetched batch) exists at
// the border already the first time, allocated by the prologue. That instance and the loop's carried
// buffer of the same size never live together: they are one buffer at one address, with the
// prologue's instance as its head. Without this both would be counted at the start of the loop.
//
//	  prologue       |           loop            |
//	     +-----------+----+             +--------+
//	     | twin           |             |   c    |       one buffer, one address
//	     +-----------+----+             +--------+
//	               L0   HeadEnd       Start     L1

// mapping ties the trace to the problem lowered from it.
type mapping struct {
	tmpl     *Template // nil for a one-pass trace
	prologue []uint32  // request of each prologue entry
	unroll   int       // copies of the template in the loop
	// entryOf is the prologue entry of each request of the trace, memberOf its template entry;
	// ir.NoEntry where it has none.
	entryOf, memberOf []uint32
}

// maxUnroll bounds the copies; what lives longer than that many iterations is dynamic.
const maxUnroll = 4

// unrollWorth is the share of the live peak, one in so many, that long-lived tensors must have
// for the loop to be unrolled for them.
const unrollWorth = 1000

// static reports whether a template entry can have a planned address in a loop of so many
// copies: it is always there, always of one size, and no more than that many live at once.
func (e *TemplateEntry) static(copies, n int) bool {
	return !e.Optional && e.MinSize == e.MaxSize && e.Life < ir.MaxLife && int(e.Life) <= copies*n
}

// unrollFactor is the number of copies the loop needs.
func unrollFactor(t *ir.Trace, tmpl *Template) int {
	n := len(tmpl.Entries)
	peak, _ := t.LivePeak()
	factor := 1
	for copies := 2; copies <= maxUnroll && copies*n < ir.MaxEntries/2; copies++ {
		var gained ir.Bytes
		for k := range tmpl.Entries {
			if e := &tmpl.Entries[k]; e.static(copies, n) && !e.static(factor, n) {
				gained += e.MaxSize
			}
		}
		if gained > peak/unrollWorth {
			factor = copies
		}
	}
	return factor
}

func lowerProblem(t *ir.Trace, tmpl *Template, sharing ir.Sharing) (*ir.Problem, *mapping) {
	first := ir.Tick(t.Events)
	if tmpl != nil {
		first = tmpl.Windows[0][0]
	}
	m := &mapping{tmpl: tmpl}
	for _, list := range []*[]uint32{&m.entryOf, &m.memberOf} {
		*list = slices.Repeat([]uint32{ir.NoEntry}, len(t.Requests))
	}
	seq := newSequence(t)
	m.prologue = seq.req[:seq.at(first)]
	for k, ri := range m.prologue {
		m.entryOf[ri] = uint32(k)
	}
	p := &ir.Problem{Sharing: sharing, Streams: t.Streams, Names: t.Names, L0: ir.Tick(len(m.prologue))}
	p.L1 = p.L0
	if tmpl != nil {
		m.unroll = unrollFactor(t, tmpl)
		p.L1 += ir.Tick(m.unroll * len(tmpl.Entries))
		p.FirstStep, p.LastStep, p.Unroll = tmpl.FirstStep, tmpl.LastStep, m.unroll
	}
	l := &lowering{t: t, p: p, m: m, seq: seq, phases: phaseTicks(t), first: first}
	l.buildPrologue()
	if tmpl != nil {
		l.buildLoop()
		l.mergeTwins()
	}
	renumber(p, func(b *ir.Buffer) bool { return b.Size > 0 })
	l.buildMarks()
	return p, m
}

type lowering struct {
	t      *ir.Trace
	p      *ir.Problem
	m      *mapping
	seq    *sequence
	phases []ir.Tick // ticks at which a phase begins
	first  ir.Tick   // trace tick at which the loop begins
}

// phaseTicks lists where phases and iterations begin.
func phaseTicks(t *ir.Trace) []ir.Tick {
	var out []ir.Tick
	for _, m := range t.Marks {
		if m.Kind == ir.MarkPhase || m.Kind == ir.MarkIteration {
			out = append(out, m.Tick)
		}
	}
	return out
}

// transientLife is the longest life, in requests, of a transient where no phases are marked.
const transientLife = 64

// shortLived tells a transient from a scoped request: freed in the phase it was allocated in.
func (l *lowering) shortLived(r *ir.Request, life ir.Tick) bool {
	if len(l.phases) == 0 {
		return life <= transientLife
	}
	at := func(t ir.Tick) int { return sort.Search(len(l.phases), func(i int) bool { return l.phases[i] > t }) }
	return at(r.Alloc) == at(r.Free)
}

// buildPrologue appends the entries and buffers of what is requested once.
func (l *lowering) buildPrologue() {
	for k, ri := range l.m.prologue {
		r := &l.t.Requests[ri]
		end, kind := l.endOf(k, r), ir.Scoped
		switch {
		case r.Free == ir.Never || end == l.p.L1 && l.p.L1 > l.p.L0:
			kind = ir.Persistent
		case l.shortLived(r, end-ir.Tick(k)):
			kind = ir.Transient
		}
		n, flags := l.seq.tok[k].nf, ir.EntryFlags(0)
		if kind != ir.Persistent {
			flags = ir.Firm // seen once
		}
		l.p.Entries = append(l.p.Entries, ir.Entry{
			MinSize: r.Rounded(), MaxSize: r.Rounded(), Buffer: ir.BufferID(len(l.p.Buffers)), Flags: flags,
			Life: uint32(min(end-ir.Tick(k), ir.MaxLife)), Request: ri, Stream: r.Stream, NfMin: n, NfMax: n, Kind: kind,
		})
		l.p.Buffers = append(l.p.Buffers, ir.Buffer{Size: r.Rounded(), Start: ir.Tick(k), End: end, Stream: r.Stream, Kind: kind, Lag: l.t.Lag(ri)})
	}
}

// endOf is the plan tick at which the request of prologue entry k is dead.
func (l *lowering) endOf(k int, r *ir.Request) ir.Tick {
	switch {
	case r.Free == ir.Never:
		return l.p.L1
	case ir.Tick(l.seq.end[k]) <= l.p.L0:
		return ir.Tick(l.seq.end[k])
	}
	for w := range min(l.m.unroll, len(l.m.tmpl.Windows)) {
		if r.Free < l.m.tmpl.Windows[w][1] {
			return l.p.L0 + ir.Tick(w*len(l.m.tmpl.Entries)+l.loopEntryAfter(w, r.Free))
		}
	}
	return l.p.L1
}

// loopEntryAfter is the first template entry allocated at or after tick at in window w.
func (l *lowering) loopEntryAfter(w int, at ir.Tick) int {
	member := l.m.tmpl.Member[w]
	// Members are increasing where present; absent ones take the next present one's place.
	return sort.Search(len(member), func(i int) bool {
		for ; i < len(member); i++ {
			if member[i] != NoRequest {
				return l.t.Requests[member[i]].Alloc >= at
			}
		}
		return true
	})
}

// buildLoop appends the template, once for each copy.
func (l *lowering) buildLoop() {
	tmpl := l.m.tmpl
	for w := range tmpl.Member {
		for k, ri := range tmpl.Member[w] {
			if ri != NoRequest {
				l.m.memberOf[ri] = uint32(k)
			}
		}
	}
	for i := range l.m.unroll {
		for k := range tmpl.Entries {
			l.addEntry(i, k)
		}
	}
}

func (l *lowering) addEntry(i, k int) {
	n, te := len(l.m.tmpl.Entries), &l.m.tmpl.Entries[k]
	e := ir.Entry{
		MinSize: te.MinSize, MaxSize: te.MaxSize, Buffer: ir.NoBuffer, Life: min(te.Life, ir.MaxLife),
		Stream: te.Stream, NfMin: te.NfMin, NfMax: te.NfMax, Kind: ir.Dynamic, Request: lastMember(l.m.tmpl, k),
	}
	if te.Optional {
		e.Flags |= ir.Optional
	}
	if te.Firm {
		e.Flags |= ir.Firm
	}
	if te.static(l.m.unroll, n) {
		e.Kind = te.Kind
		if e.Kind == ir.Dynamic { // for one iteration it was
			e.Kind = ir.Carried
		}
		e.Buffer = ir.BufferID(len(l.p.Buffers))
		b, ok := loopBuffer(l.p, te, l.p.L0+ir.Tick(i*n+k), e.Kind)
		if !ok {
			panic(fmt.Sprintf("BUG: compiler: entry %d of copy %d outlives the loop", k, i))
		}
		l.p.Buffers = append(l.p.Buffers, b)
	}
	l.p.Entries = append(l.p.Entries, e)
}

// loopBuffer is a buffer for the entry te that the loop has at start, of the largest size and the longest life seen; false where more of
// its instances live at once than the loop has addresses for.
func loopBuffer(p *ir.Problem, te *TemplateEntry, start ir.Tick, kind ir.Kind) (ir.Buffer, bool) {
	life := max(ir.Tick(te.Life), 1)
	if te.Life >= ir.MaxLife || life > p.L1-p.L0 {
		return ir.Buffer{}, false
	}
	b := ir.Buffer{Size: te.MaxSize, Start: start, End: start + life, Stream: te.Stream, Kind: kind, Lag: te.Lag}
	if over := b.End - p.L1; over > 0 {
		b.End, b.HeadStart, b.HeadEnd = p.L1, p.L0, p.L0+over
	}
	return b, true
}

func lastMember(tmpl *Template, k int) uint32 {
	for w := len(tmpl.Member) - 1; w >= 0; w-- {
		if r := tmpl.Member[w][k]; r != NoRequest {
			return r
		}
	}
	panic("BUG: compiler: a template entry without a member")
}

// mergeTwins gives prologue instances of carried buffers the carried buffer's place. A pair needs
// equal size and stream; the nearest end of life wins, and the later of the two ends counts.
func (l *lowering) mergeTwins() {
	type key struct {
		size   ir.Bytes
		stream ir.StreamID
	}
	carried := make(map[key][]ir.BufferID)
	for i := range l.p.Buffers {
		if b := &l.p.Buffers[i]; b.HasHead() {
			k := key{b.Size, b.Stream}
			carried[k] = append(carried[k], ir.BufferID(i))
		}
	}
	for k := range l.m.prologue {
		b := l.p.Buffers[k] // buffer k is that of prologue entry k
		if b.End <= l.p.L0 || b.End == l.p.L1 {
			continue
		}
		list := carried[key{b.Size, b.Stream}]
		best := -1
		dist := func(i int) ir.Tick { d := l.p.Buffers[list[i]].HeadEnd - b.End; return max(d, -d) }
		for i, id := range list {
			if c := &l.p.Buffers[id]; b.End <= c.Start && (best < 0 || dist(i) < dist(best)) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		id := list[best]
		carried[key{b.Size, b.Stream}] = slices.Delete(list, best, best+1)
		c := &l.p.Buffers[id]
		c.HeadStart, c.HeadEnd, c.Lag = b.Start, max(c.HeadEnd, b.End), max(c.Lag, b.Lag)
		l.p.Entries[k].Buffer, l.p.Entries[k].Kind = id, ir.Carried
		l.p.Buffers[k].Size = 0 // gone: renumber drops it
	}
}

// planMark reports whether the runtime is told of a mark: iterations and phases.
func planMark(m ir.Mark) bool {
	return m.Kind == ir.MarkIteration && m.Value >= 0 || m.Kind == ir.MarkPhase
}

// buildMarks places iteration and phase marks before the entries that follow them. A mark that
// several steady iterations have is placed once: at the earliest entry any of them has it.
func (l *lowering) buildMarks() {
	add := func(entry int, m ir.Mark) {
		em := ir.EntryMark{Entry: uint32(entry), Kind: m.Kind, Value: m.Value, Name: m.Name}
		if m.Kind == ir.MarkPhase {
			em.Value = 0
		}
		l.p.Marks = append(l.p.Marks, em)
	}
	for _, m := range l.t.Marks {
		if planMark(m) && m.Tick < l.first {
			add(l.seq.at(m.Tick), m)
		}
	}
	if l.m.tmpl == nil {
		if l.p.L1 > 0 && len(l.p.Marks) == 0 {
			add(0, ir.Mark{Kind: ir.MarkIteration}) // the pass itself: replay announces each one
		}
		return
	}
	type key struct {
		kind ir.MarkKind
		name ir.NameID
		nth  int
	}
	type place struct {
		mark  ir.Mark
		entry int
		order int
	}
	var places []place
	at := make(map[key]int)
	for w, win := range l.m.tmpl.Windows {
		seen := make(map[key]int)
		for _, m := range l.t.Marks {
			if !planMark(m) || m.Tick < win[0] || m.Tick >= win[1] {
				continue
			}
			k := key{m.Kind, m.Name, 0}
			k.nth = seen[k]
			seen[key{m.Kind, m.Name, 0}]++
			entry := l.loopEntryAfter(w, m.Tick)
			if i, ok := at[k]; ok {
				places[i].entry = min(places[i].entry, entry)
				continue
			}
			at[k] = len(places)
			places = append(places, place{m, entry, len(places)})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.entry, b.entry), cmp.Compare(a.order, b.order)) })
	for i := range l.m.unroll {
		for _, pl := range places {
			if pl.mark.Kind == ir.MarkIteration && i > 0 {
				pl.mark.Value++ // the next iteration
			}
			add(int(l.p.L0)+i*len(l.m.tmpl.Entries)+pl.entry, pl.mark)
		}
	}
}
