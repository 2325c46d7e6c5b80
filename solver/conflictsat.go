package solver

import (
	"slices"

	"stweaver/ir"
	"stweaver/solver/sat"
)

// bySAT asks which rules contradict each other on some of the buffers.
func bySAT(p *ir.Problem, rules []ir.RuleID, most int, seconds float64) *Conflict {
	b := newRuledBuilder(p, rules)
	b.choose(most)
	if len(b.ids) == 0 {
		return nil
	}
	b.build()
	verdict, core, minimal, _ := b.out.Refute(sat.Budget{Seconds: seconds})
	if verdict != sat.Infeasible {
		return nil
	}
	out := &Conflict{Minimal: minimal, Buffers: b.ids}
	for _, k := range core {
		out.Rules = append(out.Rules, rules[k])
	}
	out.thin(p, sat.Budget{Seconds: seconds})
	out.Why = "no addresses obey"
	return out
}

// thin leaves out buffers that the contradiction does not need: halves first, single ones at last. It ends at the
// second question that stays open.
func (x *Conflict) thin(p *ir.Problem, budget sat.Budget) {
	defer func() { slices.Sort(x.Buffers) }()
	open := 0
	for size := len(x.Buffers) / 2; size > 0; size /= 2 {
		for from := 0; from < len(x.Buffers); {
			less := slices.Delete(slices.Clone(x.Buffers), from, min(from+size, len(x.Buffers)))
			verdict := sat.Feasible // nothing is left
			if len(less) > 0 {
				b := newRuledBuilder(p, x.Rules)
				b.add(less, len(less))
				b.build()
				verdict = b.out.Decide(budget)
			}
			switch verdict {
			case sat.Infeasible:
				x.Buffers = less
				continue
			case sat.Unknown:
				if open++; open == 2 {
					return
				}
			}
			from += size
		}
	}
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

func newRuledBuilder(p *ir.Problem, rules []ir.RuleID) *ruledBuilder {
	c := p.Constraints.Only(func(r ir.RuleID) bool { return slices.Contains(rules, r) })
	return &ruledBuilder{p: p, c: c, rules: rules, at: slices.Repeat([]int32{-1}, len(p.Buffers))}
}

// add takes buffers in, up to most in all.
func (b *ruledBuilder) add(ids []ir.BufferID, most int) {
	for _, id := range ids {
		if b.at[id] < 0 && len(b.ids) < most {
			b.at[id] = int32(len(b.ids))
			b.ids = append(b.ids, id)
		}
	}
}

// choose picks buffers: all, if they are few, else those that rules bind, the tightest bound first.
func (b *ruledBuilder) choose(most int) {
	p, c := b.p, b.c
	add := func(ids []ir.BufferID) { b.add(ids, most) }
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
