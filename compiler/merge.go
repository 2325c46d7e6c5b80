package compiler

import (
	"slices"

	"stweaver/ir"
)

// Merging windows into columns, the template's entries before they have numbers. A window is cut
// at its phase marks into segments; a segment meets the segment of the same name and ordinal. If
// an earlier window has as many requests there and their structure differs in at most one in
// fifty, they pair by position; else they are aligned (align.go). Requests without a partner
// become new columns at their place.
//
// Cost: O(n) where positions pair, O(n × band) where not.

// positionalPct is how many of a hundred positions may differ in structure for segments of
// equal length to pair by position. positionalBack is how many earlier windows are tried.
const (
	positionalPct  = 2
	positionalBack = 8
)

// merger builds the columns.
type merger struct {
	s        *sequence
	start    ir.Tick    // of the first window
	cuts     []ir.Tick  // ends of the windows
	bounds   [][2]int   // of the windows, clocks
	cols     []unit     // size: the last one seen
	colOf    [][]uint32 // column of each request of each window
	segments []segment
	phases   []ir.Mark
	rank     []uint32 // after finish: entry of each column
}

// segment is a stretch of the template between two marks.
type segment struct {
	key   segmentKey
	order []uint32 // columns
	parts []part   // of the windows that have it, in order
}

// part is the segment in one window: clocks, half-open.
type part struct{ window, from, to int }

type segmentKey struct {
	name ir.NameID // 0 before the first mark
	nth  int       // among those of the name in its iteration
}

func newMerger(s *sequence, windows [][2]ir.Tick) *merger {
	m := &merger{s: s, start: windows[0][0], colOf: make([][]uint32, len(windows))}
	for _, w := range windows {
		m.cuts = append(m.cuts, w[1])
		m.bounds = append(m.bounds, [2]int{s.at(w[0]), s.at(w[1])})
	}
	for _, k := range s.t.Marks {
		switch k.Kind {
		case ir.MarkPhase:
			m.phases = append(m.phases, k)
		case ir.MarkIteration: // what was marked at its very border belongs to the last one, and is empty
			for n := len(m.phases); n > 0 && m.phases[n-1].Tick == k.Tick; n-- {
				m.phases = m.phases[:n-1]
			}
		}
	}
	return m
}

// add merges window w.
func (m *merger) add(w int) {
	from, to := m.bounds[w][0], m.bounds[w][1]
	m.colOf[w] = make([]uint32, to-from)
	keys, parts := m.split(w)
	at := 0 // segments before it have been passed
	for i, at2 := range m.matchSegments(keys) {
		if at2 < 0 {
			m.segments = slices.Insert(m.segments, at, segment{key: keys[i]})
			at2 = at
		}
		m.merge(&m.segments[at2], parts[i])
		at = at2 + 1
	}
}

// split cuts window w at its phase marks.
func (m *merger) split(w int) (keys []segmentKey, parts []part) {
	from, to := m.bounds[w][0], m.bounds[w][1]
	keys, parts = []segmentKey{{}}, []part{{w, from, to}}
	seen := make(map[ir.NameID]int)
	for _, k := range m.phases {
		c := m.s.at(k.Tick)
		if c < from || c >= to {
			continue
		}
		last := len(parts) - 1
		parts[last].to = c
		keys = append(keys, segmentKey{k.Name, seen[k.Name]})
		parts = append(parts, part{w, c, to})
		seen[k.Name]++
	}
	return keys, parts
}

// matchSegments gives each key the index of the template segment that it continues, or -1
// for a new one, as seen after the insertions before it. Matches ascend.
func (m *merger) matchSegments(keys []segmentKey) []int {
	index := make(map[segmentKey]int, len(m.segments))
	for i := range m.segments {
		index[m.segments[i].key] = i
	}
	old := make([]int, len(keys))
	for i, k := range keys {
		old[i] = -1
		if j, ok := index[k]; ok {
			old[i] = j
		}
	}
	keep := longestAscending(old)
	inserted := 0
	for i := range old {
		if !keep[i] {
			old[i] = -1
			inserted++
		} else {
			old[i] += inserted
		}
	}
	return old
}

