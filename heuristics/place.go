package heuristics

import (
	"math"

	"stweaver/ir"
)

// fit chooses among the gaps that can hold a buffer.
type fit uint8

const (
	firstFit fit = iota // the lowest
	bestFit             // the smallest, the lowest of equals; the open space on top only if no other
)

// The walk. With the lists of a buffer lined up, addr goes up from 0; a list that has a
// span below addr+size moves addr to the end of that span; when no list moves it, the
// buffer fits at addr.
//
//	list 1   ####......####....          size  |-|
//	list 2   ..#####.........##
//	addr     0   4  7                    0, 4, 7: there it fits
//
// addr only ever stands at 0 or at the end of a span, so where it comes to rest a maximal
// gap begins; best fit measures it, remembers the smallest, and walks on from its end.

// settle moves addr up to the next address where size bytes are free in all lists, and
// returns it with the end of the gap that begins there, math.MaxInt64 for the open space
// on top. Afterwards every cursor is at its first span above addr, and lists without one
// are gone. Where addr+size passes ceil the rest does not matter: gap is 0.
func (x *index) settle(addr, size, ceil int64) (at, gap int64) {
	w := x.walk
	top := int64(math.MaxInt64) // the lowest span seen since addr moved
	still := 0                  // lists seen since addr moved
	for k := 0; still < len(w); k++ {
		if k >= len(w) {
			k = 0
		}
		c := &w[k]
		x.steps++
		for c.hi <= addr {
			if c.at++; c.at == c.end {
				break
			}
			s := x.pool[c.at]
			c.lo, c.hi = s.lo, s.hi
			x.steps++
		}
		if c.at == c.end {
			// The last list takes its place; it may have been seen, so start counting
			// anew. Each list ends once, so this is cheap.
			*c = w[len(w)-1]
			w = w[:len(w)-1]
			still, top = 0, math.MaxInt64
			k--
			continue
		}
		if c.lo < addr+size {
			addr = c.hi
			if addr+size > ceil {
				x.walk = w
				return addr, 0
			}
			still, top = 0, math.MaxInt64
			k-- // the same list again: it has moved past its span, or ended
			continue
		}
		top = min(top, c.lo)
		still++
	}
	x.walk = w
	if top < math.MaxInt64 {
		top -= addr
	}
	return addr, top
}

// find returns where the located buffer of that size goes, or -1 if every place the fit
// allows ends above ceil.
func (x *index) find(size, ceil int64, f fit) int64 {
	x.open()
	if size > ceil {
		return -1
	}
	best, bestGap := int64(-1), int64(math.MaxInt64)
	for addr := int64(0); ; {
		at, gap := x.settle(addr, size, ceil)
		switch {
		case gap == 0:
			return best
		case f == firstFit || gap == size:
			return at
		case gap == math.MaxInt64:
			if best < 0 {
				best = at
			}
			return best
		case gap < bestGap:
			best, bestGap = at, gap
		}
		addr = at + gap
	}
}

// bench is one goroutine's place of work: an index and a layout in the making.
type bench struct {
	in    *instance
	index index
	fixed index // what an expansion starts from
	leash leash

	offsets []ir.Offset // by buffer; ir.NoOffset where not placed
	peak    int64
	order   []int32 // scratch for packers
	class   []uint8 // scratch for packers

	// Under rules, see underfit.go.
	tightFirst bool
	ahead      []int32 // units that go before all others
	used       []list  // addresses for apart, by list
}

// leash says how far a try may go. The zero leash lets it run to the end.
type leash struct {
	ceil  func() int64 // the peak above which a try is of no use; asked now and then
	steps int64        // most index steps; 0: no limit
	pops  int64        // most heap entries that a dive looks at; 0: no limit
}

func newBench(in *instance) *bench {
	return &bench{
		in:      in,
		offsets: make([]ir.Offset, len(in.buffers)),
		order:   make([]int32, 0, len(in.buffers)),
		class:   make([]uint8, len(in.buffers)),
	}
}

// asking is how many buffers are placed between two looks at the leash.
const asking = 512

// start empties the place of work.
func (w *bench) start() {
	w.peak = 0
	w.index.reset(len(w.in.load), w.in.trees())
	for i := range w.offsets {
		w.offsets[i] = ir.NoOffset
	}
}

// wanted reports whether the leash lets a try go on.
func (w *bench) wanted() bool {
	if w.leash.ceil != nil && w.peak > w.leash.ceil() {
		return false
	}
	return w.leash.steps == 0 || w.index.steps <= w.leash.steps
}

// pack places the buffers in the given order, each with the fit that choose names. It
// reports false if the leash ended it; what is placed then is of no use.
func (w *bench) pack(order []int32, choose func(id int32) fit) bool {
	w.start()
	return w.fill(order, choose)
}

// fill is pack with what is placed already.
func (w *bench) fill(order []int32, choose func(id int32) fit) bool {
	if w.in.under != nil {
		return w.fillUnder(order, choose)
	}
	ceil := int64(math.MaxInt64)
	for n, id := range order {
		if n%asking == 0 {
			if w.leash.ceil != nil {
				ceil = w.leash.ceil()
			}
			if w.peak > ceil || w.leash.steps > 0 && w.index.steps > w.leash.steps {
				return false
			}
		}
		size := int64(w.in.buffers[id].Size)
		p := w.in.pieces[id]
		if size == 0 || p.empty() { // meets nothing
			w.offsets[id] = 0
			w.peak = max(w.peak, size)
			continue
		}
		w.locate(id)
		at := w.index.find(size, ceil, choose(id))
		if at < 0 {
			return false
		}
		w.takeAt(id, at)
		w.offsets[id] = ir.Offset(at)
		w.peak = max(w.peak, at+size)
	}
	return true
}

// takeAt marks the place of the buffer that was located last: all of it, or part by part
// where it is a box.
func (w *bench) takeAt(id int32, at int64) {
	if w.in.shared != nil {
		w.locateTaken(id)
		w.index.take(at, at+int64(w.in.buffers[id].Size))
		return
	}
	if w.in.parts == nil || w.in.parts[id] == nil {
		w.index.take(at, at+int64(w.in.buffers[id].Size))
		return
	}
	for _, q := range w.in.parts[id] {
		w.index.locate(q.p)
		w.index.take(at+q.lo, at+q.hi)
	}
}
