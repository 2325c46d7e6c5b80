package ir

import (
	"cmp"
	"fmt"
	"slices"
)

// Verify is the oracle: it judges a layout by the buffers alone and shares no index with
// the packers, which think in sections of time. It sweeps time once and asks, at each
// start, a tree over the *addresses* whether anything alive is in the way:
//
//	        start of b at tick t
//	address     |
//	   6 ...... | ........ cover 0
//	   5 ...... | ==a===== cover 1      max over b's range must be 0,
//	   4 ...... | ==a=====              then the range gets +1 until b ends
//	   3 ...... [b          cover 0
//	   2 ...... [b
//
// O(n log n) for n buffers. Its own test is a quadratic check over all pairs.

// Violation is one broken V or R invariant. A and B are the buffers concerned, NoBuffer where there is
// none or only one. Asked is the rule of the user that an R is about; NoRule for a V.
type Violation struct {
	Rule  string
	A, B  BufferID
	Msg   string
	Asked RuleID
}

func (v Violation) String() string {
	if v.Asked != NoRule {
		return fmt.Sprintf("%s, rule %d: %s", v.Rule, v.Asked, v.Msg)
	}
	return v.Rule + ": " + v.Msg
}

// maxViolations caps what one Verify reports.
const maxViolations = 20

// Verify checks l against p, its constraints and r: V1 to V5 and R1 to R8 of doc.go. No violation: the layout may
// be executed. At most 20 violations are returned.
func Verify(p *Problem, r *Rules, l *Layout) []Violation {
	if len(l.Offsets) != len(p.Buffers) {
		return []Violation{{"V1", NoBuffer, NoBuffer, fmt.Sprintf("%d places for %d buffers", len(l.Offsets), len(p.Buffers)), NoRule}}
	}
	var out []Violation
	add := func(rule string, a, b BufferID, format string, args ...any) bool {
		out = append(out, Violation{rule, a, b, fmt.Sprintf(format, args...), NoRule})
		return len(out) < maxViolations
	}
	var peak Bytes
	for i, off := range l.Offsets {
		if off < 0 || Bytes(off)%Align != 0 || Bytes(off) > MaxSize {
			if !add("V1", BufferID(i), NoBuffer, "buffer %d is at offset %d", i, off) {
				return out
			}
			continue
		}
		peak = max(peak, Bytes(off)+p.Buffers[i].Size)
	}
	if len(out) > 0 {
		return out
	}
	if peak != l.Peak {
		add("V4", NoBuffer, NoBuffer, "peak is said to be %d and is %d", l.Peak, peak)
	}
	if r != nil && r.Capacity > 0 && peak > r.Capacity {
		add("V5", NoBuffer, NoBuffer, "peak %d exceeds the capacity of %d", peak, r.Capacity)
	}
	var spans []span
	for i := range p.Buffers {
		b := &p.Buffers[i]
		at := span{id: BufferID(i), from: l.Offsets[i], to: l.Offsets[i] + Offset(b.Size)}
		at.start, at.end = b.Start, b.End
		spans = append(spans, at)
		if b.HasHead() {
			at.start, at.end = b.HeadStart, b.HeadEnd
			spans = append(spans, at)
		}
	}
	for _, c := range overlaps(spans, maxViolations-len(out)) {
		a, b := &p.Buffers[c[0].id], &p.Buffers[c[1].id]
		add("V2", c[0].id, c[1].id, "buffer %d [%d, %d) at %d and buffer %d [%d, %d) at %d, sizes %d and %d, are both alive at tick %d",
			c[0].id, a.Start, a.End, c[0].from, c[1].id, b.Start, b.End, c[1].from, a.Size, b.Size, max(c[0].start, c[1].start))
	}
	switch {
	case !p.Sharing.On:
		out = append(out, verifyStreams(p, l, maxViolations-len(out))...)
	case len(out) == 0: // else who follows whom means nothing: two are there at once
		out = verifyAges(p, l)
	}
	return append(out, verifyConstraints(p, l, maxViolations-len(out))...)
}

// verifyAges checks V3 where streams share.
func verifyAges(p *Problem, l *Layout) (out []Violation) {
	for _, h := range p.Handovers(l) {
		a, b := &p.Buffers[h.From], &p.Buffers[h.To]
		least := a.Distance(b.Stream, p.Sharing.Age)
		if h.Age >= least {
			continue
		}
		out = append(out, Violation{"V3", h.From, h.To, fmt.Sprintf(
			"buffer %d of stream %d at %d ends at %d, and %d ticks later buffer %d of stream %d at %d begins: fewer than %d",
			h.From, a.Stream, l.Offsets[h.From], h.End, h.Age, h.To, b.Stream, l.Offsets[h.To], least), NoRule})
		if len(out) == maxViolations {
			break
		}
	}
	return out
}

