package heuristics

import (
	"math"
	"slices"

	"stweaver/ir"
)

// Alternative is a layout as low as another, by another packer.
type Alternative struct {
	Packer string
	Layout ir.Layout
}

// Alternatives returns up to most layouts with a peak of at most peak, made by the first packers of
// the race that reach it, in their order, and each different from the others and from known. For
// callers who judge layouts by more than their peak: where idle space lies, say. At most four times
// as many packers are tried as layouts are wanted. It is safe for concurrent use, and a function of
// its arguments unless o.Stop says to stop.
func Alternatives(buffers []ir.Buffer, horizon ir.Tick, peak ir.Bytes, known ir.Layout, most int, o Options) []Alternative {
	var r *race
	var tries []try
	if o.Shared != nil {
		if own := o.Shared.Alone(buffers, horizon); own != nil {
			o.Shared = nil
			return Alternatives(own, horizon, peak, known, most, o)
		}
		r = newRace(newShared(buffers, horizon, *o.Shared), o)
		tries = r.sharedTries(EffortFast)
	} else {
		r = newRace(newInstance(buffers, horizon), o)
		tries = r.table(true)
	}
	tries = tries[:min(len(tries), 4*most)]
	w := newBench(r.in)
	var out []Alternative
	for _, t := range tries {
		if len(out) >= most || o.Stop != nil && o.Stop() {
			break
		}
		w.leash = leash{ceil: func() int64 { return int64(peak) }, steps: max(stepsAtLeast, stepsPerBuffer*int64(len(buffers)))}
		if !t.run(w) || w.peak > int64(peak) || slices.Equal(w.offsets, known.Offsets) ||
			slices.ContainsFunc(out, func(a Alternative) bool { return slices.Equal(a.Layout.Offsets, w.offsets) }) {
			continue
		}
		out = append(out, Alternative{t.name, ir.Layout{Offsets: slices.Clone(w.offsets), Peak: ir.Bytes(w.peak)}})
	}
	return out
}

// AlternativesUnder is Alternatives under rules: offsets and peaks are as PackUnder's. The number of a packer is the same in
// the regions as outside.
func AlternativesUnder(p *ir.Problem, base ir.Offset, peak ir.Bytes, known ir.Layout, most int, o Options) []Alternative {
	var out []Alternative
	for o.only = 1; o.only <= 4*most && len(out) < most && (o.Stop == nil || !o.Stop()); o.only++ {
		r, ok := PackUnder(p, base, o)
		if ok && r.Layout.Peak <= peak && !slices.Equal(r.Layout.Offsets, known.Offsets) &&
			!slices.ContainsFunc(out, func(a Alternative) bool { return slices.Equal(a.Layout.Offsets, r.Layout.Offsets) }) {
			out = append(out, Alternative{r.Packer, r.Layout})
		}
	}
	return out
}

// packOnly is Pack by one try alone, number o.only less 1; no offsets: there is none, or it gave up.
func packOnly(buffers []ir.Buffer, horizon ir.Tick, o Options) Result {
	if o.Shared == nil {
		r := newRace(newInstance(buffers, horizon), o)
		return r.only(r.table(true), o)
	}
	if own := o.Shared.Alone(buffers, horizon); own != nil {
		o.Shared = nil
		return packOnly(own, horizon, o)
	}
	r := newRace(newShared(buffers, horizon, *o.Shared), o)
	return r.only(r.sharedTries(EffortFast), o)
}

// only makes one try.
func (r *race) only(tries []try, o Options) Result {
	res := Result{Bound: r.in.bound}
	if o.only > len(tries) {
		return res
	}
	w := newBench(r.in)
	w.leash = leash{ceil: func() int64 { return math.MaxInt64 }, steps: max(stepsAtLeast, stepsPerBuffer*int64(len(r.in.buffers)))}
	if t := tries[o.only-1]; t.run(w) {
		res.Packer, res.Layout = t.name, ir.Layout{Offsets: w.offsets, Peak: ir.Bytes(w.peak)}
	}
	return res
}
