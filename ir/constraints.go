package ir

import (
	"math"
	"slices"
)

// RuleID numbers the rules of a rules file in the order in which they are written, from 0. What comes
// from elsewhere (the command line) has NoRule.
type RuleID uint32

// NoRule is the rule of a constraint that no rule of a file asks for.
const NoRule RuleID = math.MaxUint32

// Constraints are what rules mean for the buffers of one Problem: selections are resolved to buffers, and each
// constraint says which rule it is from. Several may come from one rule: the copies of an unrolled loop
// each have theirs. The zero value asks for nothing. Layouts are judged by them in Verify (R1 to R8 of doc.go).
//
//	address
//	   |   +-------------+ region: its hull is nobody else's
//	   |   | r1 |  | r2  |
//	   |   +-------------+
//	   |   |t3|                together: each begins where the one before ends
//	   |   |t2  |
//	   |   |t1|
//	   |        [ keep ].......... at no time anybody else's
//	   |   [ pin ]              at an offset, or inside a window
//	   +----------------------------> time
type Constraints struct {
	// Capacity is the most that an arena may take, in bytes; 0: no limit. CapacityRule asks for it.
	Capacity     Bytes
	CapacityRule RuleID

	Pins       []Pin
	Regions    []Region
	Together   []Together
	Apart      []Apart
	Keeps      []Keep
	Guards     []Guard
	Alignments []Alignment
}

// Pin binds buffers to addresses. Where Hi is above Lo each buffer lies inside [Lo, Hi), bytes. Where
// Hi is 0 the first begins at Lo and each other one where the one before ends: one at an address,
// several in their order from it.
type Pin struct {
	Rule    RuleID
	Lo, Hi  Offset
	Buffers []BufferID
}

// At reports whether the buffers are bound to one address.
func (p *Pin) At() bool { return p.Hi == 0 }

// Region is a part of the arena that its buffers have to themselves, at all times: nothing else, and no guest
// of the runtime, lies between the lowest and the highest of their addresses. Where streams are apart
// each stream has its own part of the region.
type Region struct {
	Rule RuleID
	// Size is the most the region may take, in bytes, all streams' parts together; 0: no limit.
	Size Bytes
	// Piece, if not 0: the memory is really several pieces of that many bytes, counted from the lowest address
	// of a part, and no buffer lies across their borders.
	Piece   Bytes
	Buffers []BufferID
}

// Together wants buffers to lie without gaps in their order: each begins where the one before ends.
type Together struct {
	Rule    RuleID
	Buffers []BufferID
}

// Apart wants the members of different sets to share no address, whether they are alive together or not.
// The sets of one Apart have no member in common.
type Apart struct {
	Rule RuleID
	Sets [][]BufferID
}

// Keep wants that nobody else ever uses the addresses of a buffer: no other buffer, kept or not, and no
// guest of the runtime.
type Keep struct {
	Rule    RuleID
	Buffers []BufferID
}

// Guard holds the places of buffers Ticks plan ticks (requests) longer than they live: the next owner
// starts that much later at the earliest. Past the end of the loop it goes on at its beginning. Of several
// guards on one buffer the longest counts.
type Guard struct {
	Rule    RuleID
	Ticks   Tick
	Buffers []BufferID
}

// Alignment wants offsets that are multiples of Bytes, a power of two not below Align. Of several on one
// buffer the largest counts.
type Alignment struct {
	Rule    RuleID
	Bytes   Bytes
	Buffers []BufferID
}

// Empty reports whether nothing is asked for. It is true of nil.
func (c *Constraints) Empty() bool {
	return c == nil || c.Capacity == 0 && len(c.Pins)+len(c.Regions)+len(c.Together)+len(c.Apart)+len(c.Keeps)+
		len(c.Guards)+len(c.Alignments) == 0
}

// Only returns the constraints of the rules that keep accepts. The lists of buffers are shared.
func (c *Constraints) Only(keep func(RuleID) bool) *Constraints {
	out := &Constraints{}
	if c == nil {
		return out
	}
	if c.Capacity > 0 && keep(c.CapacityRule) {
		out.Capacity, out.CapacityRule = c.Capacity, c.CapacityRule
	}
	out.Pins = pick(c.Pins, func(x *Pin) bool { return keep(x.Rule) })
	out.Regions = pick(c.Regions, func(x *Region) bool { return keep(x.Rule) })
	out.Together = pick(c.Together, func(x *Together) bool { return keep(x.Rule) })
	out.Apart = pick(c.Apart, func(x *Apart) bool { return keep(x.Rule) })
	out.Keeps = pick(c.Keeps, func(x *Keep) bool { return keep(x.Rule) })
	out.Guards = pick(c.Guards, func(x *Guard) bool { return keep(x.Rule) })
	out.Alignments = pick(c.Alignments, func(x *Alignment) bool { return keep(x.Rule) })
	return out
}

