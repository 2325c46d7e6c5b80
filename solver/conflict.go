package solver

import (
	"cmp"
	"fmt"
	"slices"

	"stweaver/ir"
)

// Which rules contradict each other.
//
// A set of rules is refuted by sums, or by SAT on the buffers that the rules bind. Both look at some of the
// buffers and some of what is asked of them only, so a refutation holds for all; nothing found is no proof of the
// contrary. Sums come first, because SAT cannot count:
//
//	region, window    more is alive at once among its buffers than it may hold
//	capacity          more is alive at once, kept places, guards and regions included
//	piece             one buffer is larger
//
// Then rules are left out one after the other, from the last, as long as the rest is refuted: what remains
// contradicts itself, and none of it can be left out of the refutation.

// Conflict is rules that no layout obeys together.
type Conflict struct {
	Rules []ir.RuleID // ascending
	Why   string
	// Buffers are those that the refutation needs, ascending; nil where it counts all that the rules bind.
	Buffers []ir.BufferID
	// Minimal: without any one of them the refutation fails. False where the budget ended the thinning out.
	Minimal bool
}

// ConflictOptions bound FindConflict. The zero value is the default.
type ConflictOptions struct {
	Buffers int     // given to SAT at most; 0: 240
	Seconds float64 // of SAT, at most; 0: 5
}

// FindConflict looks for rules among p.Constraints that contradict each other; nil if it finds none. What SAT adds
// is limited by time, so nil may mean that the machine was slow; what is found holds.
func FindConflict(p *ir.Problem, o ConflictOptions) *Conflict {
	rules := p.Constraints.RuleIDs()
	refuted := func(rules []ir.RuleID) string {
		return sums(p, p.Constraints.Only(func(r ir.RuleID) bool { return slices.Contains(rules, r) }))
	}
	if why := refuted(rules); why != "" {
		for k := len(rules) - 1; k >= 0; k-- {
			less := slices.Delete(slices.Clone(rules), k, k+1)
			if w := refuted(less); w != "" {
				rules, why = less, w
			}
		}
		return &Conflict{Rules: rules, Why: why, Minimal: true}
	}
	return bySAT(p, rules, cmp.Or(o.Buffers, 240), cmp.Or(o.Seconds, 5))
}

// sums refutes constraints by what is alive at once; "" if it does not.
func sums(p *ir.Problem, c *ir.Constraints) string {
	s := newSummed(p, c)
	for i := range c.Pins {
		x := &c.Pins[i]
		if x.At() {
			continue
		}
		if live := s.peak(x.Buffers); live > ir.Bytes(x.Hi-x.Lo) {
			return fmt.Sprintf("%d bytes of the pinned buffers are live at once, their window has %d", live, x.Hi-x.Lo)
		}
	}
	for i := range c.Regions {
		x := &c.Regions[i]
		for _, id := range x.Buffers {
			if size := p.Buffers[id].Size; x.Piece > 0 && size > x.Piece {
				return fmt.Sprintf("buffer %d of the region has %d bytes, a piece %d", id, size, x.Piece)
			}
		}
		if live := s.region(x.Buffers); x.Size > 0 && live > x.Size {
			return fmt.Sprintf("%d bytes of the region's buffers are live at once, its size is %d", live, x.Size)
		}
	}
	if c.Capacity == 0 {
		return ""
	}
	if live := s.all(); live > c.Capacity {
		return fmt.Sprintf("%d bytes are live or held at once, the capacity is %d", live, c.Capacity)
	}
	for _, x := range c.Apart {
		sum := ir.Bytes(0)
		for _, set := range x.Sets {
			sum += s.peak(set)
		}
		if sum > c.Capacity {
			return fmt.Sprintf("what is to lie apart takes %d bytes, the capacity is %d", sum, c.Capacity)
		}
	}
	return ""
}

// summed is the lives of a problem with what guards and keeps add.
type summed struct {
	p     *ir.Problem
	c     *ir.Constraints
	guard []ir.Tick
	keep  []bool
}

