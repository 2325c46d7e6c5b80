package compiler

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"stweaver/ir"
)

// Reserved room. A rule may ask for arena space that no planned request uses, so that dynamic requests
// find room there that fits nowhere else. It lies at the end of each stream's part, or of the arena where
// streams share:
//
//	arena  | stream 0: planned | reserve | stream 1: planned | reserve |
//
// and is one room for all (a commons): rooms for each request or class lose twice, for the sum of
// maxima is above the maximum of the sum, and an unseen value exceeds the largest of a few seen ones
// often. Its size is a quantile of the iterations' peaks of dynamic bytes, times a headroom, up to a
// cap. It is off unless asked for, since it usually costs more than it gives: the dynamic demand peaks
// when the planned one does, and idle space at other times is worth nothing. The report says what it
// costs in rehearsal.
//
// To the runtime the room is atoms like any other: slots that no entry names draw their boundaries.
//
// Source: our notes on dynamic requests, designs 5c and 5d (median, commons).

// reservePieces is how many pieces a stream's room is cut into: a guest takes whole ones.
const reservePieces = 256

// Reserved is what was reserved and what it costs.
type Reserved struct {
	Bytes   ir.Bytes `json:"bytes"`
	With    ir.Bytes `json:"plan_bytes"`    // what plan and heap reserve in rehearsal
	Without ir.Bytes `json:"without_bytes"` // what they would without the room
}

// String is one line for people.
func (r *Reserved) String() string {
	switch cost := r.With - r.Without; {
	case cost > 0:
		return fmt.Sprintf("%s for dynamic requests: costs %s, for without it plan and heap reserve %s in rehearsal", Size(r.Bytes), Size(cost), Size(r.Without))
	case cost < 0:
		return fmt.Sprintf("%s for dynamic requests: saves %s of the %s that plan and heap reserve without it in rehearsal", Size(r.Bytes), Size(-cost), Size(r.Without))
	}
	return fmt.Sprintf("%s for dynamic requests: costs nothing in rehearsal", Size(r.Bytes))
}

// reserves is the room that the rules ask for, by share.
func (c *Compiled) reserves() []ir.Bytes {
	out := make([]ir.Bytes, len(c.shares))
	rule := c.options.Rules.Reserve
	if !rule.On() || c.template == nil {
		return out
	}
	peaks := c.dynamicPeaks()
	for s := range out {
		slices.Sort(peaks[s])
		n := len(peaks[s])
		k := min(max(int(math.Ceil(float64(float64(rule.Quantile)*float64(n)))), 1), n)
		room := ir.Bytes(math.Ceil(float64(rule.Headroom) * float64(peaks[s][k-1])))
		if rule.Cap > 0 {
			room = min(room, rule.Cap)
		}
		out[s] = room / ir.Align * ir.Align
	}
	return out
}

// dynamicPeaks is the most dynamic bytes alive at once, by share and iteration of the template.
func (c *Compiled) dynamicPeaks() [][]ir.Bytes {
	type edge struct {
		tick ir.Tick
		size ir.Bytes
	}
	windows := len(c.template.Windows)
	out := make([][]ir.Bytes, len(c.shares))
	shareOf := make([]int, len(c.Problem.Streams))
	for s := range out {
		for _, id := range c.shares[s].streams {
			shareOf[id] = s
		}
		out[s] = make([]ir.Bytes, windows)
	}
	loop := c.Problem.Entries[c.Problem.L0:]
	for w := range windows {
		edges := make([][]edge, len(out))
		for k, r := range c.template.Member[w] {
			if r == NoRequest || loop[k].Kind != ir.Dynamic {
				continue
			}
			q := &c.Trace.Requests[r]
			s := shareOf[q.Stream]
			edges[s] = append(edges[s], edge{q.Alloc, q.Rounded()}, edge{q.Free, -q.Rounded()})
		}
		for s, e := range edges {
			slices.SortFunc(e, func(a, b edge) int { return cmp.Or(cmp.Compare(a.tick, b.tick), cmp.Compare(a.size, b.size)) })
			var live ir.Bytes
			for _, x := range e {
				live += x.size
				out[s][w] = max(out[s][w], live)
			}
		}
	}
	return out
}

// reserveSlots are the slots that cut the reserved rooms into pieces.
func (c *Compiled) reserveSlots() []ir.Slot {
	var out []ir.Slot
	for s, room := range c.reserve {
		if room == 0 {
			continue
		}
		piece := max((room/reservePieces+ir.Align-1)/ir.Align*ir.Align, ir.Align)
		for at := ir.Bytes(c.Streams[s].End) - room; at < ir.Bytes(c.Streams[s].End); at += piece {
			out = append(out, ir.Slot{Lo: int64(at), Hi: int64(min(piece, ir.Bytes(c.Streams[s].End)-at)), Stream: c.shares[s].streams[0], Flags: ir.SlotPlanned})
		}
	}
	return out
}

// reserved sums the rooms up.
func (c *Compiled) reserved() (sum ir.Bytes) {
	for _, room := range c.reserve {
		sum += room
	}
	return sum
}

// weighReserve rehearses the plan without its reserved room.
func (c *Compiled) weighReserve(w *Workload, with ir.Bytes) {
	kept := c.reserve
	c.reserve = make([]ir.Bytes, len(kept))
	c.stack()
	c.makePlan()
	without, _ := c.rehearse(w, c.Plan)
	c.reserve = kept
	c.stack()
	c.makePlan()
	c.Reserved = &Reserved{Bytes: c.reserved(), With: with, Without: without}
}
