package ir

import (
	"cmp"
	"fmt"
	"slices"
)

// What rules ask for, judged by addresses and lives alone: R1 to R8 of doc.go. Nothing here is shared with the
// packers. Lists are walked as they are; only keep, apart and guard, which speak of pairs, sort or sweep.

// judge collects what is wrong.
type judge struct {
	p   *Problem
	l   *Layout
	out []Violation
	max int
}

func (j *judge) full() bool { return len(j.out) >= j.max }

func (j *judge) add(rule string, asked RuleID, a, b BufferID, format string, args ...any) {
	if !j.full() {
		j.out = append(j.out, Violation{rule, a, b, fmt.Sprintf(format, args...), asked})
	}
}

func (j *judge) from(id BufferID) Offset { return j.l.Offsets[id] }
func (j *judge) to(id BufferID) Offset   { return j.l.Offsets[id] + Offset(j.p.Buffers[id].Size) }

// place prints where a buffer is.
func (j *judge) place(id BufferID) string {
	return fmt.Sprintf("buffer %d at [%d, %d)", id, j.from(id), j.to(id))
}

// verifyConstraints judges l, every offset of which is valid, by p.Constraints; limit is above 0.
func verifyConstraints(p *Problem, l *Layout, limit int) []Violation {
	c := p.Constraints
	if c.Empty() || limit <= 0 {
		return nil
	}
	j := &judge{p: p, l: l, max: limit}
	if c.Capacity > 0 && l.Peak > c.Capacity {
		j.add("R8", c.CapacityRule, NoBuffer, NoBuffer, "peak %d exceeds the capacity of %d", l.Peak, c.Capacity)
	}
	for i := range c.Pins {
		j.pin(&c.Pins[i])
	}
	for i := range c.Regions {
		j.region(&c.Regions[i])
	}
	for i := range c.Together {
		x := &c.Together[i]
		for k := 1; k < len(x.Buffers); k++ {
			if a, b := x.Buffers[k-1], x.Buffers[k]; j.to(a) != j.from(b) {
				j.add("R3", x.Rule, a, b, "%s does not begin where %s ends", j.place(b), j.place(a))
			}
		}
	}
	for i := range c.Apart {
		j.apart(&c.Apart[i])
	}
	if len(c.Keeps) > 0 {
		j.keeps(c.Keeps)
	}
	if len(c.Guards) > 0 {
		j.guards(c.Guards)
	}
	for i := range c.Alignments {
		x := &c.Alignments[i]
		for _, id := range x.Buffers {
			if Bytes(j.from(id))%x.Bytes != 0 {
				j.add("R7", x.Rule, id, NoBuffer, "%s is not at a multiple of %d", j.place(id), x.Bytes)
			}
		}
	}
	return j.out
}

func (j *judge) pin(x *Pin) {
	at := x.Lo
	for _, id := range x.Buffers {
		switch {
		case x.At() && j.from(id) != at:
			j.add("R1", x.Rule, id, NoBuffer, "%s is pinned to %d", j.place(id), at)
		case !x.At() && (j.from(id) < x.Lo || j.to(id) > x.Hi):
			j.add("R1", x.Rule, id, NoBuffer, "%s is pinned inside [%d, %d)", j.place(id), x.Lo, x.Hi)
		}
		at += Offset(j.p.Buffers[id].Size)
	}
}

// parts cuts the buffers of a region: by stream where streams are apart.
func (x *Region) parts(p *Problem) (out [][]BufferID) {
	if p.Sharing.On {
		return [][]BufferID{x.Buffers}
	}
	for s := range p.Streams {
		if own := pick(x.Buffers, func(id *BufferID) bool { return p.Buffers[*id].Stream == StreamID(s) }); len(own) > 0 {
			out = append(out, own)
		}
	}
	return out
}

// hull is from the lowest address of some buffers to the highest.
func (j *judge) hull(ids []BufferID) (lo, hi Offset) {
	lo, hi = j.from(ids[0]), j.to(ids[0])
	for _, id := range ids {
		lo, hi = min(lo, j.from(id)), max(hi, j.to(id))
	}
	return lo, hi
}

