package compiler

import (
	"context"
	"errors"
	"slices"

	"stweaver/ir"
)

// Plans for what varies. An entry that some iterations lack, or that varies in size, has no address at first. It may get one after all:
//
//	optional   what only some iterations ask for has a place, too: fewer micro-batches leave places idle
//	largest    and what varies in size has a place of the largest size seen
//
// The second is for sizes that follow one number. Where batches differ in length, all that varies in a micro-batch follows the length: what is
// largest together was seen together, and a plan in which everything has its largest size needs no more than the
// longest batch did. A shorter one leaves the ends of its places idle, at moments that do not decide:
//
//	longest   |#### a ####|######## b ########|### c ###|      planned for: the peak
//	shorter   |## a ##    |#### b ####        |# c #    |      the same places, all of it below
//
// Where sizes vary each for itself (tokens by expert) the sum of the largest is above the largest sum: the plan would reserve
// what never happens, and a size not seen yet would fit nowhere. So each of these plans is made only where it needs what lived at
// once, and next to nothing more, and kept only where it wins the rehearsal. (A small MoE that needed 2.2 % more, 7 % of what does not
// live for the whole run, won on the eight steps that were recorded, and on twelve others reserved 0.6 % more than the plan of what has one size.) The plan tells the runtime which
// slots vary (ir.Slot.Varies): any size up to the slot's belongs there.
//
// Our notes on dynamic requests had slots of the largest size for MoE (designs 4a to 4c), where they lose;
// for lengths they proposed to compute the offsets anew once the number is known. No offset has to move: what
// has to fit is the longest batch.

// togetherWorth: what varies together needs less than this part (1/400) of what passes above what lived at once.
const togetherWorth = 400

// enlargeAll gives entries of the loop without a buffer one of the largest size, for the longest life seen; unless sized, only
// those of one size.
func (c *Compiled) enlargeAll(sized bool) {
	p := c.Problem
	for k := p.L0; k < p.L1; k++ {
		if e := &p.Entries[k]; e.Buffer == ir.NoBuffer && (sized || e.MinSize == e.MaxSize) {
			c.enlarge(int(k)) // or it stays dynamic
		}
	}
	renumber(p, func(*ir.Buffer) bool { return true })
}

// tryVarying makes the plan with what varies in it, as keep says, if that may reserve less than the best so far, and keeps
// it if it does. It is packed with little effort first: most that lose lose by more than effort gains.
func (c *Compiled) tryVarying(ctx context.Context, w *Workload, r *Rehearsal, keep string) error {
	if !slices.ContainsFunc(c.Problem.Entries[c.Problem.L0:], func(e ir.Entry) bool {
		return e.Kind == ir.Dynamic && (e.MinSize < e.MaxSize) == (keep == keepLargest)
	}) {
		return nil
	}
	below, passing := min(r.Kept(), r.Heap)-r.Live/choiceWorth, r.Live
	for i := range c.Problem.Buffers {
		if b := &c.Problem.Buffers[i]; b.Kind == ir.Persistent {
			passing -= b.Size
		}
	}
	before := *c
	if err := c.relower(ctx, keep); err != nil {
		return err
	}
	if needed, _ := c.Problem.LivePeak(); needed >= min(below, r.Live+passing/togetherWorth) {
		*c = before
		return nil
	}
	effort := c.options.Effort
	c.options.Effort = Fast
	reserved, err := c.repack(ctx, w)
	c.options.Effort = effort
	if err == nil && reserved < below && effort != Fast && c.Layout.Peak-c.Bound() > r.Live/choiceWorth {
		reserved, err = c.repack(ctx, w)
	}
	var infeasible *InfeasibleError
	switch {
	case err == nil && reserved < below:
		r.Holds = keep
		r.Varying, err = c.chooseLayout(ctx, w, r, reserved)
		return err
	case err == nil, errors.As(err, &infeasible): // such as too large together
		*c = before
		return nil
	}
	return err
}
