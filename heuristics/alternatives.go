package heuristics

import (
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