func newSummed(p *ir.Problem, c *ir.Constraints) *summed {
	s := &summed{p, c, make([]ir.Tick, len(p.Buffers)), make([]bool, len(p.Buffers))}
	for _, g := range c.Guards {
		for _, id := range g.Buffers {
			s.guard[id] = max(s.guard[id], g.Ticks)
		}
	}
	for _, k := range c.Keeps {
		for _, id := range k.Buffers {
			s.keep[id] = true
		}
	}
	return s
}

// peak is the most bytes of some buffers that are live or held at once.
func (s *summed) peak(ids []ir.BufferID) ir.Bytes {
	load := make([]ir.Bytes, s.p.L1+1)
	sum := ir.Bytes(0) // of what is always there
	for _, id := range ids {
		b := &s.p.Buffers[id]
		if s.keep[id] {
			sum += b.Size
			continue
		}
		for _, r := range held(s.p, b, s.guard[id]) {
			load[r[0]] += b.Size
			load[r[1]] -= b.Size
		}
	}
	var live, peak ir.Bytes
	for _, d := range load {
		live += d
		peak = max(peak, live)
	}
	return sum + peak
}

// region is the least that a region of some buffers takes: streams that lie apart have their own parts.
func (s *summed) region(ids []ir.BufferID) (sum ir.Bytes) {
	if s.p.Sharing.On {
		return s.peak(ids)
	}
	for _, part := range byStream(s.p, ids) {
		sum += s.peak(part)
	}
	return sum
}

// all is the least that everything takes.
func (s *summed) all() (sum ir.Bytes) {
	inside := make([]bool, len(s.p.Buffers))
	for _, r := range s.c.Regions {
		own := r.Buffers
		if slices.ContainsFunc(own, func(id ir.BufferID) bool { return inside[id] }) {
			continue // counted with another
		}
		for _, id := range own {
			inside[id] = true
		}
		sum += s.region(own)
	}
	var rest []ir.BufferID
	for i := range s.p.Buffers {
		if !inside[i] {
			rest = append(rest, ir.BufferID(i))
		}
	}
	return sum + s.region(rest)
}

func byStream(p *ir.Problem, ids []ir.BufferID) [][]ir.BufferID {
	out := make([][]ir.BufferID, len(p.Streams))
	for _, id := range ids {
		s := p.Buffers[id].Stream
		out[s] = append(out[s], id)
	}
	return out
}

// held lists when b is alive or was less than n ticks ago: half-open ranges apart from each other.
func held(p *ir.Problem, b *ir.Buffer, n ir.Tick) [][2]ir.Tick {
	end, alive := b.End, [][2]ir.Tick{{b.Start, b.End}}
	if b.HasHead() {
		end, alive = b.HeadEnd, append(alive, [2]ir.Tick{b.HeadStart, b.HeadEnd})
	} else if b.End == p.L1 && (b.Start < p.L0 || p.L0 == p.L1) {
		n = 0 // for ever
	}
	for turn := p.L1 - p.L0; n > 0; {
		to := min(end+n, p.L1)
		if to > end {
			alive = append(alive, [2]ir.Tick{end, to})
		}
		if n -= to - end; turn == 0 || len(alive) > 4 { // more than once round
			break
		}
		end = p.L0
	}
	slices.SortFunc(alive, func(a, b [2]ir.Tick) int { return cmp.Compare(a[0], b[0]) })
	out := alive[:1]
	for _, r := range alive[1:] {
		if last := &out[len(out)-1]; r[0] <= last[1] {
			last[1] = max(last[1], r[1])
		} else {
			out = append(out, r)
		}
	}
	return out
}

func meet(a, b [][2]ir.Tick) bool {
	for _, x := range a {
		for _, y := range b {
			if x[0] < y[1] && y[0] < x[1] {
				return true
			}
		}
	}
	return false
}