func (j *judge) region(x *Region) {
	inside := make([]bool, len(j.p.Buffers))
	for _, id := range x.Buffers {
		inside[id] = true
	}
	var sum Bytes
	for _, own := range x.parts(j.p) {
		lo, hi := j.hull(own)
		sum += Bytes(hi - lo)
		for i := range j.p.Buffers {
			if id := BufferID(i); !inside[id] && j.from(id) < hi && lo < j.to(id) {
				j.add("R2", x.Rule, own[0], id, "%s lies in the region [%d, %d), which is not its own", j.place(id), lo, hi)
			}
		}
		if x.Piece == 0 {
			continue
		}
		for _, id := range own {
			if from, last := Bytes(j.from(id)-lo)/x.Piece, Bytes(j.to(id)-lo-1)/x.Piece; from != last {
				j.add("R2", x.Rule, id, NoBuffer, "%s lies across pieces %d to %d of %d bytes of the region that begins at %d", j.place(id), from, last, x.Piece, lo)
			}
		}
	}
	if x.Size > 0 && sum > x.Size {
		j.add("R2", x.Rule, NoBuffer, NoBuffer, "the region takes %d bytes, the most is %d", sum, x.Size)
	}
}

// apart walks the members upwards. What is met below the highest end so far meets the buffer of that end; where
// that is of the same set, the highest end of the other sets counts.
func (j *judge) apart(x *Apart) {
	type member struct {
		id  BufferID
		set int
	}
	var all []member
	for s, set := range x.Sets {
		for _, id := range set {
			all = append(all, member{id, s})
		}
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Or(cmp.Compare(j.from(a.id), j.from(b.id)), cmp.Compare(a.id, b.id)) })
	top, next := member{set: -1}, member{set: -1} // the highest end, and the highest of the sets other than top's
	for _, m := range all {
		rival := top
		if top.set == m.set {
			rival = next
		}
		if rival.set >= 0 && j.to(rival.id) > j.from(m.id) {
			j.add("R4", x.Rule, rival.id, m.id, "%s and %s share addresses, and are to lie apart", j.place(rival.id), j.place(m.id))
		}
		switch {
		case top.set < 0 || j.to(m.id) >= j.to(top.id):
			if top.set != m.set {
				next = top
			}
			top = m
		case m.set != top.set && (next.set < 0 || j.to(m.id) > j.to(next.id)):
			next = m
		}
	}
}

// keeps walks all buffers upwards: whatever begins below the highest end so far meets the buffer of that end, and
// neither may be kept.
func (j *judge) keeps(keeps []Keep) {
	asked := make([]*Keep, len(j.p.Buffers))
	for i := range keeps {
		for _, id := range keeps[i].Buffers {
			asked[id] = &keeps[i]
		}
	}
	order := make([]BufferID, len(j.p.Buffers))
	for i := range order {
		order[i] = BufferID(i)
	}
	slices.SortFunc(order, func(a, b BufferID) int { return cmp.Or(cmp.Compare(j.from(a), j.from(b)), cmp.Compare(a, b)) })
	for k, top := 1, order[0]; k < len(order); k++ {
		id := order[k]
		if j.to(top) > j.from(id) {
			if x := cmp.Or(asked[top], asked[id]); x != nil {
				j.add("R5", x.Rule, top, id, "%s and %s share addresses, and one is to keep its own", j.place(top), j.place(id))
			}
		}
		if j.to(id) > j.to(top) {
			top = id
		}
	}
}

