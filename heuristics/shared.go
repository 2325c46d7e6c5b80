package heuristics

import (
	"cmp"
	"fmt"
	"slices"

	"stweaver/ir"
)

// Streams that share addresses.
//
// Two buffers of one stream conflict when their lives overlap; two of different streams when AGE ticks
// are not between them (ir.Sharing). What is in the way depends on who asks, so the index has two
// trees for each stream: one of the stream's own buffers, as they are, and one of all others, widened:
//
//	the buffer                           |=======|
//	in its own stream's tree             |=======|~lag~>     where it has a lag, up to AGE
//	in other streams'           <--AGE---|=======|--AGE-->
//
// A query looks into both trees of its stream: among its own for its life with its lag, among strangers
// for its life. On the loop's circle what is widened past one border comes back at the other:
//
//	prologue   |        loop            |
//	           |==>               <-|===|       ends at the border: also the first ticks
//	       <---|===|                 <--|       begins at it: also the last ticks of prologue and loop
//
// A fit costs one walk as ever, and a take in as many trees as there are streams. Sections are cut at the
// widened edges, too. The live peak is that of the lives as they are: with widened ones the conflicts
// of a tick need not be a clique, and it is no bound.
//
// What thinks in sections without the index (dives, boxes, folds, cruxes) knows one kind of conflict
// only, and is left out. Where all buffers are of one stream there is only one kind: lives and lags
// are then lives like any others, and everything applies, the live peak with lags as the bound included.
//
// On real sharded training, three streams and 500 requests, the first fits of the table end within 6 % of
// the live peak, where streams apart are 14 % above it.

// Shared says that buffers of different streams may share addresses, and on what terms.
type Shared struct {
	Age  ir.Tick // as in ir.Sharing
	Loop ir.Tick // [Loop, horizon) repeats; nothing does where it is the horizon
}

// shared is what an instance knows of streams.
type shared struct {
	of      []int32 // by buffer: its stream, numbered by first appearance
	streams int32
	own     []form // by buffer: its life and lag
	wide    []form // by buffer: its life, widened by AGE on both sides
}

// form is up to four ranges of sections.
type form [2]piece

// newShared is newInstance where streams share.
func newShared(buffers []ir.Buffer, horizon ir.Tick, terms Shared) *instance {
	n := len(buffers)
	s := &shared{of: make([]int32, n), own: make([]form, n), wide: make([]form, n)}
	number := make(map[ir.StreamID]int32)
	timed := make([]ir.Buffer, 5*n) // each as it is, own and wide
	copy(timed, buffers)
	for i := range buffers {
		b := &buffers[i]
		k, ok := number[b.Stream]
		if !ok {
			k = s.streams
			number[b.Stream] = k
			s.streams++
		}
		s.of[i] = k
		terms.widen(b, horizon, 0, b.Distance(b.Stream, terms.Age), timed[n+2*i:n+2*i+2])
		terms.widen(b, horizon, terms.Age, terms.Age, timed[3*n+2*i:3*n+2*i+2])
	}
	in := newTimed(buffers, horizon, newClock(timed))
	for i := range buffers {
		s.own[i] = form{in.clock.piece(&timed[n+2*i]), in.clock.piece(&timed[n+2*i+1])}
		s.wide[i] = form{in.clock.piece(&timed[3*n+2*i]), in.clock.piece(&timed[3*n+2*i+1])}
	}
	in.shared = s
	return in
}

// Alone returns buffers that live as long as they are in the way of others, where all are of one stream:
// then nothing else matters. Else nil.
func (o *Shared) Alone(buffers []ir.Buffer, horizon ir.Tick) []ir.Buffer {
	out := append([]ir.Buffer{}, buffers...)
	for i := range buffers {
		b := &buffers[i]
		if b.Stream != buffers[0].Stream {
			return nil
		}
		if least := b.Distance(b.Stream, o.Age); least > 0 {
			var pair [2]ir.Buffer
			o.widen(b, horizon, 0, least, pair[:])
			if pair[1].Life() > 0 {
				panic(fmt.Sprintf("BUG: heuristics: buffer %d has more than two pieces of time", i))
			}
			x := &out[i]
			x.Start, x.End, x.HeadStart, x.HeadEnd = pair[0].Start, pair[0].End, pair[0].HeadStart, pair[0].HeadEnd
		}
	}
	return out
}

