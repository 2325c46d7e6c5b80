package heuristics

import (
	"fmt"
	"math"

	"stweaver/ir"
)

// Tries on coarse problems. A try of the race is a batch: several orders of the items, the
// best of which is expanded. Inside a batch all is sequential, and what it learns from
// outside is only the ceiling, below which alone a result can win: so which layouts below
// it are found does not depend on when the ceiling became known (portfolio.go).

// A batch is as many coarse tries as place about as many items as there are buffers, within
// limits: it costs about what a flat fit does.
const (
	coarseLeast = 8
	coarseMost  = 64

	// The most heap entries that a dive of one looks at. Where many lives overlap partly it
	// would look at each again and again.
	coarsePops        = 30_000
	coarsePopsPerItem = 30
)

// coarseTry returns try number n of recipe r: a batch of coarse tries, the best of which
// is expanded.
func coarseTry(r, n int) try {
	return try{name: fmt.Sprintf("coarse-%s-%d", recipes[r].name, n), coarse: true, run: func(w *bench) bool {
		c := w.in.coarse(r)
		if c == nil {
			return false
		}
		ceil := w.leash.ceil
		if ceil == nil {
			ceil = func() int64 { return math.MaxInt64 }
		}
		offsets, peak := c.batch(n, ceil)
		return offsets != nil && w.expand(c, offsets, peak)
	}}
}

// batch returns the best of a batch of coarse tries and its peak; nil if none stays within
// the ceiling.
func (c *coarse) batch(n int, ceil func() int64) (offsets []ir.Offset, best int64) {
	best = math.MaxInt64
	b := newBench(c.in)
	b.leash = c.leash(func() int64 { return min(ceil(), best-1) })
	tries := min(max(len(c.rest)/len(c.items), coarseLeast), coarseMost)
	for k := range tries {
		if best <= int64(c.in.bound) || ceil() < 0 {
			break
		}
		if b.coarseSample(n*tries+k, c.dives) {
			best = b.peak
			offsets = append(offsets[:0], b.offsets...)
		}
	}
	if c.climbs && c.dives && len(c.items) <= climbMost && best > int64(c.in.bound) {
		if climbed, peak := c.climb(n, ceil); peak < best {
			return climbed, peak
		}
	}
	return offsets, best
}

// coarseSample is coarse try number i: first the table's fits, then drawn ones.
func (w *bench) coarseSample(i int, dives bool) bool {
	for _, p := range packers {
		if p.coarse && (dives || p.most == 0) {
			if i == 0 {
				return p.run(w)
			}
			i--
		}
	}
	if !dives {
		i *= 2
	}
	return sample(i)(w)
}
