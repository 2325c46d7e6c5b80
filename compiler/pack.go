package compiler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"stweaver/heuristics"
	"stweaver/ir"
	"stweaver/solver"
)

// StreamPack is how the buffers of one stream were packed, or of all streams where they share.
type StreamPack struct {
	Stream  ir.StreamID // 0 where all share
	Buffers int
	Bound   ir.Bytes // no layout of the stream's buffers is below
	Kind    string   // of the bound: live peak, core, proved
	Peak    ir.Bytes
	Packer  string // the packer that made the layout kept
	Tries   int
	Nodes   int64 // of the exact search, where one was made
	// Repeats is what the packers found to be regular; nil where they did not have to look.
	Repeats *Repeats
}

// Bound is the least any layout of the planned buffers can need: while streams share nothing,
// the sum of the streams' own live peaks; else the live peak of all.
func (c *Compiled) Bound() ir.Bytes {
	var sum ir.Bytes
	for _, s := range c.Packs {
		sum += s.Bound
	}
	return max(sum, c.pinned())
}

// share is one stream's share of the problem, or the whole where streams share.
type share struct {
	streams []ir.StreamID
	ids     []ir.BufferID
	buffers []ir.Buffer
	layout  ir.Layout // of buffers, from address 0
	align   ir.Bytes  // of the address at which it begins; 0: any
}

// shares cuts the problem into streams; one without buffers has none.
func shares(p *ir.Problem) []share {
	out := make([]share, len(p.Streams))
	for i := range p.Buffers {
		s := &out[p.Buffers[i].Stream]
		s.ids = append(s.ids, ir.BufferID(i))
		s.buffers = append(s.buffers, p.Buffers[i])
	}
	for k := range out {
		out[k].streams = []ir.StreamID{ir.StreamID(k)}
	}
	return out
}