// longestAscending marks a longest strictly ascending subsequence of the values >= 0.
func longestAscending(v []int) []bool {
	tails := []int{} // tails[k]: index of the smallest end of an ascending run of length k+1
	prev := make([]int, len(v))
	for i, x := range v {
		if x < 0 {
			continue
		}
		k, _ := slices.BinarySearchFunc(tails, x, func(t, x int) int { return v[t] - x })
		prev[i] = -1
		if k > 0 {
			prev[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, i)
		} else {
			tails[k] = i
		}
	}
	keep := make([]bool, len(v))
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = prev[i] {
			keep[i] = true
		}
	}
	return keep
}

// merge adds the requests of p to the segment.
func (m *merger) merge(g *segment, p part) {
	base := m.bounds[p.window][0]
	mine := m.colOf[p.window][p.from-base : p.to-base]
	if like := m.positional(g, p); like != nil {
		copy(mine, like)
	} else {
		m.alignInto(g, p, mine)
	}
	for k, c := range mine {
		t := unitOf(m.s.tok[p.from+k])
		u := &m.cols[c]
		u.size, u.lives, u.nfs = t.size, u.lives|t.lives, u.nfs|t.nfs
	}
	g.parts = append(g.parts, p)
}

// positional returns the columns of the latest window that p pairs with by position.
func (m *merger) positional(g *segment, p part) []uint32 {
	n := p.to - p.from
	for back := 1; back <= positionalBack && back <= len(g.parts); back++ {
		q := g.parts[len(g.parts)-back]
		if q.to-q.from != n {
			continue
		}
		off, ok := 0, true
		for k := 0; ok && k < n; k++ {
			a, b := &m.s.tok[q.from+k], &m.s.tok[p.from+k]
			if a.life != b.life || a.nf != b.nf {
				off++
			}
			ok = a.stream == b.stream && off*100 <= positionalPct*n
		}
		if ok {
			base := m.bounds[q.window][0]
			return m.colOf[q.window][q.from-base : q.to-base]
		}
	}
	return nil
}

// alignInto aligns p with the columns of the segment and inserts what has no partner.
func (m *merger) alignInto(g *segment, p part, mine []uint32) {
	a := make([]unit, len(g.order))
	for i, c := range g.order {
		a[i] = m.cols[c]
	}
	b := make([]unit, p.to-p.from)
	for j := range b {
		b[j] = unitOf(m.s.tok[p.from+j])
	}
	order := make([]uint32, 0, len(a)+len(b)/8)
	fresh := func(from, to int) {
		for j := from; j < to; j++ {
			c := uint32(len(m.cols))
			m.cols = append(m.cols, b[j])
			mine[j] = c
			order = append(order, c)
		}
	}
	i, j := 0, 0 // consumed
	for y, x := range align(a, b) {
		if x < 0 {
			continue
		}
		order = append(order, g.order[i:x]...)
		fresh(j, y)
		order = append(order, g.order[x])
		mine[y] = g.order[x]
		i, j = x+1, y+1
	}
	order = append(order, g.order[i:]...)
	fresh(j, len(b))
	g.order = order
}

// finish numbers the columns and fills in all of the template but lives and kinds.
func (m *merger) finish(tm *Template) {
	m.rank = make([]uint32, len(m.cols))
	n := uint32(0)
	for i := range m.segments {
		for _, c := range m.segments[i].order {
			m.rank[c] = n
			n++
		}
	}
	tm.Entries = make([]TemplateEntry, n)
	tm.Member = make([][]uint32, len(m.bounds))
	for w, b := range m.bounds {
		member := make([]uint32, n)
		for i := range member {
			member[i] = NoRequest
		}
		for k, c := range m.colOf[w] {
			tok, e := &m.s.tok[b[0]+k], &tm.Entries[m.rank[c]]
			member[m.rank[c]] = m.s.req[b[0]+k]
			lag := max(e.Lag, m.s.t.Lag(m.s.req[b[0]+k]))
			if e.MaxSize == 0 {
				*e = TemplateEntry{MinSize: tok.size, MaxSize: tok.size, Stream: tok.stream, NfMin: tok.nf, NfMax: tok.nf, Lag: lag}
				continue
			}
			e.Lag = lag
			e.MinSize, e.MaxSize = min(e.MinSize, tok.size), max(e.MaxSize, tok.size)
			e.NfMin, e.NfMax = min(e.NfMin, tok.nf), max(e.NfMax, tok.nf)
		}
		tm.Member[w] = member
	}
	for i := range tm.Entries {
		for w := range tm.Member {
			if tm.Member[w][i] == NoRequest {
				tm.Entries[i].Optional = true
				break
			}
		}
	}
}
