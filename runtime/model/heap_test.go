package model

import (
	"math/rand/v2"
	"testing"
)

// naive is the heap of MATCHER.md word for word, with scans over everything.
type naive struct {
	top   uint64
	used  map[uint64]uint64 // offset to units
	small map[uint64][]uint64
	large map[uint64]uint64
}

func newNaive() *naive {
	return &naive{used: map[uint64]uint64{}, small: map[uint64][]uint64{}, large: map[uint64]uint64{}}
}

func (h *naive) put(off, n uint64) {
	if n < smallUnits {
		h.small[n] = append([]uint64{off}, h.small[n]...)
	} else {
		h.large[off] = n
	}
}

// pull takes the free block for which want is true out, if there is one.
func (h *naive) pull(want func(off, n uint64) bool) (off, n uint64, ok bool) {
	for n, list := range h.small {
		for i, off := range list {
			if want(off, n) {
				h.small[n] = append(append([]uint64{}, list[:i]...), list[i+1:]...)
				return off, n, true
			}
		}
	}
	for off, n := range h.large {
		if want(off, n) {
			delete(h.large, off)
			return off, n, true
		}
	}
	return 0, 0, false
}

func (h *naive) take(u uint64) uint64 {
	off, n, ok := h.choose(u)
	if !ok {
		off, _, ok = h.pull(func(off, n uint64) bool { return off+n == h.top })
		if !ok {
			off = h.top
		}
		n = u
		h.top = off + u
	}
	if n > u {
		h.put(off+u, n-u)
	}
	h.used[off] = u
	return off
}

func (h *naive) choose(u uint64) (off, n uint64, ok bool) {
	if u < smallUnits {
		for n := u; n < smallUnits; n++ {
			if list := h.small[n]; len(list) > 0 {
				h.small[n] = list[1:]
				return list[0], n, true
			}
		}
	}
	for o, size := range h.large {
		if size >= u && (!ok || size < n || size == n && o < off) {
			off, n, ok = o, size, true
		}
	}
	if ok {
		delete(h.large, off)
	}
	return off, n, ok
}

func (h *naive) give(off uint64) {
	n := h.used[off]
	delete(h.used, off)
	if o, size, ok := h.pull(func(o, size uint64) bool { return o+size == off }); ok {
		off, n = o, n+size
	}
	if _, size, ok := h.pull(func(o, _ uint64) bool { return o == off+n }); ok {
		n += size
	}
	h.put(off, n)
}

// The ordered sets do what the rule says, address for address.
func TestHeapAgainstNaive(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		h, ref := newGrowing(1, 0), newNaive()
		var held [][2]uint64
		for step := range 1500 {
			if len(held) > 0 && r.IntN(100) < 47 {
				i := r.IntN(len(held))
				h.give(held[i][0], held[i][1])
				ref.give(held[i][0])
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
				continue
			}
			n := uint64(1 + r.IntN(1+r.IntN(12)))
			switch r.IntN(6) {
			case 0:
				n = uint64(2040 + r.IntN(16))
			case 1:
				n = uint64(1 + r.IntN(6000))
			}
			got := h.place(n)
			h.take(got, n)
			if want := ref.take(n); got != want {
				t.Fatalf("seed %d, step %d: %d units at %d, want %d", seed, step, n, got, want)
			}
			if h.top != ref.top {
				t.Fatalf("seed %d, step %d: top %d, want %d", seed, step, h.top, ref.top)
			}
			held = append(held, [2]uint64{got, n})
		}
	}
}

// A refused growth leaves the heap as it was.
func TestHeapRefusedGrowth(t *testing.T) {
	m, err := New(nil, Options{Granularity: Unit, HeapBytes: 20 * Unit}) // no more than there is
	if err != nil {
		t.Fatal(err)
	}
	a, _ := m.Malloc(10*Unit, 0)
	b, _ := m.Malloc(10*Unit, 0)
	m.Free(b)
	if _, ok := m.Malloc(11*Unit, 0); ok {
		t.Fatal("a refused growth gave memory")
	}
	if at, ok := m.Malloc(10*Unit, 0); !ok || at != b {
		t.Fatalf("the free block is gone: %d, %v", at, ok)
	}
	m.Free(a)
	if at, ok := m.Malloc(10*Unit, 0); !ok || at != a {
		t.Fatalf("the first block is gone: %d, %v", at, ok)
	}
}

// Pages agree with a set of granules, whatever is filled and dropped.
func TestPagesAgainstSet(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		var p pages
		set := make(map[uint64]bool)
		for step := range 400 {
			from := uint64(r.IntN(60))
			to := from + uint64(r.IntN(12))
			var missing uint64
			for g := from; g < to; g++ {
				if !set[g] {
					missing++
				}
			}
			if got := p.missing(from, to); got != missing {
				t.Fatalf("seed %d, step %d: [%d, %d): %d missing, want %d", seed, step, from, to, got, missing)
			}
			if r.IntN(2) == 0 && to > from {
				p.fill(from, to)
				for g := from; g < to; g++ {
					set[g] = true
				}
			} else {
				if got, want := p.drop(from, to), to-from-missing; got != want {
					t.Fatalf("seed %d, step %d: [%d, %d): %d given back, want %d", seed, step, from, to, got, want)
				}
				for g := from; g < to; g++ {
					delete(set, g)
				}
			}
		}
	}
}
