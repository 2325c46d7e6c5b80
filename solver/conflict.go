package solver

import (
	"cmp"
	"fmt"
	"slices"

	"stweaver/ir"
	"stweaver/solver/sat"
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
	if c.Capacity > 0 {
		if live := s.all(); live > c.Capacity {
			return fmt.Sprintf("%d bytes are live or held at once, the capacity is %d", live, c.Capacity)
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

// bySAT asks which rules contradict each other on some of the buffers.
func bySAT(p *ir.Problem, rules []ir.RuleID, most int, seconds float64) *Conflict {
	b := &ruledBuilder{p: p, c: p.Constraints, rules: rules}
	b.choose(most)
	if len(b.ids) == 0 {
		return nil
	}
	b.build()
	verdict, core, minimal, _ := b.out.Refute(sat.Budget{Seconds: seconds})
	if verdict != sat.Infeasible {
		return nil
	}
	out := &Conflict{Minimal: minimal, Why: fmt.Sprintf("no addresses of the %d buffers that were looked at obey all of them", len(b.ids))}
	for _, k := range core {
		out.Rules = append(out.Rules, rules[k])
	}
	return out
}

// ruledBuilder puts constraints in the terms of sat.Ruled.
type ruledBuilder struct {
	p     *ir.Problem
	c     *ir.Constraints
	rules []ir.RuleID
	ids   []ir.BufferID // by number in out
	at    []int32       // by buffer: its number, -1
	out   sat.Ruled
}

// choose picks buffers: all, if they are few, else those that rules bind, the tightest bound first.
func (b *ruledBuilder) choose(most int) {
	p, c := b.p, b.c
	b.at = slices.Repeat([]int32{-1}, len(p.Buffers))
	add := func(ids []ir.BufferID) {
		for _, id := range ids {
			if b.at[id] < 0 && len(b.ids) < most {
				b.at[id] = int32(len(b.ids))
				b.ids = append(b.ids, id)
			}
		}
	}
	for _, at := range []bool{true, false} {
		for _, x := range c.Pins {
			if x.At() == at {
				add(x.Buffers)
			}
		}
	}
	for _, x := range c.Together {
		add(x.Buffers)
	}
	for _, x := range c.Regions {
		add(x.Buffers)
	}
	for _, x := range c.Apart {
		for _, s := range x.Sets {
			add(s)
		}
	}
	for _, x := range c.Keeps {
		add(x.Buffers)
	}
	for _, x := range c.Guards {
		add(x.Buffers)
	}
	if len(p.Buffers) <= most/4 {
		for i := range p.Buffers {
			add([]ir.BufferID{ir.BufferID(i)})
		}
	}
}

func (b *ruledBuilder) rule(r ir.RuleID) int {
	k, _ := slices.BinarySearch(b.rules, r)
	return k
}

// each calls f for the chosen ones of ids.
func (b *ruledBuilder) each(ids []ir.BufferID, f func(n int32, id ir.BufferID)) {
	for _, id := range ids {
		if n := b.at[id]; n >= 0 {
			f(n, id)
		}
	}
}

func (b *ruledBuilder) build() {
	p, c := b.p, b.c
	b.out.Rules = len(b.rules)
	for n, id := range b.ids {
		b.out.Sizes = append(b.out.Sizes, int64(p.Buffers[id].Size))
		b.out.Aligns = append(b.out.Aligns, sat.RuledAlign{A: int32(n), Mod: int64(ir.Align), Rule: sat.Always})
	}
	b.orders()
	bound := func(n int32, at int64, upper bool, r ir.RuleID) {
		b.out.Bounds = append(b.out.Bounds, sat.RuledBound{A: n, At: at, Upper: upper, Rule: b.rule(r)})
	}
	for i := range c.Pins {
		x := &c.Pins[i]
		at := int64(x.Lo)
		for _, id := range x.Buffers {
			size := int64(p.Buffers[id].Size)
			lo, hi := at, at
			if !x.At() {
				lo, hi = int64(x.Lo), int64(x.Hi)-size
			}
			at += size
			b.each([]ir.BufferID{id}, func(n int32, _ ir.BufferID) {
				bound(n, lo, false, x.Rule)
				bound(n, hi, true, x.Rule)
			})
		}
	}
	for _, x := range c.Together {
		for k := 1; k < len(x.Buffers); k++ {
			if a, z := b.at[x.Buffers[k-1]], b.at[x.Buffers[k]]; a >= 0 && z >= 0 {
				size, r := int64(p.Buffers[x.Buffers[k-1]].Size), b.rule(x.Rule)
				b.out.Gaps = append(b.out.Gaps, sat.Gap{A: a, B: z, D: size, Rule: r}, sat.Gap{A: z, B: a, D: -size, Rule: r})
			}
		}
	}
	for i := range c.Regions {
		b.region(&c.Regions[i])
	}
	for _, x := range c.Alignments {
		b.each(x.Buffers, func(n int32, _ ir.BufferID) {
			b.out.Aligns = append(b.out.Aligns, sat.RuledAlign{A: n, Mod: int64(x.Bytes), Rule: b.rule(x.Rule)})
		})
	}
	if c.Capacity > 0 {
		b.each(b.ids, func(n int32, id ir.BufferID) {
			bound(n, int64(c.Capacity-p.Buffers[id].Size), true, c.CapacityRule)
		})
	}
}

// region keeps others out, by stream where streams lie apart, and bounds the distance of its members.
func (b *ruledBuilder) region(x *ir.Region) {
	parts := [][]ir.BufferID{x.Buffers}
	if !b.p.Sharing.On {
		parts = byStream(b.p, x.Buffers)
	}
	r := b.rule(x.Rule)
	whole := 0
	for _, part := range parts {
		if len(part) > 0 {
			whole++
		}
	}
	inside := make(map[ir.BufferID]bool)
	for _, id := range x.Buffers {
		inside[id] = true
	}
	for _, part := range parts {
		var members []int32
		b.each(part, func(n int32, _ ir.BufferID) { members = append(members, n) })
		if len(members) == 0 {
			continue
		}
		for n, id := range b.ids {
			if !inside[id] {
				b.out.Hulls = append(b.out.Hulls, sat.Hull{Outside: int32(n), Members: members, Rule: r})
			}
		}
		if x.Size == 0 || whole > 1 {
			continue
		}
		for _, i := range members {
			for _, k := range members {
				if i != k { // the end of k is at most Size above the begin of i
					b.out.Gaps = append(b.out.Gaps, sat.Gap{A: k, B: i, D: b.out.Sizes[k] - int64(x.Size), Rule: r})
				}
			}
		}
	}
}

// orders lists which buffers must share no address, and by which rules.
func (b *ruledBuilder) orders() {
	p, c := b.p, b.c
	type guarded struct {
		rule int
		held [][2]ir.Tick
	}
	guards := make([][]guarded, len(b.ids))
	lives := make([][][2]ir.Tick, len(b.ids))
	for n, id := range b.ids {
		lives[n] = held(p, &p.Buffers[id], 0)
	}
	for _, g := range c.Guards {
		b.each(g.Buffers, func(n int32, id ir.BufferID) {
			guards[n] = append(guards[n], guarded{b.rule(g.Rule), held(p, &p.Buffers[id], g.Ticks)})
		})
	}
	order := func(i, k int, r, q int) {
		b.out.Orders = append(b.out.Orders, sat.Order{A: int32(i), B: int32(k), Rules: [2]int{r, q}})
	}
	for i := range b.ids {
		for k := range i {
			if x, y := &p.Buffers[b.ids[i]], &p.Buffers[b.ids[k]]; meet(lives[i], lives[k]) || !p.Sharing.On && x.Stream != y.Stream {
				order(i, k, sat.Always, sat.Always)
				continue
			}
			for _, g := range guards[i] {
				if meet(g.held, lives[k]) {
					order(i, k, g.rule, sat.Always)
				}
				for _, h := range guards[k] {
					if meet(g.held, h.held) {
						order(i, k, g.rule, h.rule)
					}
				}
			}
			for _, h := range guards[k] {
				if meet(h.held, lives[i]) {
					order(i, k, h.rule, sat.Always)
				}
			}
		}
	}
	for _, x := range c.Keeps {
		r := b.rule(x.Rule)
		b.each(x.Buffers, func(n int32, _ ir.BufferID) {
			for k := range b.ids {
				if k != int(n) {
					order(int(n), k, r, sat.Always)
				}
			}
		})
	}
	for _, x := range c.Apart {
		r := b.rule(x.Rule)
		for s := range x.Sets {
			for q := range s {
				b.each(x.Sets[s], func(n int32, _ ir.BufferID) {
					b.each(x.Sets[q], func(k int32, _ ir.BufferID) { order(int(n), int(k), r, sat.Always) })
				})
			}
		}
	}
}
