// Package testkit generates inputs for tests: packing problems of the shapes that training
// gives, some with a known optimum. Test-only; the same seed gives the same problem on any
// machine.
//
// Every generator returns buffers ordered by Start, sizes that are multiples of ir.Align,
// and the horizon. Ticks are ordinals of allocations, as in ir.Problem, except in
// Rectangle and Periodic, where several buffers start at one tick.
package testkit

import (
	"cmp"
	"slices"

	"stweaver/ir"
)

// Rand is the SplitMix64 generator. The zero value is a valid seed.
type Rand uint64

// Next returns 64 random bits.
func (r *Rand) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number in [0, n); n must be positive.
func (r *Rand) Below(n int) int { return int(r.Next() % uint64(n)) }

// Tape records a run of allocations and frees as buffers. The clock ticks at each
// allocation, so what is freed before the next one ends at its tick.
type Tape struct {
	Buffers []ir.Buffer
	now     ir.Tick
}

// Alloc adds a buffer of n bytes, rounded up, that lives until Free or the end, and
// returns its index.
func (t *Tape) Alloc(n ir.Bytes) int {
	t.Buffers = append(t.Buffers, ir.Buffer{Size: ir.RoundUp(n), Start: t.now, End: ir.Never, Kind: ir.Transient})
	t.now++
	return len(t.Buffers) - 1
}

// Free ends the life of the buffers.
func (t *Tape) Free(ids ...int) {
	for _, id := range ids {
		t.Buffers[id].End = t.now
	}
}

// Now is the tick of the next allocation.
func (t *Tape) Now() ir.Tick { return t.now }

// Done closes what is still open and returns the problem.
func (t *Tape) Done() ([]ir.Buffer, ir.Tick) {
	for i := range t.Buffers {
		if t.Buffers[i].End == ir.Never {
			t.Buffers[i].End = t.now
			t.Buffers[i].Kind = ir.Persistent
		}
	}
	return t.Buffers, t.now
}

// Random makes n buffers, each allocated at its own tick, of up to most units of ir.Align
// and alive for up to life ticks.
func Random(seed uint64, n, most, life int) ([]ir.Buffer, ir.Tick) {
	r := Rand(seed)
	horizon := ir.Tick(n)
	out := make([]ir.Buffer, n)
	for i := range out {
		start := ir.Tick(i)
		out[i] = ir.Buffer{
			Size:  ir.Align * ir.Bytes(1+r.Below(most)),
			Start: start,
			End:   min(start+1+ir.Tick(r.Below(life)), horizon),
			Kind:  ir.Transient,
		}
	}
	return out, horizon
}

// Nested makes n buffers that are freed in the reverse of the order they were made in, as
// calls in calls do. A stack holds them without waste: the optimum is the live peak.
func Nested(seed uint64, n, most int) ([]ir.Buffer, ir.Tick) {
	r := Rand(seed)
	var t Tape
	var stack []int
	for range n {
		for len(stack) > 0 && r.Below(2) == 0 {
			t.Free(stack[len(stack)-1])
			stack = stack[:len(stack)-1]
		}
		stack = append(stack, t.Alloc(ir.Align*ir.Bytes(1+r.Below(most))))
	}
	return t.Done()
}

// Rectangle cuts a rectangle of height units of ir.Align and width ticks into n pieces:
// the optimum is height*ir.Align exactly, and no byte of it is ever free.
func Rectangle(seed uint64, n, height, width int) (buffers []ir.Buffer, horizon ir.Tick, optimum ir.Bytes) {
	r := Rand(seed)
	type rect struct{ t0, t1, a0, a1 int }
	rects := []rect{{0, width, 0, height}}
	for stuck := 0; len(rects) < n && stuck < 100*n; stuck++ {
		k := r.Below(len(rects))
		c := rects[k]
		if w, h := c.t1-c.t0, c.a1-c.a0; r.Below(2) == 0 {
			if w < 2 {
				continue
			}
			at := c.t0 + 1 + r.Below(w-1)
			rects[k].t1 = at
			rects = append(rects, rect{at, c.t1, c.a0, c.a1})
		} else {
			if h < 2 {
				continue
			}
			at := c.a0 + 1 + r.Below(h-1)
			rects[k].a1 = at
			rects = append(rects, rect{c.t0, c.t1, at, c.a1})
		}
	}
	for _, c := range rects {
		buffers = append(buffers, ir.Buffer{
			Size:  ir.Align * ir.Bytes(c.a1-c.a0),
			Start: ir.Tick(c.t0), End: ir.Tick(c.t1), Kind: ir.Transient,
		})
	}
	slices.SortStableFunc(buffers, func(a, b ir.Buffer) int { return cmp.Compare(a.Start, b.Start) })
	return buffers, ir.Tick(width), ir.Align * ir.Bytes(height)
}

