package compiler

import (
	"slices"

	"stweaver/ir"
)

// Alignment of two request sequences by structure, after O. Gotoh's recurrence for affine gaps
// ("An improved algorithm for matching biological sequences", 1982), in a band.
//
//	template  a b c d e f g h i k
//	window    a b c         h i x k        one gap for the missing expert, one extra request
//
// What two requests have in common is measured on how long they live (in requests, exact up to
// eight), on how many frees lie before them, and on their size, but the size is a bonus: where
// the data decides sizes, an alignment by size tears the template apart. A size that both sides
// have equally often is stable; to break one costs more than to match another wins.
//
// A gap costs much to open and little to extend, so that a missing expert is one deletion of
// twenty neighbours. With the same price for each request the deletion would scatter, and
// leave entries with the lifetimes of other operators.
//
//	best[i][j] = max( best[i-1][j-1] + score(i, j),  up[i][j],  left[i][j] )
//	up[i][j]   = max( best[i-1][j] - open, up[i-1][j] - extend )      column i has no partner
//	left[i][j] = max( best[i][j-1] - open, left[i][j-1] - extend )    request j has no partner
//
// Head and tail that are equal are cut off first. The rest runs in a band around the
// diagonal. The way back takes a byte a cell; where that would exceed traceBytes, the rows
// are cut into blocks: a first run keeps only the row before each block, a second one
// works through the blocks from the last to the first. Twice the time, a bounded memory.

// Scores, in hundredths.
const (
	lifeEqual    = 100
	lifeDiffers  = -150
	nfEqual      = 100
	nfDiffers    = -100
	sizeEqual    = 200
	sizeEqualLow = 70 // up to lowSize
	stableBroken = -250
	sizeFar      = -100 // one more than farRatio times the other
	pairWorst    = -150 // a pair below is no pair
	gapOpen      = 400
	gapExtend    = 12

	lowSize  = ir.Bytes(4096)
	farRatio = 6
)

const (
	bandHalf   = 400      // columns on both sides of the diagonal
	traceBytes = 96 << 20 // the way back, at a byte a cell
	maxCells   = 1 << 28  // beyond it the band is narrowed
	none       = -1 << 60
)

// unit is an element of a sequence under alignment. A template column has a bit for each
// life and nf that its members have; a request has one of each.
type unit struct {
	size   ir.Bytes
	stream ir.StreamID
	lives  uint16
	nfs    uint8
	stable bool
}

func unitOf(t token) unit {
	return unit{size: t.size, stream: t.stream, lives: 1 << t.life, nfs: 1 << t.nf}
}

// same reports whether request b could be one more of column a's members, in all respects.
func (a *unit) same(b *unit) bool {
	return a.size == b.size && a.stream == b.stream && a.lives&b.lives != 0 && a.nfs&b.nfs != 0
}

// score of the pair a, b; none where they may not meet.
func score(a, b *unit) int {
	if a.stream != b.stream {
		return none
	}
	s := lifeDiffers
	if a.lives&b.lives != 0 {
		s = lifeEqual
	}
	if a.nfs&b.nfs != 0 {
		s += nfEqual
	} else {
		s += nfDiffers
	}
	switch {
	case a.size == b.size && a.size <= lowSize:
		return s + sizeEqualLow
	case a.size == b.size:
		return s + sizeEqual
	case a.stable || b.stable:
		s += stableBroken
	}
	if max(a.size, b.size) > farRatio*min(a.size, b.size) {
		s += sizeFar
	}
	return s
}

// markStable sets the stable flags of both sequences.
func markStable(a, b []unit) {
	count := make(map[ir.Bytes]int, len(a)/8+1)
	for i := range a {
		count[a[i].size]++
	}
	for i := range b {
		count[b[i].size]--
	}
	for i := range a {
		a[i].stable = count[a[i].size] == 0
	}
	for i := range b {
		b[i].stable = count[b[i].size] == 0
	}
}

// align pairs the elements of a and b: result[j] is the index in a of the partner of b[j],
// or -1. Partners are in ascending order. It sets the stable flags.
func align(a, b []unit) []int {
	pair := make([]int, len(b))
	for j := range pair {
		pair[j] = -1
	}
	markStable(a, b)
	head := 0
	for head < len(a) && head < len(b) && a[head].same(&b[head]) {
		pair[head] = head
		head++
	}
	ta, tb := len(a), len(b)
	for ta > head && tb > head && a[ta-1].same(&b[tb-1]) {
		ta--
		tb--
		pair[tb] = ta
	}
	if ta > head && tb > head {
		g := newGotoh(a[head:ta], b[head:tb], bandHalf, traceBytes)
		g.run(func(i, j int) { pair[head+j] = head + i })
	}
	return pair
}

// gotoh is one alignment in its band. Row i holds the cells j in [lo(i), hi(i)], where i and
// j count the elements consumed.
type gotoh struct {
	a, b      []unit
	half      int  // of the band, beyond the difference of the lengths; at least 1
	steep     bool // the band follows the line between the corners, not the diagonals
	all       bool // report every pair, however bad
	rows      int  // of a block: as many as fit into the trace
	best, up  []int
	trace     []byte
	traceFrom []int // offset in trace of each row of the block
}

// Bits of a trace cell: how best was reached, and whether the gaps were extended.
const (
	viaPair = iota
	viaUp
	viaLeft
	viaMask = 3
	upLong  = 4
	lftLong = 8
)