// runPack packs each stream's buffers by themselves and stacks the results: PyTorch never
// shares memory between streams, and without events at run time a plan must not either. With them
// all are packed together (sharing.go).
//
//	arena  | stream 0            | stream 1 | stream 2 |
//	       0                     begin      …          peak
//
// A part ends with the room that the rules reserve for the stream's dynamic requests, if any.
func (c *Compiled) runPack(ctx context.Context) error {
	c.Packs, c.Interrupted = nil, false
	c.shares = shares(c.Problem)
	if c.options.Sharing.On {
		c.shares = []share{together(c.Problem)}
	}
	c.order = c.stackOrder()
	c.reserve = c.reserves()
	search, done := c.searching(ctx)
	defer done()
	for _, s := range slices.Clone(c.order) {
		if len(c.shares[s].buffers) > 0 {
			sp, err := c.packShare(search, &c.shares[s])
			if err != nil {
				return err
			}
			if c.options.Sharing.On {
				if err := c.orApart(search, &sp); err != nil {
					return err
				}
			}
			if c.options.Curve && !c.weighing {
				if err := c.makeCurve(ctx, search, &sp); err != nil {
					return err
				}
			}
			c.Packs = append(c.Packs, sp)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	slices.SortFunc(c.Packs, func(a, b StreamPack) int { return cmp.Compare(a.Stream, b.Stream) })
	c.stack()
	if err := c.obeyed(ctx); err != nil {
		return err
	}
	return c.checkCapacity()
}

// searching returns a context that ends with ctx, and when the user has had enough.
func (c *Compiled) searching(ctx context.Context) (context.Context, context.CancelFunc) {
	search, cancel := context.WithCancel(ctx)
	stop := c.options.Stop
	select {
	case <-stop:
		cancel()
	default:
	}
	if stop != nil {
		go func() {
			select {
			case <-stop:
				cancel()
			case <-search.Done():
			}
		}()
	}
	return search, cancel
}

// stack puts the shares' layouts on each other.
func (c *Compiled) stack() {
	c.Layout = &ir.Layout{Offsets: make([]ir.Offset, len(c.Problem.Buffers))}
	c.Streams = make([]ir.PlanStream, len(c.Problem.Streams))
	for _, s := range c.order {
		share := &c.shares[s]
		base := c.base(s)
		for k, id := range share.ids {
			c.Layout.Offsets[id] = ir.Offset(base) + share.layout.Offsets[k]
		}
		if len(share.ids) > 0 {
			c.Layout.Peak = max(c.Layout.Peak, base+share.layout.Peak)
		}
		end := base + share.layout.Peak + c.reserve[s]
		for _, id := range share.streams {
			c.Streams[id] = ir.PlanStream{Handle: c.Problem.Streams[id], Begin: ir.Offset(base), End: ir.Offset(end)}
		}
	}
}

// base is where share s begins: above those before it.
func (c *Compiled) base(s int) (base ir.Bytes) {
	for _, k := range c.order {
		if n := c.shares[k].align; n > 0 {
			base = (base + n - 1) / n * n
		}
		if k == s {
			break
		}
		base += c.shares[k].layout.Peak + c.reserve[k]
	}
	return base
}

// Arena is what the plan takes in all: the layout, and room reserved for dynamic requests.
func (c *Compiled) Arena() (end ir.Bytes) {
	for _, s := range c.Streams {
		end = max(end, ir.Bytes(s.End))
	}
	return end
}

// checkCapacity refuses what no plan can hold, and what is above the capacity.
func (c *Compiled) checkCapacity() error {
	limit, peak := c.capacity(), c.Arena()
	for k := range c.Problem.Entries {
		if n := c.Problem.Entries[k].MaxSize; n >= ir.MaxRange {
			return &InfeasibleError{Msg: fmt.Sprintf("a request of %s: a plan holds less than %s; is it a size in bytes?", Size(n), Size(ir.MaxRange))}
		}
	}
	if peak >= ir.MaxRange {
		return &InfeasibleError{Msg: fmt.Sprintf("the plan takes %s: a plan holds less than %s; are sizes in bytes?", Size(peak), Size(ir.MaxRange))}
	}
	if limit == 0 || peak <= limit {
		return nil
	}
	if q := c.Problem.Constraints; q != nil && q.Capacity > 0 {
		if x := solver.FindConflict(c.Problem, solver.ConflictOptions{}); x != nil {
			return c.conflict(x)
		}
	}
	if bound := c.Bound(); bound > limit {
		return &InfeasibleError{Msg: fmt.Sprintf("the plan cannot fit: %d bytes are live at once, the capacity is %d", bound, limit)}
	}
	return &InfeasibleError{Msg: fmt.Sprintf("no layout within the capacity of %d bytes was found (best: %d, bound: %d); try --effort max", limit, peak, c.Bound())}
}

// packShare finds a layout: the portfolio first, and where it stays above the bound, the exact
// search, which knows lifetimes only.
func (c *Compiled) packShare(search context.Context, share *share) (StreamPack, error) {
	o := heuristics.Options{Effort: c.options.Effort.tries(), Stop: func() bool { return search.Err() != nil }, Exact: exactBlock, Seed: c.options.Rules.Seed, Shared: c.terms(share.buffers)}
	if c.options.Progress != nil {
		o.Progress = func(try, tries int, best, bound ir.Bytes) { c.options.Progress("pack", try, tries, best, bound) }
	}
	if c.ruled() {
		return c.packUnder(search, share, o)
	}
	buffers := share.buffers
	if o.Shared != nil {
		if own := o.Shared.Alone(buffers, c.Problem.L1); own != nil {
			buffers, o.Shared = own, nil
		}
	}
	r := heuristics.Pack(buffers, c.Problem.L1, o)
	sp := StreamPack{Stream: share.streams[0], Buffers: len(share.buffers), Bound: r.Bound, Kind: solver.LivePeak, Packer: r.Packer, Tries: r.Tries, Repeats: repeatsOf(&r)}
	share.layout = r.Layout
	if o.Shared == nil && c.options.Sharing.On && r.Bound > heuristics.LivePeak(share.buffers, c.Problem.L1) {
		sp.Kind = boundHeld
	}
	if r.Layout.Peak > r.Bound && o.Shared == nil {
		share.layout = c.search(search, buffers, r.Layout, &sp)
	}
	share.layout = c.relaxed(buffers, share.layout)
	sp.Peak = share.layout.Peak
	c.Interrupted = c.Interrupted || sp.Peak > sp.Bound && search.Err() != nil
	return sp, nil
}

// relaxed is a layout, as low, in which a late free is in the way of less. Where streams share, how soon an address is
// taken again decides what is waited for, and rules say themselves where buffers go: those layouts stay as they are.
func (c *Compiled) relaxed(buffers []ir.Buffer, l ir.Layout) ir.Layout {
	if c.options.Sharing.On || c.ruled() {
		return l
	}
	return heuristics.Relax(buffers, c.Problem.L1, l)
}

// nodesOf is the budget of the exact search for n buffers whose layout is gap above a bound, in
// nodes. A node costs about as much as n. Even without nodes the layout is let fall as far as it
// goes.
func (e Effort) nodesOf(n int, gap, bound ir.Bytes) int64 {
	if e == Fast || n > exactMost || e == Default && gap <= bound/1000 {
		return 0
	}
	nodes, more := int64(200_000), int64(10) // more: times as many at the highest effort
	if n <= exactTiny {
		nodes = 400_000
	}
	if n > exactSmall {
		nodes, more = min(int64(6*n), exactWork/int64(n)), 3
	}
	if e == Max {
		nodes *= more
	}
	return nodes
}

const (
	exactTiny  = 500         // buffers up to which a node costs some 10 µs
	exactSmall = 1_000       // buffers up to which nodes are cheap
	exactMost  = 30_000      // buffers up to which the exact search is tried
	exactWork  = 600_000_000 // nodes × buffers
)

// exactNodes are those of the exact search for one congruent block.
const exactNodes = 20_000

// exactBlock lowers the layout of a block that is solved once for all its copies.
func exactBlock(buffers []ir.Buffer, best ir.Layout) ir.Layout {
	var end ir.Tick
	for i := range buffers {
		end = max(end, buffers[i].End)
	}
	r := solver.Solve(context.Background(), buffers, end, solver.Options{Nodes: exactNodes, Incumbent: &best, Workers: 1})
	if r.Layout.Offsets == nil {
		return best
	}
	return r.Layout
}

// search tries to lower a layout by branch and bound, and to raise its bound.
func (c *Compiled) search(ctx context.Context, buffers []ir.Buffer, best ir.Layout, sp *StreamPack) ir.Layout {
	o := solver.Options{Nodes: c.options.Effort.nodesOf(len(buffers), best.Peak-sp.Bound, sp.Bound), Incumbent: &best}
	if c.options.Rules.ExactSet {
		o.Nodes = c.options.Rules.Exact
	}
	if c.options.Progress != nil {
		o.Progress = func(nodes, of int64, peak, bound ir.Bytes) {
			c.options.Progress("pack", int(nodes), int(of), peak, bound)
		}
	}
	r := solver.Solve(ctx, buffers, c.Problem.L1, o)
	sp.Nodes = r.Nodes
	if r.Bound > sp.Bound {
		sp.Bound, sp.Kind = r.Bound, r.BoundKind
	}
	if r.Layout.Offsets != nil && r.Layout.Peak < best.Peak {
		sp.Packer = "branch and bound"
		return r.Layout
	}
	return best
}
