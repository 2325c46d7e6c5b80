package testkit

import (
	"slices"

	"stweaver/ir"
)

// Derive reads constraints off a valid layout l of p: up to tries of them, all of which l satisfies, so that a
// layout under them exists. Rules are numbered from 0, one for each constraint.
func Derive(r *Rand, p *ir.Problem, l *ir.Layout, tries int) *ir.Constraints {
	out := &ir.Constraints{}
	for range tries {
		next := *out
		Propose(r, p, l, ir.RuleID(len(out.RuleIDs())), &next)
		q := *p
		q.Constraints = &next
		if len(ir.Verify(&q, nil, l)) == 0 {
			*out = next
		}
	}
	return out
}

// Propose adds one constraint of any kind to c that l is likely to satisfy, or nearly.
func Propose(r *Rand, p *ir.Problem, l *ir.Layout, rule ir.RuleID, c *ir.Constraints) {
	if len(p.Buffers) == 0 {
		return
	}
	d := &deriving{r, p, l}
	switch r.Below(9) {
	case 0:
		run := d.run()
		c.Pins = append(slices.Clone(c.Pins), ir.Pin{Rule: rule, Lo: l.Offsets[run[0]], Buffers: run})
	case 1:
		some := d.some(3)
		lo, hi := d.hull(some)
		lo = max(0, lo-d.slack())
		c.Pins = append(slices.Clone(c.Pins), ir.Pin{Rule: rule, Lo: lo, Hi: hi + d.slack(), Buffers: some})
	case 2:
		lo, hi, all := d.closed()
		x := ir.Region{Rule: rule, Buffers: all}
		if r.Below(2) == 0 {
			x.Size = ir.Bytes(hi - lo + d.slack())
		}
		if r.Below(2) == 0 {
			x.Piece = ir.Bytes(hi-lo) >> r.Below(3) &^ (ir.Align - 1)
		}
		c.Regions = append(slices.Clone(c.Regions), x)
	case 3:
		c.Together = append(slices.Clone(c.Together), ir.Together{Rule: rule, Buffers: d.run()})
	case 4:
		x := ir.Apart{Rule: rule}
		taken := map[ir.BufferID]bool{}
		for range 2 + r.Below(2) {
			var set []ir.BufferID
			for _, id := range d.some(3) {
				if !taken[id] {
					taken[id] = true
					set = append(set, id)
				}
			}
			if len(set) > 0 {
				x.Sets = append(x.Sets, set)
			}
		}
		c.Apart = append(slices.Clone(c.Apart), x)
	case 5:
		c.Keeps = append(slices.Clone(c.Keeps), ir.Keep{Rule: rule, Buffers: d.alone()})
	case 6:
		c.Guards = append(slices.Clone(c.Guards), ir.Guard{Rule: rule, Ticks: 1 + ir.Tick(r.Below(4)), Buffers: d.some(3)})
	case 7:
		some := d.some(3)
		bits := ir.Bytes(1 << 20)
		for _, id := range some {
			bits |= ir.Bytes(l.Offsets[id])
		}
		c.Alignments = append(slices.Clone(c.Alignments), ir.Alignment{Rule: rule, Bytes: bits & -bits, Buffers: some})
	case 8:
		c.Capacity, c.CapacityRule = l.Peak+ir.Bytes(d.slack()), rule
	}
}

type deriving struct {
	r *Rand
	p *ir.Problem
	l *ir.Layout
}

func (d *deriving) slack() ir.Offset { return ir.Offset(ir.Align) * ir.Offset(d.r.Below(8)) }

func (d *deriving) any() ir.BufferID { return ir.BufferID(d.r.Below(len(d.p.Buffers))) }

func (d *deriving) end(id ir.BufferID) ir.Offset {
	return d.l.Offsets[id] + ir.Offset(d.p.Buffers[id].Size)
}

// some draws up to n buffers, each once.
func (d *deriving) some(n int) (out []ir.BufferID) {
	for range 1 + d.r.Below(n) {
		if id := d.any(); !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func (d *deriving) hull(ids []ir.BufferID) (lo, hi ir.Offset) {
	lo, hi = d.l.Offsets[ids[0]], d.end(ids[0])
	for _, id := range ids {
		lo, hi = min(lo, d.l.Offsets[id]), max(hi, d.end(id))
	}
	return lo, hi
}

// run is a buffer and others that happen to lie on it, one on the other.
func (d *deriving) run() []ir.BufferID {
	out := []ir.BufferID{d.any()}
	for range d.r.Below(4) {
		top := d.end(out[len(out)-1])
		at := d.r.Below(len(d.p.Buffers))
		for k := range d.p.Buffers {
			id := ir.BufferID((at + k) % len(d.p.Buffers))
			if d.l.Offsets[id] == top && d.p.Buffers[id].Stream == d.p.Buffers[out[0]].Stream {
				out = append(out, id)
				break
			}
		}
	}
	return out
}

// closed is a range of addresses that nothing lies across, and what is in it.
func (d *deriving) closed() (lo, hi ir.Offset, all []ir.BufferID) {
	lo, hi = d.hull([]ir.BufferID{d.any()})
	for grown := true; grown; {
		grown, all = false, nil
		for i := range d.p.Buffers {
			id := ir.BufferID(i)
			if from, to := d.l.Offsets[id], d.end(id); from < hi && lo < to {
				grown = grown || from < lo || to > hi
				lo, hi = min(lo, from), max(hi, to)
				all = append(all, id)
			}
		}
	}
	return lo, hi, all
}

// alone are buffers that share no address with any other, or one that does.
func (d *deriving) alone() (out []ir.BufferID) {
	for i := range d.p.Buffers {
		shared := false
		for k := range d.p.Buffers {
			shared = shared || k != i && d.l.Offsets[k] < d.end(ir.BufferID(i)) && d.l.Offsets[i] < d.end(ir.BufferID(k))
		}
		if !shared && len(out) < 3 {
			out = append(out, ir.BufferID(i))
		}
	}
	if len(out) == 0 {
		out = append(out, d.any())
	}
	return out
}

// FirstFit is a valid layout of p: streams on each other, in each the buffers in turn, or in the order that r
// draws, at the lowest place that is free for all of their lives. Quadratic.
func FirstFit(r *Rand, p *ir.Problem, shuffled bool) *ir.Layout {
	l := &ir.Layout{Offsets: make([]ir.Offset, len(p.Buffers))}
	order := make([]int, len(p.Buffers))
	for i := range order {
		order[i] = i
		if k := r.Below(i + 1); shuffled {
			order[i], order[k] = order[k], order[i]
		}
	}
	for s := range p.Streams {
		base := ir.Offset(l.Peak)
		for n, i := range order {
			b := &p.Buffers[i]
			if b.Stream != ir.StreamID(s) {
				continue
			}
			at := base
			for moved := true; moved; {
				moved = false
				for _, k := range order[:n] {
					o := &p.Buffers[k]
					end := l.Offsets[k] + ir.Offset(o.Size)
					if o.Stream == b.Stream && o.Overlaps(b) && l.Offsets[k] < at+ir.Offset(b.Size) && at < end {
						at, moved = end, true
					}
				}
			}
			l.Offsets[i] = at
			l.Peak = max(l.Peak, ir.Bytes(at)+b.Size)
		}
	}
	return l
}
