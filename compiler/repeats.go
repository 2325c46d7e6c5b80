package compiler

import (
	"fmt"
	"strings"

	"stweaver/heuristics"
	"stweaver/ir"
)

// Repeats is what is regular in a stream's buffers: congruent blocks, of which one was solved and
// the others are copies, and groups of buffers that are made and die together.
type Repeats struct {
	Kinds   int `json:"block_kinds"`
	Blocks  int `json:"blocks"`        // of all kinds
	Members int `json:"block_buffers"` // buffers in them
	Exact   int `json:"exact_kinds"`   // kinds that the exact search lowered
	Tight   int `json:"tight_kinds"`   // kinds whose layout is as low as their own live peak
	Solved  int `json:"solved_once"`   // buffers that had to be placed by themselves for it: one block of each kind
	// Largest are the kinds that save the most placements.
	Largest []RepeatedBlock `json:"largest_blocks,omitempty"`

	GroupKinds    int             `json:"group_kinds"`
	Groups        int             `json:"groups"`
	GroupMembers  int             `json:"group_buffers"`
	LargestGroups []RepeatedGroup `json:"largest_groups,omitempty"`

	// Fold is the period of the micro-batches; nil where none was looked for or there is none.
	Fold *RepeatedFold `json:"fold,omitempty"`

	// FlatPeak is the best peak the packers came to before they made use of any of it, and Peak
	// what they ended at.
	FlatPeak ir.Bytes `json:"flat_peak_bytes,omitempty"`
	Peak     ir.Bytes `json:"peak_bytes,omitempty"`
	// Winner is true if the layout kept comes from a packer of groups or blocks.
	Winner bool `json:"winner"`
}

// RepeatedBlock is one kind of congruent blocks.
type RepeatedBlock struct {
	Members   int      `json:"buffers"`
	Instances int      `json:"instances"`
	Height    ir.Bytes `json:"height_bytes"`
	Load      ir.Bytes `json:"live_peak_bytes"`
	Exact     bool     `json:"exact"` // the exact search lowered it
}

// RepeatedGroup is one kind of groups: same sizes.
type RepeatedGroup struct {
	Members   int      `json:"buffers"`
	Instances int      `json:"instances"`
	Bytes     ir.Bytes `json:"bytes"`
	TMP       float64  `json:"time_memory_product"` // 1: the group fills its rectangle
}

// RepeatedFold is a period of micro-batches, rolled up on a circle.
type RepeatedFold struct {
	Period    ir.Tick `json:"period_requests"` // from one micro-batch to the next
	Buffers   int     `json:"period_buffers"`
	Copies    int     `json:"copies"` // addresses that a buffer takes turns in
	Instances int     `json:"instances"`
	Folded    int     `json:"folded_buffers"` // on the circle
	Placed    int     `json:"placed_buffers"` // of them, those that lie where the circle has them in the layout kept
}

const repeatsListed = 5 // kinds listed

// repeatsOf sums up what a race found; nil if it did not get as far as to look.
func repeatsOf(r *heuristics.Result) *Repeats {
	if len(r.Blocks) == 0 && len(r.Groups) == 0 && r.Fold == nil {
		return nil
	}
	x := newRepeats(r.Blocks, r.Groups)
	if f := r.Fold; f != nil {
		x.Fold = &RepeatedFold{f.Period, f.Buffers, f.Copies, f.Instances, f.Folded, f.Placed}
	}
	x.Peak = r.Layout.Peak
	x.Winner = byRepeats(r.Packer)
	for _, p := range r.Peaks {
		if !byRepeats(p.Name) && (x.FlatPeak == 0 || p.Peak < x.FlatPeak) {
			x.FlatPeak = p.Peak
		}
	}
	return x
}

// byRepeats reports whether a packer works with groups or blocks.
func byRepeats(packer string) bool {
	return strings.HasPrefix(packer, "coarse-") || packer == "groups" || packer == "layers" || packer == "fold"
}

func newRepeats(blocks []heuristics.BlockClass, groups []heuristics.GroupClass) *Repeats {
	x := &Repeats{Kinds: len(blocks), GroupKinds: len(groups)}
	for i, b := range blocks {
		x.Blocks += b.Instances
		x.Members += b.Instances * b.Members
		x.Solved += b.Members
		if b.Exact {
			x.Exact++
		}
		if b.Height == b.Load {
			x.Tight++
		}
		if i < repeatsListed {
			x.Largest = append(x.Largest, RepeatedBlock{b.Members, b.Instances, b.Height, b.Load, b.Exact})
		}
	}
	for i, g := range groups {
		x.Groups += g.Instances
		x.GroupMembers += g.Instances * g.Members
		if i < repeatsListed {
			x.LargestGroups = append(x.LargestGroups, RepeatedGroup{g.Members, g.Instances, g.Bytes, g.TMP})
		}
	}
	return x
}

// Repeats looks for what is regular in each stream's buffers, whether or not the packers needed
// it. One for each of Packs but one in which streams share, in their order.
func (c *Compiled) Repeats() []*Repeats {
	var out []*Repeats
	for i := range c.Packs {
		sp := &c.Packs[i]
		if c.terms(c.shares[sp.Stream].buffers) != nil {
			continue // the packers that make use of repeats know one stream at a time
		}
		if sp.Repeats != nil {
			out = append(out, sp.Repeats)
			continue
		}
		x := newRepeats(heuristics.Repeats(c.shares[sp.Stream].buffers, c.Problem.L1, heuristics.Options{Exact: exactBlock}))
		x.FlatPeak, x.Peak = sp.Peak, sp.Peak
		x.Winner = byRepeats(sp.Packer)
		out = append(out, x)
	}
	return out
}

// String is one line for people.
func (x *Repeats) String() string {
	var parts []string
	if x.Blocks > 0 {
		parts = append(parts, fmt.Sprintf("%d blocks of %d kinds: %d buffers, %d solved and the rest translated", x.Blocks, x.Kinds, x.Members, x.Solved))
	}
	if x.Groups > 0 {
		parts = append(parts, fmt.Sprintf("%d groups of %d kinds: %d buffers", x.Groups, x.GroupKinds, x.GroupMembers))
	}
	if f := x.Fold; f != nil {
		parts = append(parts, fmt.Sprintf("%d micro-batches of %d requests: %d buffers folded onto a circle of %d", f.Instances, f.Period, f.Folded, f.Copies))
	}
	switch saved := x.FlatPeak - x.Peak; {
	case len(parts) == 0:
		parts = append(parts, "none")
	case x.Winner && saved > 0:
		parts = append(parts, "packing by them saved "+Size(saved))
	case x.Winner:
		parts = append(parts, "packed by them")
	default:
		parts = append(parts, "packed without them")
	}
	return strings.Join(parts, "; ")
}