func newGotoh(a, b []unit, half, traceLimit int) *gotoh {
	g := &gotoh{a: a, b: b, half: half}
	d := len(b) - len(a)
	width := min(2*half+1+max(d, -d), len(b)+1)
	if rows := len(a) + 1; rows*width > maxCells {
		// Too far apart for a band that holds every diagonal between the corners: a narrow
		// one along the line that joins them.
		g.steep = true
		g.half = max(half, maxCells/(2*rows))
		width = min(2*g.half+2+2*len(b)/len(a), len(b)+1)
	}
	g.rows = min(len(a), max(traceLimit/width, 1))
	g.trace = make([]byte, 0, g.rows*width)
	g.best = make([]int, len(b)+1)
	g.up = make([]int, len(b)+1)
	return g
}

func (g *gotoh) lo(i int) int {
	if g.steep {
		return max(0, (i-1)*len(g.b)/len(g.a)-g.half) // what one row's end is to the next
	}
	return max(0, i+min(0, len(g.b)-len(g.a))-g.half)
}

func (g *gotoh) hi(i int) int {
	if g.steep {
		return min(len(g.b), (i*len(g.b)+len(g.a)-1)/len(g.a)+g.half)
	}
	return min(len(g.b), i+max(0, len(g.b)-len(g.a))+g.half)
}

// run aligns and reports each pair that is good enough, the last one first.
func (g *gotoh) run(pair func(i, j int)) {
	n := len(g.a)
	blocks := (n + g.rows - 1) / g.rows
	type row struct{ best, up []int }
	saved := make([]row, blocks) // the row before each block
	g.first()
	for k := range saved {
		lo, hi := g.lo(k*g.rows), g.hi(k*g.rows)
		saved[k] = row{slices.Clone(g.best[lo : hi+1]), slices.Clone(g.up[lo : hi+1])}
		if k < blocks-1 {
			g.block(k*g.rows, (k+1)*g.rows, false)
		}
	}
	i, j, state := n, len(g.b), viaPair
	for k := blocks - 1; k >= 0; k-- {
		from, to := k*g.rows, min((k+1)*g.rows, n)
		for x := range g.best {
			g.best[x], g.up[x] = none, none
		}
		copy(g.best[g.lo(from):], saved[k].best)
		copy(g.up[g.lo(from):], saved[k].up)
		g.block(from, to, true)
		i, j, state = g.back(from, i, j, state, pair)
	}
}

// first sets row 0.
func (g *gotoh) first() {
	for j := range g.best {
		g.best[j], g.up[j] = none, none
	}
	g.best[0] = 0
	for j := 1; j <= g.hi(0); j++ {
		g.best[j] = -gapOpen - (j-1)*gapExtend
	}
}

// block computes the rows (from, to] from row from; with keep it leaves the way back.
func (g *gotoh) block(from, to int, keep bool) {
	if keep {
		g.trace, g.traceFrom = g.trace[:0], g.traceFrom[:0]
	}
	for i := from + 1; i <= to; i++ {
		lo, hi := g.lo(i), g.hi(i)
		var trace []byte
		if keep {
			at := len(g.trace)
			g.traceFrom = append(g.traceFrom, at)
			g.trace = slices.Grow(g.trace, hi-lo+1)[:at+hi-lo+1] // never grows, save for a row wider than the limit
			trace = g.trace[at:]
		}
		g.row(i, lo, hi, trace)
	}
}

func (g *gotoh) row(i, lo, hi int, trace []byte) {
	a := &g.a[i-1]
	diag, left, before := none, none, none // best[i-1][j-1], left[i][j-1], best[i][j-1]
	if lo > 0 {
		diag = g.best[lo-1]
		g.best[lo-1], g.up[lo-1] = none, none // out of the band from here on
	}
	for j := lo; j <= hi; j++ {
		var cell byte
		above := g.best[j]
		up := above - gapOpen
		if u := g.up[j] - gapExtend; u > up {
			up = u
			cell |= upLong
		}
		if l := left - gapExtend; l > before-gapOpen {
			left = l
			cell |= lftLong
		} else {
			left = before - gapOpen
		}
		b := none
		if j > 0 {
			if s := score(a, &g.b[j-1]); s != none {
				b = diag + s
			}
		}
		if up > b {
			b = up
			cell |= viaUp
		}
		if left > b {
			b = left
			cell = cell&^viaMask | viaLeft
		}
		diag, before = above, b
		g.best[j], g.up[j] = b, up
		if trace != nil {
			trace[j-lo] = cell
		}
	}
}

// back walks from cell (i, j) to row from. state says which of the three values of the cell
// the walk is in.
func (g *gotoh) back(from, i, j, state int, pair func(i, j int)) (int, int, int) {
	for i > from {
		cell := g.trace[g.traceFrom[i-from-1]+j-g.lo(i)]
		if state == viaPair {
			state = int(cell & viaMask)
		}
		switch state {
		case viaUp:
			if cell&upLong == 0 {
				state = viaPair
			}
			i--
		case viaLeft:
			if cell&lftLong == 0 {
				state = viaPair
			}
			j--
		default:
			if g.all || score(&g.a[i-1], &g.b[j-1]) >= pairWorst {
				pair(i-1, j-1)
			}
			i, j = i-1, j-1
		}
	}
	return i, j, state
}
