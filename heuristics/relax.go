package heuristics

import (
	"cmp"
	"math/bits"
	"slices"

	"stweaver/ir"
)

// Relaxing a layout.
//
// Of two layouts with one peak, that one is better in which a free that comes late is in the way
// of less. What packs a layout looks for room alone, and puts a small buffer in the middle of what
// a large one uses next:
//
//	address                                      address
//	  |  |--large--|   |-----large-----|           |  |--large--|   |-----large-----|
//	  |  |         |   |               |           |  |         |   |               |
//	  |              s |               |           |              s |---other---|
//	  |                |---------------|           |
//	  +---------------------------------> time     +---------------------------------> time
//	  s late: the large one has no place           s late: a small one has no place
//
// So buffers that are in the way of much more than themselves are moved, the smallest first, each
// to an end of a gap that is free all its life, below the peak, where its cost is least; of equals
// to the lowest, as a heap does, which keeps small ones together. The cost of a layout is a sum
// over pairs that share addresses, of which the second is among the next relaxNext that start after
// the first's end, counted around the end of the iteration:
//
//	cost(first, second) = size of second × (relaxNext - how many start between)
//
// Every move lowers the cost, or the address at the same cost; nothing else changes, and the peak
// does not rise. Measured in RESULTS.md, "Unseen iterations".

const (
	relaxNext   = 128 // starts after an end that a late free can be in the way of
	relaxHarm   = 4   // a buffer is moved that is in the way of more than as many of its own size at once
	relaxRounds = 3
	relaxPoints = 512        // places in time at which what is alive is written down
	relaxLists  = 1 << 23    // the most entries of those lists; layouts that need more stay as they are
	relaxSteps  = 32_000_000 // spans and edges looked at, after which the rest stays where it is
)

// Relax returns a layout of the same buffers, never above l.Peak, in which buffers that share
// addresses lie further apart in time where one of them is large. l must be valid. It is a function
// of its arguments, and safe for concurrent use.
func Relax(buffers []ir.Buffer, horizon ir.Tick, l ir.Layout) ir.Layout {
	x := newRelaxation(newInstance(buffers, horizon), l)
	if x == nil {
		return l
	}
	order := make([]int32, len(buffers))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(buffers[a].Size, buffers[b].Size) })
	for range relaxRounds {
		moved := false
		for _, i := range order {
			moved = x.move(i) || moved
		}
		if !moved {
			break
		}
	}
	out := ir.Layout{Offsets: x.offsets}
	for i := range buffers {
		out.Peak = max(out.Peak, ir.Bytes(x.offsets[i])+buffers[i].Size)
	}
	return out
}

type relaxation struct {
	in      *instance
	offsets []ir.Offset
	peak    int64
	shift   int // sizes are counted in units of 1 << shift bytes, lest sums pass an int64
	steps   int64

	starts []int32 // buffers by start
	rank   []int32 // by buffer: its place among them
	next   []int32 // by buffer: the place of the first that starts after its end
	ended  []int32 // buffers by next
	first  []int32 // by place: where the buffers with that next begin in ended

	entries []entry   // main pieces and heads, by section
	each    int       // entries from one point to the next
	alive   [][]int32 // by point: those before it that reach into its section

	spans []span      // what is taken while a buffer lives
	lows  []relaxEdge // where what costs begins, by address, each with the costs up to it
	highs []relaxEdge // where it ends
}

// entry is the beginning of a piece.
type entry struct{ section, id int32 }

// relaxEdge is an end of a buffer that costs cost where it shares an address with the one that is moved.
type relaxEdge struct {
	at   ir.Offset
	cost int64
}

// newRelaxation returns nil where there is nothing to do or too much.
func newRelaxation(in *instance, l ir.Layout) *relaxation {
	n := len(in.buffers)
	if n < 2 || n > relaxLists {
		return nil
	}
	x := &relaxation{in: in, offsets: slices.Clone(l.Offsets), peak: int64(l.Peak), shift: max(0, bits.Len64(uint64(l.Peak))-32)}
	if !x.listAlive() {
		return nil
	}
	x.starts, x.rank, x.next = make([]int32, n), make([]int32, n), make([]int32, n)
	for i := range x.starts {
		x.starts[i] = int32(i)
	}
	slices.SortStableFunc(x.starts, func(a, b int32) int { return cmp.Compare(in.buffers[a].Start, in.buffers[b].Start) })
	for k, i := range x.starts {
		x.rank[i] = int32(k)
	}
	x.first = make([]int32, n+1)
	for i := range in.buffers {
		k, _ := slices.BinarySearchFunc(x.starts, lastEnd(&in.buffers[i]), func(b int32, t ir.Tick) int { return cmp.Compare(in.buffers[b].Start, t) })
		x.next[i] = int32(k % n)
		x.first[k%n+1]++
	}
	for k := range n {
		x.first[k+1] += x.first[k]
	}
	x.ended = make([]int32, n)
	for i, at := 0, slices.Clone(x.first); i < n; i++ {
		k := x.next[i]
		x.ended[at[k]] = int32(i)
		at[k]++
	}
	return x
}

// lastEnd is when a buffer is freed: of one that lives on into the next iteration, there.
func lastEnd(b *ir.Buffer) ir.Tick {
	if b.HasHead() {
		return b.HeadEnd
	}
	return b.End
}

