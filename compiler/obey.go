package compiler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"stweaver/heuristics"
	"stweaver/ir"
	"stweaver/solver"
)

// Rules in planning. The pass `constrain` resolves rules to buffers; from there on they travel with the
// problem: packers obey them (heuristics.PackUnder), ir.Verify judges by them, and the plan tells the runtime
// which addresses it must not lend:
//
//	rules → constraints of the problem → layout of each stream → slots that no entry names, marked kept
//
// Addresses of pins and windows count from the arena's begin, and streams lie on each other: those that have
// none are packed first, and lie below the others where they fit, so that where each begins is known when it is
// packed. Without constraints a compile is what it always was.
//
// A plan under rules never shrinks in rehearsal: what is not planned obeys nothing.

// ruled reports whether rules ask more of the layout than a capacity, which all packing knows.
func (c *Compiled) ruled() bool { return c.Problem.Constraints.Binds() }

// shareOf is the share that a buffer is in.
func (c *Compiled) shareOf(id ir.BufferID) int {
	if c.options.Sharing.On {
		return 0
	}
	return int(c.Problem.Buffers[id].Stream)
}

// stackOrder is the order in which the shares are packed: those with addresses or windows last, lowest first.
func (c *Compiled) stackOrder() []int {
	order := make([]int, len(c.shares))
	for s := range order {
		order[s] = s
	}
	c.latest = nil
	if !c.ruled() {
		return order
	}
	c.latest = slices.Repeat([]ir.Offset{ir.NoOffset}, len(c.shares))
	for _, x := range c.Problem.Constraints.Pins {
		for _, id := range x.Buffers {
			at := x.Lo
			if !x.At() {
				at = max(x.Hi-ir.Offset(c.Problem.Buffers[id].Size), 0)
			}
			if l := &c.latest[c.shareOf(id)]; *l == ir.NoOffset || at < *l {
				*l = at
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.latest[a], c.latest[b]) })
	return order
}

// sink puts the share that is packed next into its place in the order: of those without addresses it leaves below
// what fits there.
//
//	order     free  free  free  | pinned  pinned        as they are packed
//	          free  pinned  free  pinned  free          as they lie
func (c *Compiled) sink(s int) {
	if c.latest == nil || c.latest[s] == ir.NoOffset {
		return
	}
	k := slices.Index(c.order, s)
	first := k // of the free ones that have no pinned one above them
	for first > 0 && c.latest[c.order[first-1]] == ir.NoOffset {
		first--
	}
	packed := c.order
	low, high := slices.Clone(packed[:first]), []int(nil)
	for _, f := range packed[first:k] {
		if c.order = append(slices.Clone(low), f, s); ir.Offset(c.base(s)) <= c.latest[s] {
			low = append(low, f)
		} else {
			high = append(high, f)
		}
	}
	c.order = slices.Concat(low, []int{s}, high, packed[k+1:])
}

// capacity is the most that the plan may take; 0: no limit.
func (c *Compiled) capacity() ir.Bytes {
	limit := c.options.Rules.Capacity
	if q := c.Problem.Constraints; q != nil && q.Capacity > 0 && (limit == 0 || q.Capacity < limit) {
		limit = q.Capacity
	}
	return limit
}

// pinned is the highest end that pins and windows ask for.
func (c *Compiled) pinned() (end ir.Bytes) {
	if !c.ruled() {
		return 0
	}
	for _, x := range c.Problem.Constraints.Pins {
		at := ir.Bytes(x.Lo)
		for _, id := range x.Buffers {
			size := c.Problem.Buffers[id].Size
			end = max(end, at+size)
			if x.At() {
				at += size
			}
		}
	}
	return end
}

// packUnder is packShare under rules.
func (c *Compiled) packUnder(search context.Context, share *share, o heuristics.Options) (StreamPack, error) {
	s := share.streams[0]
	own, cut := c.Problem.Constraints.Within(share.ids, len(c.Problem.Buffers))
	if len(cut) > 0 {
		return StreamPack{}, &InfeasibleError{Msg: "the rule ties buffers of several streams, and streams lie apart", Rules: cut[:1]}
	}
	for _, a := range own.Alignments {
		share.align = max(share.align, a.Bytes)
	}
	c.sink(c.shareOf(share.ids[0]))
	base := c.base(c.shareOf(share.ids[0]))
	p := c.ofShare(share, own)
	sp := StreamPack{Stream: s, Buffers: len(share.buffers), Kind: boundUnderRules}
	o.Lower = func(buffers []ir.Buffer, best ir.Layout, bound ir.Bytes) (ir.Layout, ir.Bytes) {
		part := StreamPack{Bound: bound}
		l := c.search(search, buffers, best, &part)
		sp.Nodes += part.Nodes
		return l, part.Bound
	}
	if limit := c.capacity(); limit > base {
		o.Capacity = limit - base
	}
	r, ok := heuristics.PackUnder(p, ir.Offset(base), o)
	if !ok && search.Err() != nil {
		return sp, &InfeasibleError{Msg: "the search was interrupted before a layout that obeys the rules was found"}
	}
	if !ok {
		return sp, c.contradiction()
	}
	share.layout = ir.Layout{Offsets: r.Layout.Offsets, Peak: r.Layout.Peak - base}
	for k := range share.layout.Offsets {
		share.layout.Offsets[k] -= ir.Offset(base)
	}
	sp.Bound, sp.Packer, sp.Tries, sp.Peak = r.Load, r.Packer, r.Tries, share.layout.Peak
	c.Interrupted = c.Interrupted || sp.Peak > sp.Bound && search.Err() != nil
	return sp, nil
}

