package compiler

import (
	"slices"

	"stweaver/ir"
)

// Reasons why something that repeats is not the iteration. Anchors are those of a candidate
// period without its first window, where there are enough of them.

// alternates reports whether windows some way apart are far more alike than neighbours:
// then they are parts of a longer period, as micro-batches are.
func alternates(shapes []*shape) bool {
	off := func(d int) (mean int) {
		sim := apart(shapes, d)
		for _, v := range sim {
			mean += (perfect - v) / len(sim)
		}
		return mean
	}
	if len(shapes) < 4 {
		return false
	}
	next := off(1)
	for d := 2; d <= 8 && d+2 <= len(shapes); d++ {
		if next > perfect/100 && off(d)*2 < next {
			return true
		}
	}
	return false
}

// drifts reports whether what is alive moves on from window to window. An iteration ends
// with what it began with; the layers of one forward pass each leave their activations:
//
//	live      /\/'         /\      /\
//	       /\/'        ___/  \____/  \___
//	    /\/'
//	     layers            iterations
func drifts(s *sequence, anchors []uint32) bool {
	var swing, anchor, low []ir.Bytes
	for i := 0; i+1 < len(anchors); i++ {
		w := s.live[anchors[i]:anchors[i+1]]
		lo := slices.Min(w)
		swing = append(swing, slices.Max(w)-lo)
		anchor = append(anchor, distance(s.live[anchors[i]], s.live[anchors[i+1]]))
		if i > 0 {
			low = append(low, distance(lo, slices.Min(s.live[anchors[i-1]:anchors[i]])))
		}
	}
	moved := min(anchor[len(anchor)-1], median(anchor))
	if len(low) > 0 {
		moved = min(moved, median(low))
	}
	return moved*4 > median(swing)
}

// retains reports whether every window leaves behind what the two after it do not free. What
// an iteration asks for dies in it or in the next one; the layers of a forward pass keep
// activations for the backward pass, and an optimizer that replaces its state keeps that.
func retains(s *sequence, anchors []uint32) bool {
	if len(anchors) < 4 {
		return false
	}
	for i := 0; i+2 < len(anchors); i++ {
		from, to, after := anchors[i], anchors[i+1], anchors[i+2]
		var kept ir.Bytes
		for k := from; k < to; k++ {
			if s.end[k] > after {
				kept += s.tok[k].size
			}
		}
		w := s.live[from:to]
		if kept*10 <= slices.Max(w)-slices.Min(w) {
			return false
		}
	}
	return true
}

// holdsPeak reports whether the windows reach at least half of what the log reaches once the
// period has begun; of all of it where the log has no initialisation. The loop of an optimizer
// over its parameters is steady, but the passes before it hold far more.
func holdsPeak(s *sequence, anchors []uint32) bool {
	all := s.live
	if !s.sawPart() {
		all = all[anchors[0]:]
	}
	low := slices.Min(s.live[anchors[0]:anchors[len(anchors)-1]])
	var tops []ir.Bytes
	for i := 0; i+1 < len(anchors); i++ {
		tops = append(tops, slices.Max(s.live[anchors[i]:anchors[i+1]]))
	}
	return (median(tops)-low)*2 >= slices.Max(all)-low
}

func distance(a, b ir.Bytes) ir.Bytes { return max(a-b, b-a) }

// median is the upper one of an even number.
func median(v []ir.Bytes) ir.Bytes {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