// widen writes the time of b, so many ticks longer on both sides, as the pieces of two buffers.
func (o *Shared) widen(b *ir.Buffer, horizon, before, after ir.Tick, out []ir.Buffer) {
	type span struct{ s, e ir.Tick }
	var spans []span
	l0, l1, turn := o.Loop, horizon, horizon-o.Loop
	add := func(from, to ir.Tick) {
		lo, hi := from-before, to+after
		if turn > 0 && from >= l0 && lo < l0 {
			spans = append(spans, span{max(lo+turn, l0), l1})
		}
		if turn > 0 && to > l0 && hi > l1 {
			spans = append(spans, span{l0, min(hi-turn, l1)})
		}
		spans = append(spans, span{max(lo, min(0, from)), min(hi, max(l1, to))})
	}
	if b.End > b.Start {
		add(b.Start, b.End)
	}
	if b.HasHead() {
		add(b.HeadStart, b.HeadEnd)
	}
	slices.SortFunc(spans, func(x, y span) int { return cmp.Or(cmp.Compare(x.s, y.s), cmp.Compare(x.e, y.e)) })
	n := 0
	for _, x := range spans {
		if n > 0 && x.s <= spans[n-1].e {
			spans[n-1].e = max(spans[n-1].e, x.e)
			continue
		}
		spans[n] = x
		n++
	}
	for k, x := range spans[:n] {
		if o := &out[k/2]; k%2 == 0 {
			o.Start, o.End = x.s, x.e
		} else {
			o.HeadStart, o.HeadEnd = o.Start, o.End
			o.Start, o.End = x.s, x.e
		}
	}
}

// trees is how many trees the index of the instance needs.
func (in *instance) trees() int {
	if in.shared == nil {
		return 1
	}
	return 2 * int(in.shared.streams)
}

// locate lines up what is in the way of a buffer.
func (w *bench) locate(id int32) {
	s := w.in.shared
	if s == nil {
		w.index.locate(w.in.pieces[id])
		return
	}
	w.index.nowhere()
	w.index.also(2*s.of[id], s.own[id])
	w.index.also(2*s.of[id]+1, form{w.in.pieces[id]})
}

// locateTaken lines up where a buffer is in the way of others.
func (w *bench) locateTaken(id int32) {
	s := w.in.shared
	if s == nil {
		w.index.locate(w.in.pieces[id])
		return
	}
	w.index.nowhere()
	for k := range s.streams {
		if k == s.of[id] {
			w.index.also(2*k, s.own[id])
		} else {
			w.index.also(2*k+1, s.wide[id])
		}
	}
}

// sharedTries are the tries that look at nothing but the index: the table's fits, and drawn ones.
func (r *race) sharedTries(effort int) (tries []try) {
	for _, p := range packers {
		if p.views {
			tries = append(tries, try{name: p.Name, run: p.run, exempt: p.reference})
		}
	}
	tries[0].exempt = true // something must be there
	n := max(len(r.in.buffers), 1) * int(r.in.shared.streams)
	most := min(1+max(minTries, (placements+effort*placementsPerTry)/n), len(tries)+effort*mostPerEffort)
	for k := 0; len(tries) < most; k += 2 { // the odd ones of small problems are dives
		tries = append(tries, try{name: fmt.Sprintf("sample-%d", k), run: sample(k)})
	}
	return tries
}

// packShared is Pack where streams share.
func packShared(buffers []ir.Buffer, horizon ir.Tick, o Options) Result {
	if own := o.Shared.Alone(buffers, horizon); own != nil {
		o.Shared = nil
		return Pack(own, horizon, o)
	}
	in := newShared(buffers, horizon, *o.Shared)
	r := newRace(in, o)
	r.run(r.sharedTries(EffortFast), in.bound)
	if !r.near() {
		r.run(r.sharedTries(o.Effort), in.bound)
	}
	if goal := o.Capacity; goal >= in.bound && r.best.peak > int64(goal) {
		r.run(r.sharedTries(EffortMax), goal)
	}
	res := r.result()
	newBench(in).settleSlots(&res.Layout)
	return res
}