// ofShare is a share as a problem of its own.
func (c *Compiled) ofShare(s *share, own *ir.Constraints) *ir.Problem {
	return &ir.Problem{Buffers: s.buffers, Streams: c.Problem.Streams, L0: c.Problem.L0, L1: c.Problem.L1, Sharing: c.options.Sharing, Constraints: own}
}

// alternatives are other layouts of a share, as low as its own.
func (c *Compiled) alternatives(s *share, peak ir.Bytes, o heuristics.Options) []heuristics.Alternative {
	most := c.options.Effort.layouts()
	if !c.ruled() {
		return heuristics.Alternatives(s.buffers, c.Problem.L1, peak, s.layout, most, o)
	}
	own, _ := c.Problem.Constraints.Within(s.ids, len(c.Problem.Buffers))
	base := ir.Offset(c.base(c.shareOf(s.ids[0])))
	move := func(l ir.Layout, by ir.Offset) ir.Layout {
		l.Offsets = slices.Clone(l.Offsets)
		for k := range l.Offsets {
			l.Offsets[k] += by
		}
		l.Peak += ir.Bytes(by)
		return l
	}
	out := heuristics.AlternativesUnder(c.ofShare(s, own), base, ir.Bytes(base)+peak, move(s.layout, base), most, o)
	for k := range out {
		out[k].Layout = move(out[k].Layout, -base)
	}
	return out
}

// boundUnderRules is the kind of a bound that counts what rules add to lives.
const boundUnderRules = "live peak under the rules"

// origin says where a rule is written, and how.
func (c *Compiled) origin(r ir.RuleID) string {
	switch {
	case r == ir.NoRule:
		return "the command line"
	case int(r) < len(c.options.Rules.List):
		return c.options.Rules.Origin(int(r))
	}
	return fmt.Sprintf("rule %d", r)
}

// contradiction names rules that cannot be obeyed together, if some are found.
func (c *Compiled) contradiction() error {
	x := solver.FindConflict(c.Problem, solver.ConflictOptions{})
	if x == nil {
		return &InfeasibleError{Msg: "no layout that obeys the rules was found, and no rules that contradict each other either; try --effort max, or fewer rules"}
	}
	return c.conflict(x)
}

func (c *Compiled) conflict(x *solver.Conflict) error {
	what := "the rule cannot be obeyed"
	if len(x.Rules) > 1 {
		what = fmt.Sprintf("%d rules contradict each other", len(x.Rules))
	}
	var names []string
	for _, id := range x.Buffers[:min(len(x.Buffers), conflictNames)] {
		names = append(names, c.name(id))
	}
	if more := len(x.Buffers) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) > 0 {
		what += " about " + strings.Join(names, ", ")
	}
	return &InfeasibleError{Msg: what + ": " + x.Why, Rules: x.Rules}
}

// conflictNames is the number of buffers that a contradiction names.
const conflictNames = 6

// name says which request a buffer stands for.
func (c *Compiled) name(id ir.BufferID) string {
	b := &c.Problem.Buffers[id]
	r := c.Problem.Entries[b.Start].Request
	text := fmt.Sprintf("request %d (%s", r, Size(b.Size))
	if site := c.Trace.Name(c.Trace.Requests[r].Site); site != "" {
		text += ", " + site
	}
	return text + ")"
}

// keptSlots are the slots that tell the runtime what not to lend: what kept buffers have to themselves, and regions. None
// is there twice.
func (c *Compiled) keptSlots() []ir.Slot {
	if !c.ruled() {
		return nil
	}
	seen := make(map[ir.Slot]bool)
	var out []ir.Slot
	add := func(lo, hi ir.Offset, share int) {
		slot := ir.Slot{Lo: int64(lo), Hi: int64(hi - lo), Stream: c.shares[share].streams[0], Flags: ir.SlotPlanned | ir.SlotKept}
		if !seen[slot] {
			seen[slot] = true
			out = append(out, slot)
		}
	}
	for _, k := range c.Problem.Constraints.Keeps {
		for _, id := range k.Buffers {
			at := c.Layout.Offsets[id]
			add(at, at+ir.Offset(c.Problem.Buffers[id].Size), c.shareOf(id))
		}
	}
	for _, r := range c.regionParts() {
		add(r.Begin, r.End, r.share)
	}
	return out
}