// Schedule describes a training run of one pipeline stage.
type Schedule struct {
	Layers     int  // of the stage
	Micro      int  // micro-batches of an iteration
	Warm       int  // forwards before the first backward; 1 is plain gradient accumulation
	Iterations int  // at least one
	Recompute  bool // keep only a layer's input, make the rest again in the backward
	Uneven     bool // layers differ in size
	Prefetch   bool // a batch is loaded at the end of an iteration, and let go in the next
}

// Pipeline makes the requests of a one-forward-one-backward schedule: weights, gradients
// and optimizer state that stay; for each micro-batch and layer the activations that its
// backward needs, transients inside every layer, and an output handed on.
func Pipeline(seed uint64, s Schedule) ([]ir.Buffer, ir.Tick) {
	r := Rand(seed)
	var t Tape
	const mib = 1 << 20
	size := make([]ir.Bytes, s.Layers)
	for l := range size {
		size[l] = 4 * mib
		if s.Uneven {
			size[l] += ir.Bytes(r.Below(64)) * ir.Align * 16
		}
		t.Alloc(3 * size[l]) // weight
		t.Alloc(3 * size[l]) // gradient
	}
	batch := -1
	for it := range max(s.Iterations, 1) {
		saved := make([][]int, s.Micro) // by micro-batch, layer after layer
		layer := func(l int) []int {    // the forward of one layer; returns what it saves
			z := size[l]
			a := t.Alloc(z)
			b := t.Alloc(4 * z)
			tmp := t.Alloc(4*z + ir.Bytes(512))
			c := t.Alloc(2 * z)
			t.Free(tmp)
			d := t.Alloc(2048)
			return []int{a, b, c, d}
		}
		forward := func(m int) {
			in := t.Alloc(2 * mib)
			saved[m] = append(saved[m], in)
			for l := range s.Layers {
				keep := layer(l)
				if s.Recompute {
					t.Free(keep[1:]...)
					keep = keep[:1]
				}
				saved[m] = append(saved[m], keep...)
			}
		}
		backward := func(m int) {
			per := 4
			if s.Recompute {
				per = 1
			}
			grad := t.Alloc(2 * mib)
			for l := s.Layers - 1; l >= 0; l-- {
				keep := saved[m][1+per*l : 1+per*(l+1)]
				var again []int
				if s.Recompute {
					again = layer(l)
				}
				g := t.Alloc(size[l])
				w := t.Alloc(3 * size[l])
				t.Free(w)
				t.Free(again...)
				t.Free(keep...)
				t.Free(grad)
				grad = g
			}
			t.Free(grad, saved[m][0])
		}
		warm := min(max(s.Warm, 1), s.Micro)
		for m := range warm {
			forward(m)
			if batch >= 0 {
				t.Free(batch)
				batch = -1
			}
		}
		for m := range s.Micro {
			backward(m)
			if m+warm < s.Micro {
				forward(m + warm)
			}
		}
		if it == 0 {
			for l := range size {
				t.Alloc(6 * size[l]) // optimizer state, made by the first step
			}
		}
		if s.Prefetch {
			batch = t.Alloc(8 * mib)
		}
		for l := range size { // the step
			t.Free(t.Alloc(size[l]))
		}
	}
	return t.Done()
}

