package heuristics

import (
	"math/bits"
	"slices"

	"stweaver/ir"
)

// Two-level fit with promotion.
//
// One order for all buffers lets short ones settle at low addresses, and a long one then
// rests on the highest of the short ones that it meets anywhere in its life; below it
// lies space that nobody can use at any other time:
//
//	address                              address
//	  |   +--------------------+            |      +--+
//	  |   |        long        |            | +-+  |  |    +-+
//	  |   +--------------------+            | +-+--+--+----+-+--+
//	  | +-+  +--+  (waste)  +-+             |   |      long     |
//	  | | |  |  |           | |             |   +---------------+
//	  +---------------------------> time    +---------------------------> time
//
// So the long ones go first, the short ones into what they leave. At a moment where
// nearly all the memory is in use that alone is too rigid: the short ones alive then need
// room of just their size, so they are promoted, placed among the long ones and in their
// order, and the long ones settle around them.
//
//	1. life >= pin: first of all, longest first
//	2. long: life >= theta, or alive where the load is within delta of the live peak
//	3. short: the rest
//	   buffers smaller than sigma wait as the small rule says
//
// Which keys, thresholds and fits are best differs from program to program and a try is
// cheap, hence a list of fixed specs and, after it, a sampler (sample.go).
//
// On one stage of an interleaved GPT-2 (two chunks, 26,111 requests) greedy by size ends
// at 1.134 times the live peak, by start with best fit at 1.005, two levels at 1.00003.

// smallRule says when buffers smaller than sigma are placed.
type smallRule uint8

const (
	smallAsOthers  smallRule = iota
	smallLast                // last in their class
	smallFirst               // first in their class
	smallLastAll             // after everything, still by class
	smallLastSizes           // after everything, by size, then start
	numSmallRules
)

// spec is one two-level fit. Times are in ticks, theta and pin > 0 or pin == 0 for none;
// delta < 0 promotes nobody.
type spec struct {
	theta, pin        ir.Tick
	long, short       key
	fitLong, fitShort fit
	small             smallRule
	sigma             ir.Bytes
	delta             ir.Bytes
	boxes             boxRule
}

// boxRule says how a coarse problem's boxes are ordered.
type boxRule uint8

const (
	boxesAsOthers    boxRule = iota
	boxesBySizeStart         // after the residents and before the rest: largest first, then earliest
	boxesByStart             // … earliest first
)

// per is a fraction of a whole: 1/n as {1, n}.
type per struct{ num, den int64 }

// of rounds down. 0 <= num <= den and 0 <= whole.
func (f per) of(whole int64) int64 {
	hi, lo := bits.Mul64(uint64(whole), uint64(f.num))
	n, _ := bits.Div64(hi, lo, uint64(f.den))
	return int64(n)
}

// off promotes nobody.
var off = per{-1, 1}

// twoLevel returns the packer of one spec, its thresholds given as parts of the timeline
// (theta, pin) and of the live peak (sigma, delta).
func twoLevel(theta per, long, short key, fitLong, fitShort fit, small smallRule, sigma, pin, delta per) func(*bench) bool {
	return func(w *bench) bool {
		t, lb := int64(w.in.span), int64(w.in.peak)
		s := spec{
			theta: ir.Tick(theta.of(t)), pin: ir.Tick(pin.of(t)),
			long: long, short: short, fitLong: fitLong, fitShort: fitShort,
			small: small, sigma: ir.Bytes(sigma.of(lb)), delta: -1,
		}
		if delta != off {
			s.delta = ir.Bytes(delta.of(lb))
		}
		return w.packSpec(s)
	}
}

// Classes of buffers in a spec.
const (
	pinned = iota
	longBig
	longSmall
	shortBig
	shortSmall
	resident // placed already, by boxesFirst
)

// packSpec runs one spec.
func (w *bench) packSpec(s spec) bool {
	in := w.in
	if s.delta >= 0 {
		in.crests.Do(in.rankCrests)
	}
	for i := range in.buffers {
		id := int32(i)
		life, class := in.life(id), uint8(shortBig)
		if life >= s.theta || s.delta >= 0 && in.need[id] >= in.peak-s.delta {
			class = longBig
		}
		if s.small != smallAsOthers && in.buffers[id].Size < s.sigma {
			class++
		}
		if s.pin > 0 && life >= s.pin {
			class = pinned
		}
		w.class[id] = class
	}
	w.order = w.order[:0]
	w.emit(byLife, pinned)
	switch s.small {
	case smallAsOthers, smallLast:
		w.emit(s.long, longBig)
		w.emit(s.long, longSmall)
		w.emit(s.short, shortBig)
		w.emit(s.short, shortSmall)
	case smallFirst:
		w.emit(s.long, longSmall)
		w.emit(s.long, longBig)
		w.emit(s.short, shortSmall)
		w.emit(s.short, shortBig)
	case smallLastAll:
		w.emit(s.long, longBig)
		w.emit(s.short, shortBig)
		w.emit(s.long, longSmall)
		w.emit(s.short, shortSmall)
	case smallLastSizes:
		w.emit(s.long, longBig)
		w.emit(s.short, shortBig)
		w.emit(bySizeStart, longSmall, shortSmall)
	}
	if s.boxes != boxesAsOthers && in.parts != nil {
		w.boxesFirst(s.boxes)
	}
	return w.pack(w.order, func(id int32) fit {
		if in.life(id) >= s.theta {
			return s.fitLong
		}
		return s.fitShort
	})
}

// emit appends the buffers of the classes to the order, sorted by k.
func (w *bench) emit(k key, classes ...uint8) {
	var want [8]bool
	for _, c := range classes {
		want[c] = true
	}
	for _, id := range w.in.ids(k) {
		if want[w.class[id]] {
			w.order = append(w.order, id)
		}
	}
}

// boxesFirst moves the residents, longest lived first, and then the boxes to the front of
// the order.
func (w *bench) boxesFirst(rule boxRule) {
	in := w.in
	k := bySizeStart
	if rule == boxesByStart {
		k = byStart
	}
	rest := slices.Clone(w.order)
	w.order = w.order[:0]
	for _, id := range in.ids(byLife) {
		if in.life(id) >= in.span/2 {
			w.class[id] = resident
			w.order = append(w.order, id)
		}
	}
	for _, id := range in.ids(k) {
		if w.class[id] != resident && in.parts[id] != nil {
			w.class[id] = resident
			w.order = append(w.order, id)
		}
	}
	for _, id := range rest {
		if w.class[id] != resident {
			w.order = append(w.order, id)
		}
	}
}