// listAlive fills entries and alive; false: the lists are too long.
func (x *relaxation) listAlive() bool {
	for i := range x.in.pieces {
		p := &x.in.pieces[i]
		if p.s < p.e {
			x.entries = append(x.entries, entry{p.s, int32(i)})
		}
		if p.hs < p.he {
			x.entries = append(x.entries, entry{p.hs, int32(i)})
		}
	}
	slices.SortFunc(x.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.id, b.id))
	})
	x.each = len(x.entries)/relaxPoints + 1
	var now []int32
	sum := 0
	for k, e := range x.entries {
		if k%x.each == 0 {
			now = slices.DeleteFunc(now, func(i int32) bool {
				p := &x.in.pieces[i]
				return p.e <= e.section && p.he <= e.section
			})
			if sum += len(now); sum > relaxLists {
				return false
			}
			x.alive = append(x.alive, slices.Clone(now))
		}
		now = append(now, e.id)
	}
	return true
}

// occupied collects what is taken while i lives, in the range of sections of one of its pieces.
func (x *relaxation) occupied(i, s, e int32) {
	if s >= e {
		return
	}
	k, _ := slices.BinarySearchFunc(x.entries, s, func(a entry, s int32) int { return cmp.Compare(a.section, s) })
	point := max(k-1, 0) / x.each
	for _, j := range x.alive[point] {
		x.occupy(i, j)
	}
	for k = point * x.each; k < len(x.entries) && x.entries[k].section < e; k++ {
		x.occupy(i, x.entries[k].id)
		x.steps++
	}
	x.steps += int64(len(x.alive[point]))
}

func (x *relaxation) occupy(i, j int32) {
	if i != j && x.in.buffers[i].Overlaps(&x.in.buffers[j]) {
		lo := int64(x.offsets[j])
		x.spans = append(x.spans, span{lo, lo + int64(x.in.buffers[j].Size)})
	}
}

// neighbours collects those that i could be in the way of, and those that could be in its way.
func (x *relaxation) neighbours(i int32) {
	x.lows, x.highs = x.lows[:0], x.highs[:0]
	n := len(x.starts)
	add := func(j, second int32, d int) {
		if i != j {
			cost := int64(x.in.buffers[second].Size>>x.shift) * int64(relaxNext-d)
			x.lows = append(x.lows, relaxEdge{x.offsets[j], cost})
			x.highs = append(x.highs, relaxEdge{x.offsets[j] + ir.Offset(x.in.buffers[j].Size), cost})
		}
	}
	for d := range min(relaxNext, n) {
		j := x.starts[(int(x.next[i])+d)%n]
		add(j, j, d)
		k := (int(x.rank[i]) - d + n) % n
		for _, j := range x.ended[x.first[k]:x.first[k+1]] {
			add(j, i, d)
		}
	}
	for _, list := range [][]relaxEdge{x.lows, x.highs} {
		slices.SortFunc(list, func(a, b relaxEdge) int { return cmp.Compare(a.at, b.at) })
		for k := 1; k < len(list); k++ {
			list[k].cost += list[k-1].cost
		}
	}
	x.steps += int64(2 * len(x.lows))
}

// costAt is what i costs at an address: all that begins below its end, less what ends at or below its begin.
func (x *relaxation) costAt(i int32, at ir.Offset) int64 {
	return costUpTo(x.lows, at+ir.Offset(x.in.buffers[i].Size)) - costUpTo(x.highs, at+1)
}

// costUpTo sums the costs of the edges below an address.
func costUpTo(list []relaxEdge, end ir.Offset) int64 {
	k, _ := slices.BinarySearchFunc(list, end, func(e relaxEdge, end ir.Offset) int { return cmp.Compare(e.at, end) })
	if k == 0 {
		return 0
	}
	return list[k-1].cost
}

// harm is what i is in the way of where it lies.
func (x *relaxation) harm(i int32) (sum int64) {
	lo := x.offsets[i]
	hi := lo + ir.Offset(x.in.buffers[i].Size)
	n := len(x.starts)
	for d := range min(relaxNext, n) {
		j := x.starts[(int(x.next[i])+d)%n]
		size := x.in.buffers[j].Size
		if o := x.offsets[j]; o < hi && lo < o+ir.Offset(size) && i != j {
			sum += int64(size>>x.shift) * int64(relaxNext-d)
		}
	}
	return sum
}

// move puts buffer i where it costs least, and reports whether that is elsewhere.
func (x *relaxation) move(i int32) bool {
	p := &x.in.pieces[i]
	size := int64(x.in.buffers[i].Size)
	if x.steps > relaxSteps || size == 0 || p.empty() {
		return false
	}
	if x.harm(i) <= int64(x.in.buffers[i].Size>>x.shift)*relaxNext*relaxHarm {
		return false
	}
	x.spans = x.spans[:0]
	x.occupied(i, p.s, p.e)
	x.occupied(i, p.hs, p.he)
	slices.SortFunc(x.spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	x.neighbours(i)
	best, cost := x.offsets[i], x.costAt(i, x.offsets[i])
	look := func(at ir.Offset) {
		if c := x.costAt(i, at); c < cost || c == cost && at < best {
			best, cost = at, c
		}
	}
	at := int64(0)
	for _, s := range append(x.spans, span{x.peak, x.peak}) {
		if s.lo-at >= size {
			look(ir.Offset(at))
			look(ir.Offset(s.lo - size))
		}
		at = max(at, s.hi)
	}
	moved := best != x.offsets[i]
	x.offsets[i] = best
	return moved
}