// ConstantLoad draws a family without slack, of which many need more than their live peak: four to six
// buffers are live and fill load units of ir.Align exactly; at each step two of them die and their sum
// is split anew, until there are about n.
func ConstantLoad(r *Rand, n int, load int64) (buffers []ir.Buffer, horizon ir.Tick) {
	live := make([]int, 4+r.Below(3))
	left := load
	for k := range live {
		size := left / int64(len(live)-k)
		if k+1 < len(live) && size > 1 {
			size = 1 + int64(r.Below(int(min(2*size-1, left-int64(len(live)-k-1)))))
		}
		if k+1 == len(live) {
			size = left
		}
		left -= size
		live[k] = len(buffers)
		buffers = append(buffers, ir.Buffer{Size: ir.Bytes(size) * ir.Align})
	}
	t := ir.Tick(1)
	for ; len(buffers)+2 <= n; t++ {
		a, b := r.Below(len(live)), r.Below(len(live)-1)
		if b >= a {
			b++
		}
		sum := int64((buffers[live[a]].Size + buffers[live[b]].Size) / ir.Align)
		cut := 1 + int64(r.Below(int(sum-1)))
		buffers[live[a]].End, buffers[live[b]].End = t, t
		live[a], live[b] = len(buffers), len(buffers)+1
		buffers = append(buffers, ir.Buffer{Start: t, Size: ir.Bytes(cut) * ir.Align}, ir.Buffer{Start: t, Size: ir.Bytes(sum-cut) * ir.Align})
	}
	for _, v := range live {
		buffers[v].End = t
	}
	return buffers, t
}

// Periodic makes a program whose optimum is its live peak: a rectangle of height units of
// ir.Align and copies*n ticks is cut into pieces, and every n ticks another one begins, in the
// next of so many bands. A life is up to copies periods long, and at a steady tick no byte of the
// bands is free. Some residents lie below.
//
//	address
//	  | band 1       [ cut 1 ][ cut 3 ]
//	  | band 0   [ cut 0 ][ cut 2 ][ cut 4 ]
//	  | residents ---------------------------
//	  +--------------------------------------> time
//	             |   |n
func Periodic(seed uint64, pieces, height, n, copies, periods int) (buffers []ir.Buffer, horizon ir.Tick) {
	r := Rand(seed)
	cut, _, _ := Rectangle(r.Next(), pieces, height, n*copies)
	horizon = ir.Tick(n * (periods - 1 + copies))
	for range r.Below(4) {
		buffers = append(buffers, ir.Buffer{Size: ir.Align * ir.Bytes(1+r.Below(height)), End: horizon, Kind: ir.Persistent})
	}
	for k := range periods {
		for _, b := range cut {
			b.Start += ir.Tick(k * n)
			b.End += ir.Tick(k * n)
			buffers = append(buffers, b)
		}
	}
	slices.SortStableFunc(buffers, func(a, b ir.Buffer) int { return cmp.Compare(a.Start, b.Start) })
	return buffers, horizon
}

// Loop makes a prologue of some buffers and one iteration of n buffers in which about one
// of carry is alive at the border: allocated in the loop, alive to its end, and for a
// while, as a head at the same address, at its beginning.
func Loop(seed uint64, n, most, carry int) (buffers []ir.Buffer, l0, l1 ir.Tick) {
	r := Rand(seed)
	l0 = ir.Tick(n / 8)
	l1 = l0 + ir.Tick(n)
	for t := range l1 {
		b := ir.Buffer{Size: ir.Align * ir.Bytes(1+r.Below(most)), Start: t, Kind: ir.Transient}
		switch {
		case t < l0 && r.Below(2) == 0:
			b.End, b.Kind = l1, ir.Persistent
		case t < l0:
			b.End = min(t+1+ir.Tick(r.Below(8)), l0)
		case r.Below(carry) == 0:
			b.End, b.Kind = l1, ir.Carried
			b.HeadStart = l0
			b.HeadEnd = l0 + min(1+ir.Tick(r.Below(n/4+1)), t-l0)
			if b.HeadEnd == b.HeadStart {
				b.HeadStart, b.HeadEnd = 0, 0
			}
		default:
			b.End = min(t+1+ir.Tick(r.Below(n/4+1)), l1)
		}
		buffers = append(buffers, b)
	}
	return buffers, l0, l1
}
