package compiler

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"stweaver/ir"
)

// What rules did to a plan, for people.

// Obeyed says what rules asked for and what it costs.
type Obeyed struct {
	Before ir.Bytes `json:"plan_peak_without_bytes"` // plan peak of the same compile without constraints
	After  ir.Bytes `json:"plan_peak_bytes"`
	Kept   ir.Bytes `json:"kept_bytes"` // of the arena that the runtime never lends: regions, and what buffers keep
	// Regions are where regions lie: a part for each stream, where streams are apart.
	Regions []RegionReport `json:"regions"`
	Rules   []RuleCost     `json:"rules"` // in the order of the file; empty where there are too many to try each, and without those that the fast effort cannot tell
}

// RegionReport is a region, or a stream's part of it.
type RegionReport struct {
	Rule  ir.RuleID `json:"rule"`
	Text  string    `json:"text"`
	Begin ir.Offset `json:"begin"` // bytes from the arena's begin, half-open
	End   ir.Offset `json:"end"`
	Live  ir.Bytes  `json:"live_peak_bytes"` // of its buffers
	share int
}

// String is one line for people.
func (r RegionReport) String() string {
	return fmt.Sprintf("%s from %d on, %s live in it at once: %s", Size(ir.Bytes(r.End-r.Begin)), r.Begin, Size(r.Live), r.Text)
}

// RuleCost is what one rule costs.
type RuleCost struct {
	Rule ir.RuleID `json:"rule"`
	Text string    `json:"text"` // where it is written, and how
	// Cost is how much lower a plan without this rule, and with all others, is; both by the fast effort. Negative
	// where the packers did better with it.
	Cost ir.Bytes `json:"cost_bytes"`
}

// String is one line for people.
func (r RuleCost) String() string {
	switch {
	case r.Cost > 0:
		return fmt.Sprintf("costs %s: %s", Size(r.Cost), r.Text)
	case r.Cost < 0:
		return fmt.Sprintf("costs nothing (without it the fast effort ends %s higher): %s", Size(-r.Cost), r.Text)
	}
	return "costs nothing: " + r.Text
}

// Limits of trying each rule: so many of them, and buffers times rules.
const (
	weighRules = 16
	weighWork  = 400_000
)

// obeyed makes sure that the layout obeys, and weighs the rules.
func (c *Compiled) obeyed(ctx context.Context) error {
	c.Obeyed = nil
	if !c.ruled() {
		return nil
	}
	for _, v := range ir.Verify(c.Problem, nil, c.Layout) {
		if v.Asked != ir.NoRule && v.Rule != "R8" { // a region over several streams may be too large in all
			return c.contradiction()
		}
	}
	if c.weighing {
		return nil
	}
	q := c.Problem.Constraints
	c.Obeyed = &Obeyed{After: c.Arena(), Kept: c.kept(), Regions: c.regionParts()}
	c.Obeyed.Before, _ = c.peakUnder(ctx, func(ir.RuleID) bool { return false }, c.options.Effort)
	rules := q.RuleIDs()
	if len(rules) > weighRules || len(rules)*len(c.Problem.Buffers) > weighWork {
		return ctx.Err()
	}
	all, ok := c.peakUnder(ctx, func(ir.RuleID) bool { return true }, Fast)
	for _, r := range rules {
		if without, found := c.peakUnder(ctx, func(id ir.RuleID) bool { return id != r }, Fast); ok && found && (q.Capacity == 0 || r != q.CapacityRule) {
			c.Obeyed.Rules = append(c.Obeyed.Rules, RuleCost{r, c.origin(r), all - without})
		}
	}
	return ctx.Err()
}

// peakUnder packs again under the constraints of some rules, without a capacity, and returns the peak; false where no
// layout is found.
func (c *Compiled) peakUnder(ctx context.Context, keep func(ir.RuleID) bool, effort Effort) (ir.Bytes, bool) {
	p := *c.Problem
	p.Constraints = p.Constraints.Only(keep)
	p.Constraints.Capacity = 0
	other := *c
	other.Problem, other.weighing = &p, true
	other.options.Effort, other.options.Rules.Capacity, other.options.Progress = effort, 0, nil
	err := other.runPack(ctx)
	return other.Arena(), err == nil
}

// regionParts lists the regions, by stream where streams are apart.
func (c *Compiled) regionParts() (out []RegionReport) {
	for _, r := range c.Problem.Constraints.Regions {
		for s := range c.shares {
			part := RegionReport{Rule: r.Rule, Text: c.origin(r.Rule), Begin: math.MaxInt64, share: s}
			own := ir.Problem{L1: c.Problem.L1}
			for _, id := range r.Buffers {
				if b := c.Problem.Buffers[id]; c.shareOf(id) == s {
					own.Buffers = append(own.Buffers, b)
					part.Begin, part.End = min(part.Begin, c.Layout.Offsets[id]), max(part.End, c.Layout.Offsets[id]+ir.Offset(b.Size))
				}
			}
			if len(own.Buffers) > 0 {
				part.Live, _ = own.LivePeak()
				out = append(out, part)
			}
		}
	}
	return out
}

// kept is what they hold, counted once.
func (c *Compiled) kept() (sum ir.Bytes) {
	slots := c.keptSlots()
	slices.SortFunc(slots, func(a, b ir.Slot) int { return cmp.Compare(a.Lo, b.Lo) })
	top := int64(0)
	for _, s := range slots {
		if end := s.Lo + s.Hi; end > top {
			sum += ir.Bytes(end - max(s.Lo, top))
			top = end
		}
	}
	return sum
}
