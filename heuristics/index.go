package heuristics

import "math/bits"

// The occupancy index: which addresses are taken during which sections.
//
// A tree over the sections; each node stands for a range of them. It holds two sorted
// lists of disjoint address intervals, merged where they touch:
//
//	own   the union of the buffers that cover the node's whole range, but not its parent's
//	sub   the union of all buffers that go no higher: those in own here and below
//
//	            sections 0..7                      a buffer alive in 2..6 covers the
//	         /                \                    nodes [2,4) [4,6) [6,7), the shaded
//	     0..3                 4..7                 ones; it is in their own, and in the
//	    /    \               /    \                sub of everything drawn
//	 0..1   [2..3]       [4..5]   6..7
//	                              /  \
//	                            [6]   7
//
// What meets a buffer in time is then in the sub of the nodes it covers and in the own of
// the nodes above them: at most about 4 log2(sections) lists, most of them empty or a
// few intervals long, because merging lets a packed region shrink to one interval. There
// is no deletion; a new try starts from an empty index and reuses the memory.
//
// Against a scan of all that was placed, which is quadratic, a fit of 100,000 requests of a
// training run takes 40 to 500 steps a buffer (the benchmarks print them).

// span is a half-open range of addresses, in bytes.
type span struct{ lo, hi int64 }

// list is a sorted run of spans in index.pool; room is 1<<class spans.
type list struct {
	at, n uint32
	class uint8
}

const noRoom = 255 // class of a list that never had a span

type node struct{ own, sub list }

// index is the tree, or several over the same addresses (shared.go). It belongs to one goroutine.
type index struct {
	leaves int32  // a power of two
	nodes  []node // of each tree 2 × leaves
	pool   []span
	free   [32][]uint32 // places in pool that a list grew out of, by class

	above, covered []int32  // the nodes of the buffer located last
	walk           []cursor // its lists, for the query in progress

	steps int64 // spans and cursors looked at since the last reset: the measure of work
}

// cursor is a position in one list: pool[at:end] is still ahead, and its first span is
// [lo, hi).
type cursor struct {
	lo, hi  int64
	at, end uint32
}

// reset empties the index and sizes it for n sections and so many trees.
func (x *index) reset(n, trees int) {
	x.leaves = 1
	if n > 1 {
		x.leaves = 1 << bits.Len(uint(n-1))
	}
	if len(x.nodes) != trees*int(2*x.leaves) {
		x.nodes = make([]node, trees*int(2*x.leaves))
	}
	for i := range x.nodes {
		x.nodes[i] = node{list{class: noRoom}, list{class: noRoom}}
	}
	x.pool = x.pool[:0]
	for c := range x.free {
		x.free[c] = x.free[c][:0]
	}
	x.steps = 0
}

// locate finds the nodes of p, which must not be empty.
func (x *index) locate(p piece) {
	x.nowhere()
	x.descend(0, 1, 0, x.leaves, p)
}

// nowhere forgets the nodes located last.
func (x *index) nowhere() { x.above, x.covered = x.above[:0], x.covered[:0] }

// also adds the nodes of f in a tree to those that are located.
func (x *index) also(tree int32, f form) {
	for _, p := range f {
		if !p.empty() {
			x.descend(2*x.leaves*tree, 1, 0, x.leaves, p)
		}
	}
}

// descend takes the nodes of p from v down, in the tree whose nodes begin at base.
func (x *index) descend(base, v, lo, hi int32, p piece) {
	if p.s <= lo && hi <= p.e || p.hs <= lo && hi <= p.he {
		x.covered = append(x.covered, base+v)
		return
	}
	x.above = append(x.above, base+v)
	mid := (lo + hi) / 2
	if p.s < mid && lo < p.e || p.hs < mid && lo < p.he {
		x.descend(base, 2*v, lo, mid, p)
	}
	if p.s < hi && mid < p.e || p.hs < hi && mid < p.he {
		x.descend(base, 2*v+1, mid, hi, p)
	}
}

// open lines up the lists of the located buffer for a walk.
func (x *index) open() {
	x.walk = x.walk[:0]
	for _, v := range x.above {
		if l := &x.nodes[v].own; l.n > 0 {
			s := x.pool[l.at]
			x.walk = append(x.walk, cursor{s.lo, s.hi, l.at, l.at + l.n})
		}
	}
	for _, v := range x.covered {
		if l := &x.nodes[v].sub; l.n > 0 {
			s := x.pool[l.at]
			x.walk = append(x.walk, cursor{s.lo, s.hi, l.at, l.at + l.n})
		}
	}
	x.steps += int64(len(x.above) + len(x.covered))
}

// take marks [lo, hi) as occupied for the located buffer.
func (x *index) take(lo, hi int64) {
	for _, v := range x.above {
		x.add(&x.nodes[v].sub, lo, hi)
	}
	for _, v := range x.covered {
		x.add(&x.nodes[v].sub, lo, hi)
		x.add(&x.nodes[v].own, lo, hi)
	}
}

// add puts [lo, hi) into l, merged with the spans that it meets or touches.
func (x *index) add(l *list, lo, hi int64) {
	s := x.pool[l.at : l.at+l.n]
	// i is the first span that does not end before lo, j the first that begins after hi.
	i, j := 0, len(s)
	for i < j {
		if m := int(uint(i+j) / 2); s[m].hi < lo {
			i = m + 1
		} else {
			j = m
		}
	}
	for j = i; j < len(s) && s[j].lo <= hi; j++ {
	}
	if i < j {
		s[i].lo, s[i].hi = min(lo, s[i].lo), max(hi, s[j-1].hi)
		if j > i+1 {
			l.n = uint32(i + 1 + copy(s[i+1:], s[j:]))
		}
		return
	}
	if l.class == noRoom || l.n == 1<<l.class {
		x.grow(l)
	}
	l.n++
	s = x.pool[l.at : l.at+l.n]
	copy(s[i+1:], s[i:])
	s[i] = span{lo, hi}
}

// grow moves l to a place with room for twice as many spans.
func (x *index) grow(l *list) {
	class := uint8(0)
	if l.class != noRoom {
		class = l.class + 1
	}
	var at uint32
	if f := x.free[class]; len(f) > 0 {
		at = f[len(f)-1]
		x.free[class] = f[:len(f)-1]
	} else {
		at = uint32(len(x.pool))
		need := len(x.pool) + 1<<class
		if need > cap(x.pool) {
			bigger := make([]span, len(x.pool), max(2*cap(x.pool), need, 1024))
			copy(bigger, x.pool)
			x.pool = bigger
		}
		x.pool = x.pool[:need]
	}
	copy(x.pool[at:at+l.n], x.pool[l.at:l.at+l.n])
	if l.class != noRoom {
		x.free[l.class] = append(x.free[l.class], l.at)
	}
	l.at, l.class = at, class
}
