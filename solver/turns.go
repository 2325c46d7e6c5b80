package solver

import "context"

// One capacity, several ways. None of the orders is best everywhere, nor is it always better
// to peel: a core is smaller, but has lost what would have shown a dead end early. A search
// that went wrong near the root may not come back for ever. So the ways take turns, with 2n
// nodes each at first and twice as many in the next round. What one turn found out to be
// impossible the later ones of its kind know (memo.go).

// verdict on one capacity.
type verdict uint8

const (
	unknown verdict = iota // out of nodes
	fits                   // a layout is there
	refuted                // there is none
)

// tally counts work.
type tally struct{ nodes, backtracks int64 }

func (t *tally) add(u tally) {
	t.nodes += u.nodes
	t.backtracks += u.backtracks
}

// question is what is asked of a part.
type question struct {
	capacity int64 // units
	nodes    int64 // budget
	on       Switches
	flip     bool // look at one of a layout and its mirror image
}

// answer is what came of it.
type answer struct {
	verdict
	offsets []int64 // units, by item, if it fits
	peeled  int
	core    int
	tally
}

// decide asks whether p has a layout of at most q.capacity units.
func (p *part) decide(ctx context.Context, q question) answer {
	return p.inquire(q).goOn(ctx, q.nodes, q.nodes)
}

// inquiry is the work on one question. It can be taken up again: the turns go on where they
// were, with what they remember.
type inquiry struct {
	p             *part
	capacity      int64
	answer        // so far; its tally is that of the last goOn
	whole, peeled *attack
	round, next   int // next is the number of the order whose turn it is
}

// inquire sets up an inquiry.
func (p *part) inquire(q question) *inquiry {
	in := &inquiry{p: p, capacity: q.capacity, answer: answer{core: len(p.items)}}
	if p.load > q.capacity {
		in.verdict = refuted
		return in
	}
	if p.spans() > mostSpans {
		return in
	}
	in.whole = newAttack(p, q, nil, nil)
	if q.on.has(Peel) {
		core, left := p.peel(q.capacity)
		if in.answer.peeled = len(left); len(left) > 0 {
			in.core = len(core)
			in.peeled = newAttack(p, q, core, left)
		}
	}
	return in
}

// goOn begins turns until they have taken that many nodes more, and never takes more than most:
// a turn that is cut short has to be taken again.
func (in *inquiry) goOn(ctx context.Context, nodes, most int64) answer {
	in.tally = tally{}
	if in.verdict != unknown || in.whole == nil {
		return in.answer
	}
	// Rounds: twice the whole, then in turn; where much was peeled, the core alone.
	for ; ; in.round++ {
		for in.next < len(orders) {
			at, k := in.whole, in.round
			if in.peeled != nil {
				switch {
				case in.core <= len(in.p.items)*3/4:
					at = in.peeled
				case k >= 2 && k%2 == 0:
					at, k = in.peeled, (k-2)/2
				case k >= 2:
					k = (k + 1) / 2
				}
			}
			turn := 2 * int64(at.n) << min(k, 40)
			limit := min(turn, most-in.nodes)
			if (limit <= 0 || in.nodes >= nodes) && at.n > 0 {
				return in.answer
			}
			v, t := at.turn(ctx, ordersOf(in.round)[in.next], limit)
			if limit == turn {
				in.next++
			}
			in.add(t)
			switch {
			case v == fits:
				in.verdict, in.offsets = fits, at.layout()
				return in.answer
			case v == refuted:
				in.verdict = refuted
				return in.answer
			case ctx.Err() != nil:
				return in.answer
			}
		}
		in.next = 0
	}
}

// mostSpans is up to where a part is searched: the sum over its items of the sections they
// live in, which is what the lists of the search need.
const mostSpans = 64 << 20

func (p *part) spans() (sum int64) {
	for i := range p.items {
		sum += int64(p.items[i].sections())
	}
	return sum
}

// attack is one way to look at a part at a capacity: its core, reduced again.
type attack struct {
	p        *part
	n        int // items to search
	searches []*search
	parts    []part
	peeled   []int32
	offsets  []int64
	done     int // searches that have found their layout
}