// verifyStreams checks V3 by walking the buffers upwards: an address below the highest end
// so far belongs to the stream that end belongs to, or to none.
func verifyStreams(p *Problem, l *Layout, limit int) []Violation {
	if len(p.Streams) < 2 {
		return nil
	}
	order := make([]BufferID, len(p.Buffers))
	for i := range order {
		order[i] = BufferID(i)
	}
	slices.SortFunc(order, func(a, b BufferID) int {
		return cmp.Or(cmp.Compare(l.Offsets[a], l.Offsets[b]), cmp.Compare(a, b))
	})
	var out []Violation
	top := make([]BufferID, len(p.Streams)) // per stream: the buffer with the highest end so far
	end := make([]Offset, len(p.Streams))
	for _, id := range order {
		b := &p.Buffers[id]
		for s := range end {
			if StreamID(s) != b.Stream && end[s] > l.Offsets[id] && len(out) < limit {
				out = append(out, Violation{"V3", top[s], id, fmt.Sprintf(
					"buffer %d of stream %d at [%d, %d) and buffer %d of stream %d at %d share addresses",
					top[s], s, l.Offsets[top[s]], end[s], id, b.Stream, l.Offsets[id]), NoRule})
			}
		}
		if e := l.Offsets[id] + Offset(b.Size); e > end[b.Stream] {
			end[b.Stream], top[b.Stream] = e, id
		}
	}
	return out
}

// Placed is one live range at one address range, for VerifyPlaced.
type Placed struct {
	ID         uint32
	Start, End Tick // half-open
	From, To   Offset
}

// VerifyPlaced returns pairs of items that are alive at a common tick and share an
// address, at most limit of them. It is Verify's sweep for those who have events instead
// of a Problem: the compiler runs it over the recorded events themselves.
func VerifyPlaced(items []Placed, limit int) [][2]Placed {
	spans := make([]span, len(items))
	for i, it := range items {
		spans[i] = span{BufferID(i), it.Start, it.End, it.From, it.To}
	}
	var out [][2]Placed
	for _, c := range overlaps(spans, limit) {
		out = append(out, [2]Placed{items[c[0].id], items[c[1].id]})
	}
	return out
}

type span struct {
	id         BufferID
	start, end Tick
	from, to   Offset
}

// overlaps returns up to limit pairs of spans that meet in time and address. Spans of one
// id are allowed to meet in neither: they are compared like any others.
func overlaps(spans []span, limit int) [][2]span {
	if limit <= 0 || len(spans) == 0 {
		return nil
	}
	edges := make([]Offset, 0, 2*len(spans))
	for _, s := range spans {
		edges = append(edges, s.from, s.to)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	tree := newCover(len(edges))
	rank := func(o Offset) int {
		i, _ := slices.BinarySearch(edges, o)
		return i
	}
	byStart := make([]int, len(spans))
	byEnd := make([]int, len(spans))
	for i := range spans {
		byStart[i], byEnd[i] = i, i
	}
	slices.SortFunc(byStart, func(a, b int) int {
		return cmp.Or(cmp.Compare(spans[a].start, spans[b].start), cmp.Compare(a, b))
	})
	slices.SortFunc(byEnd, func(a, b int) int {
		return cmp.Or(cmp.Compare(spans[a].end, spans[b].end), cmp.Compare(a, b))
	})
	var out [][2]span
	ended := 0
	in := make([]bool, len(spans)) // its cover is counted in the tree
	for n, i := range byStart {
		s := spans[i]
		for ended < len(byEnd) && spans[byEnd[ended]].end <= s.start {
			if j := byEnd[ended]; in[j] {
				tree.add(rank(spans[j].from), rank(spans[j].to), -1)
				in[j] = false
			}
			ended++
		}
		if s.end <= s.start || s.to <= s.from {
			continue
		}
		lo, hi := rank(s.from), rank(s.to)
		if tree.max(lo, hi) > 0 {
			// Rare: name everything alive that is in the way.
			for _, j := range byStart[:n] {
				if o := spans[j]; in[j] && o.from < s.to && s.from < o.to {
					out = append(out, [2]span{o, s})
					if len(out) == limit {
						return out
					}
				}
			}
		}
		tree.add(lo, hi, 1)
		in[i] = true
	}
	return out
}

// cover counts, for each of n cells, how many ranges lie over it: range add, range max,
// O(log n) each, without lazy propagation.
type cover struct {
	size    int
	added   []int32 // pending for the whole subtree
	highest []int32 // max over the subtree, added of the node included
}

func newCover(n int) *cover {
	size := 1
	for size < n {
		size *= 2
	}
	return &cover{size, make([]int32, 2*size), make([]int32, 2*size)}
}

func (c *cover) add(lo, hi int, v int32) { c.addAt(1, 0, c.size, lo, hi, v) }

func (c *cover) addAt(node, from, to, lo, hi int, v int32) {
	if hi <= from || to <= lo {
		return
	}
	if lo <= from && to <= hi {
		c.added[node] += v
		c.highest[node] += v
		return
	}
	mid := (from + to) / 2
	c.addAt(2*node, from, mid, lo, hi, v)
	c.addAt(2*node+1, mid, to, lo, hi, v)
	c.highest[node] = c.added[node] + max(c.highest[2*node], c.highest[2*node+1])
}

func (c *cover) max(lo, hi int) int32 { return c.maxAt(1, 0, c.size, lo, hi) }

func (c *cover) maxAt(node, from, to, lo, hi int) int32 {
	if hi <= from || to <= lo {
		return 0
	}
	if lo <= from && to <= hi {
		return c.highest[node]
	}
	mid := (from + to) / 2
	return c.added[node] + max(c.maxAt(2*node, from, mid, lo, hi), c.maxAt(2*node+1, mid, to, lo, hi))
}