func pick[T any](list []T, keep func(*T) bool) (out []T) {
	for i := range list {
		if keep(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// RuleIDs lists the rules that ask for something, ascending, each once.
func (c *Constraints) RuleIDs() []RuleID {
	var ids []RuleID
	c.Only(func(r RuleID) bool { ids = append(ids, r); return false })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// check reports the first broken C invariant of the constraints of p.
func (c *Constraints) check(p *Problem) error {
	if c == nil {
		return nil
	}
	seen := make([]int, len(p.Buffers)) // by buffer: the number of the list it was last in
	lists := 0
	list := func(what string, i, least int, ids []BufferID) error {
		lists++
		if len(ids) < least {
			return broken("C1", "%s %d has %d buffers, the least is %d", what, i, len(ids), least)
		}
		for _, id := range ids {
			if int(id) >= len(p.Buffers) {
				return broken("C1", "%s %d: buffer %d of %d", what, i, id, len(p.Buffers))
			}
			if seen[id] == lists {
				return broken("C1", "%s %d has buffer %d twice", what, i, id)
			}
			seen[id] = lists
		}
		return nil
	}
	if c.Capacity < 0 {
		return broken("C2", "capacity %d", c.Capacity)
	}
	for i := range c.Pins {
		x := &c.Pins[i]
		if x.Lo < 0 || Bytes(x.Lo) > MaxSize || Bytes(x.Hi) > MaxSize || !x.At() && x.Hi <= x.Lo || x.At() && Bytes(x.Lo)%Align != 0 {
			return broken("C2", "pin %d to [%d, %d)", i, x.Lo, x.Hi)
		}
		if err := list("pin", i, 1, x.Buffers); err != nil {
			return err
		}
	}
	for i := range c.Regions {
		x := &c.Regions[i]
		if x.Size < 0 || x.Piece < 0 {
			return broken("C2", "region %d of at most %d bytes in pieces of %d", i, x.Size, x.Piece)
		}
		if err := list("region", i, 1, x.Buffers); err != nil {
			return err
		}
	}
	for i := range c.Together {
		if err := list("together", i, 1, c.Together[i].Buffers); err != nil {
			return err
		}
	}
	for i := range c.Apart {
		var all []BufferID
		for _, s := range c.Apart[i].Sets {
			all = append(all, s...)
		}
		if err := list("apart", i, 1, all); err != nil {
			return err
		}
	}
	for i := range c.Keeps {
		if err := list("keep", i, 1, c.Keeps[i].Buffers); err != nil {
			return err
		}
	}
	for i := range c.Guards {
		if c.Guards[i].Ticks <= 0 {
			return broken("C2", "guard %d of %d ticks", i, c.Guards[i].Ticks)
		}
		if err := list("guard", i, 1, c.Guards[i].Buffers); err != nil {
			return err
		}
	}
	for i := range c.Alignments {
		if n := c.Alignments[i].Bytes; n < Align || n > MaxSize || n&(n-1) != 0 {
			return broken("C2", "alignment %d to %d bytes", i, n)
		}
		if err := list("alignment", i, 1, c.Alignments[i].Buffers); err != nil {
			return err
		}
	}
	return nil
}

// Binds reports whether c asks more of a layout than a capacity. It is false for nil.
func (c *Constraints) Binds() bool {
	if c == nil {
		return false
	}
	bare := *c
	bare.Capacity = 0
	return !bare.Empty()
}

// Within returns what c says of buffers ids of n alone, which are numbered anew in that order, without the
// capacity. cut lists the rules that tie one of them to another buffer: they cannot be said.
func (c *Constraints) Within(ids []BufferID, n int) (own *Constraints, cut []RuleID) {
	number := slices.Repeat([]BufferID{NoBuffer}, n)
	for k, id := range ids {
		number[id] = BufferID(k)
	}
	some := func(list []BufferID) (out []BufferID) {
		for _, id := range list {
			if number[id] != NoBuffer {
				out = append(out, number[id])
			}
		}
		return out
	}
	own = &Constraints{}
	for _, x := range c.Pins {
		all := len(x.Buffers)
		if x.Buffers = some(x.Buffers); len(x.Buffers) > 0 {
			own.Pins = append(own.Pins, x)
			if x.At() && len(x.Buffers) < all {
				cut = append(cut, x.Rule)
			}
		}
	}
	for _, x := range c.Regions {
		if x.Buffers = some(x.Buffers); len(x.Buffers) > 0 {
			own.Regions = append(own.Regions, x)
		}
	}
	for _, x := range c.Together {
		all := len(x.Buffers)
		if x.Buffers = some(x.Buffers); len(x.Buffers) > 0 {
			own.Together = append(own.Together, x)
			if len(x.Buffers) < all {
				cut = append(cut, x.Rule)
			}
		}
	}
	for _, x := range c.Apart {
		var sets [][]BufferID
		for _, s := range x.Sets {
			if s = some(s); len(s) > 0 {
				sets = append(sets, s)
			}
		}
		if x.Sets = sets; len(sets) > 1 {
			own.Apart = append(own.Apart, x)
		}
	}
	for _, x := range c.Keeps {
		if x.Buffers = some(x.Buffers); len(x.Buffers) > 0 {
			own.Keeps = append(own.Keeps, x)
		}
	}
	for _, x := range c.Guards {
		if x.Buffers = some(x.Buffers); len(x.Buffers) > 0 {
			own.Guards = append(own.Guards, x)
		}
	}
	for _, x := range c.Alignments {
		if x.Buffers = some(x.Buffers); len(x.Buffers) > 0 {
			own.Alignments = append(own.Alignments, x)
		}
	}
	return own, cut
}