// newAttack sets up the search for the core items of p, or for all where core is nil.
func newAttack(p *part, q question, core, peeled []int32) *attack {
	a := &attack{p: p, peeled: peeled, offsets: make([]int64, len(p.items))}
	var items []item
	add := func(i int) {
		items = append(items, p.items[i])
		items[len(items)-1].id = int32(i)
	}
	if core == nil && peeled == nil {
		for i := range p.items {
			add(i)
		}
	}
	for _, i := range core {
		add(int(i))
	}
	for i := range a.offsets {
		a.offsets[i] = free
	}
	if len(items) == 0 {
		return a
	}
	var placed []grounded
	a.parts, placed = reduce(items, renumber(items), q.on)
	for _, g := range placed {
		a.offsets[g.id] = g.base
	}
	for n := range a.parts {
		sub := &a.parts[n]
		a.n += len(sub.items)
		a.searches = append(a.searches, newSearch(sub, sub.capacity(q.capacity), q))
	}
	return a
}

// turn goes on with the parts that are not done.
func (a *attack) turn(ctx context.Context, by order, limit int64) (verdict, tally) {
	var t tally
	for ; a.done < len(a.searches); a.done++ {
		x := a.searches[a.done]
		v, u := x.turn(ctx, by, limit-t.nodes)
		t.add(u)
		if v != fits {
			return v, t
		}
		sub := &a.parts[a.done]
		for i := range sub.items {
			a.offsets[sub.items[i].id] = sub.base + x.off[i]*sub.unit
		}
	}
	return fits, t
}

// layout is the offsets of all items of the part.
func (a *attack) layout() []int64 {
	a.p.unpeel(a.peeled, a.offsets)
	return a.offsets
}

func newSearch(p *part, capacity int64, q question) *search {
	x := &search{state: *newState(p, capacity, q.on), ids: make([]int32, len(p.items))}
	if q.on.has(Memory) {
		x.memory = newMemory()
	}
	if q.flip && q.on.has(Flip) {
		x.mirror()
	}
	return x
}

// turn searches from nothing, in one order and with a limit of nodes.
func (x *search) turn(ctx context.Context, by order, limit int64) (verdict, tally) {
	if x.p.load > x.capacity {
		return refuted, tally{}
	}
	x.undo(point{})
	x.cands, x.runs, x.sects = x.cands[:0], x.runs[:0], x.sects[:0]
	x.ctx, x.by, x.out = ctx, by, false
	x.nodes, x.backtracks, x.limit = 0, 0, limit
	found := x.run()
	t := tally{x.nodes, x.backtracks}
	switch {
	case found:
		return fits, t
	case x.out:
		return unknown, t
	}
	return refuted, t
}

// run searches the whole part from nothing.
func (x *search) run() bool {
	for i := range x.ids {
		x.ids[i] = int32(i)
	}
	if !x.opens() {
		return false
	}
	if x.on.has(Split) && x.split(0, len(x.ids)) {
		for n, end := 0, len(x.runs); n < end; n++ {
			if !x.fresh(x.runs[n].lo, x.runs[n].hi, 0) {
				return false
			}
		}
		return true
	}
	return x.fresh(0, len(x.ids), 0)
}

// opens makes the tests that place makes, for what holds before anything is placed.
func (x *search) opens() bool {
	for i := range x.p.items {
		if x.low[i]+x.p.items[i].size > x.capacity {
			return false
		}
	}
	return !x.on.has(Inference) || x.fits(0, x.p.sections)
}

// R7, the mirror. Where nothing is fixed, off -> capacity - off - size turns a layout
// upside down and takes none away. So of two buffers that meet, one may be said to be the
// lower. Pushing down keeps who is lower, so canonical order holds; dominance must not move
// the upper one while the lower is not placed (node.go, waits). The two must have no twins:
// an order among twins and an order between the pair might not hold together.

// mirror picks the pair: the two largest that meet and have no twin.
func (x *search) mirror() {
	if x.p.pinned {
		return
	}
	twin := make([]bool, len(x.p.items))
	for i, j := range twins(x.p.items) {
		if j >= 0 {
			twin[i], twin[j] = true, true
		}
	}
	best := int64(0)
	for i := range x.p.items {
		for j := range i {
			a, b := &x.p.items[i], &x.p.items[j]
			if s := min(a.size, b.size); s > best && !twin[i] && !twin[j] && a.meets(b) {
				best, x.lower, x.upper = s, int32(j), int32(i)
			}
		}
	}
}