// guards sweeps again with the ends of the guarded moved. What meets without that is V2's.
func (j *judge) guards(guards []Guard) {
	longest := make([]*Guard, len(j.p.Buffers))
	for i := range guards {
		for _, id := range guards[i].Buffers {
			if g := &longest[id]; *g == nil || (*g).Ticks < guards[i].Ticks {
				*g = &guards[i]
			}
		}
	}
	var spans []span
	for i := range j.p.Buffers {
		id := BufferID(i)
		n := Tick(0)
		if longest[i] != nil {
			n = longest[i].Ticks
		}
		for _, h := range j.p.held(&j.p.Buffers[i], n) {
			spans = append(spans, span{id, h[0], h[1], j.from(id), j.to(id)})
		}
	}
	for _, c := range overlaps(spans, j.max) {
		a, b := c[0].id, c[1].id
		if j.p.Buffers[a].Overlaps(&j.p.Buffers[b]) {
			continue
		}
		x := longest[a]
		if x == nil {
			x = longest[b]
		}
		j.add("R6", x.Rule, a, b, "%s and %s follow each other at once, and a place is to be held %d ticks longer", j.place(a), j.place(b), x.Ticks)
	}
}

// held lists the ticks during which b is alive or was less than n ticks ago: half-open ranges, ascending and
// apart from each other.
//
//	prologue |           loop           |
//	    [b-+-++n]   [b-------++n]   [b--|        past the end of the loop, on from its beginning
//	         |+n]                       |
func (p *Problem) held(b *Buffer, n Tick) [][2]Tick {
	out := [][2]Tick{{b.Start, b.End}}
	end := b.End // of the life
	switch {
	case b.HasHead():
		out = append(out, [2]Tick{b.HeadStart, b.HeadEnd})
		end = b.HeadEnd
	case b.End == p.L1 && (b.Start < p.L0 || p.L0 == p.L1):
		return out // it lives for ever
	}
	if n <= p.L1-end {
		out = append(out, [2]Tick{end, end + n})
	} else {
		out = append(out, [2]Tick{end, p.L1})
		if p.L0 < p.L1 {
			out = append(out, [2]Tick{p.L0, p.L0 + min(n-(p.L1-end), p.L1-p.L0)})
		}
	}
	slices.SortFunc(out, func(a, b [2]Tick) int { return cmp.Compare(a[0], b[0]) })
	merged := out[:1]
	for _, r := range out[1:] {
		if last := &merged[len(merged)-1]; r[0] <= last[1] {
			last[1] = max(last[1], r[1])
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

// VerifyKept judges whether plan, which has layout l of p, tells the runtime what it must not lend: R9. At most 20
// violations are returned.
func VerifyKept(p *Problem, l *Layout, plan *Plan) []Violation {
	if !p.Constraints.Binds() {
		return nil
	}
	j := &judge{p: p, l: l, max: maxViolations}
	var kept [][2]Offset // ascending, apart from each other
	slots := pick(plan.Slots, func(s *Slot) bool { return s.Flags&SlotKept != 0 })
	slices.SortFunc(slots, func(a, b Slot) int { return cmp.Compare(a.Lo, b.Lo) })
	for _, s := range slots {
		if n := len(kept); n > 0 && Offset(s.Lo) <= kept[n-1][1] {
			kept[n-1][1] = max(kept[n-1][1], Offset(s.Lo+s.Hi))
		} else {
			kept = append(kept, [2]Offset{Offset(s.Lo), Offset(s.Lo + s.Hi)})
		}
	}
	check := func(rule RuleID, id BufferID, lo, hi Offset) {
		k, found := slices.BinarySearchFunc(kept, lo, func(r [2]Offset, lo Offset) int { return cmp.Compare(r[0], lo) })
		if !found {
			k--
		}
		if k < 0 || kept[k][1] < hi {
			j.add("R9", rule, id, NoBuffer, "the plan does not keep [%d, %d) from what is not planned", lo, hi)
		}
	}
	for _, x := range p.Constraints.Keeps {
		for _, id := range x.Buffers {
			check(x.Rule, id, j.from(id), j.to(id))
		}
	}
	for i := range p.Constraints.Regions {
		x := &p.Constraints.Regions[i]
		for _, own := range x.parts(p) {
			lo, hi := j.hull(own)
			check(x.Rule, own[0], lo, hi)
		}
	}
	return j.out
}
