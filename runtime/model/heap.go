package model

import "math"

// One heap serves one raw stream from one growing range:
//
//	0                                               top                  limit
//	|  used  | free |  used  |  free  | used | free |  . . . . . . . . . . .|
//
// A request takes the smallest free block that is large enough; among equals, the one freed
// last if it is smaller than smallUnits, else the lowest address. With nothing large enough
// the range grows by what is missing behind the last block. The rule of the C core (a list
// for each small size, then a tree for the rest) is one order here: free blocks sorted by
// (size, rank, offset), rank falling with every block put in for small ones and 0 for large
// ones. The block to take is the first that is not smaller than the request.

// smallUnits is the size, in units, below which the block freed last is taken first.
const smallUnits = 2048

// block is a free range of a heap, in units.
type block struct {
	off, size uint64
	rank      uint64 // position among small blocks of equal size
}

type growing struct {
	space    uint32
	bySize   *ordered[block]
	byOffset *ordered[block]
	top      uint64 // units
	pages    pages  // what is committed
	puts     uint64 // blocks put in so far
	handle   uint64 // of its stream
	limbo    []limbo
}

func newGrowing(space uint32, handle uint64) *growing {
	return &growing{
		space: space, handle: handle,
		bySize: newOrdered(func(a, b block) bool {
			if a.size != b.size {
				return a.size < b.size
			}
			if a.rank != b.rank {
				return a.rank < b.rank
			}
			return a.off < b.off
		}),
		byOffset: newOrdered(func(a, b block) bool { return a.off < b.off }),
	}
}

// place is where n units would go.
func (h *growing) place(n uint64) uint64 {
	if b, ok := h.bySize.ceiling(block{size: n}); ok {
		return b.off
	}
	if last, ok := h.byOffset.below(block{off: h.top}); ok && last.off+last.size == h.top {
		return last.off
	}
	return h.top
}

// take hands out n units at off, where a free block begins, or the top is.
func (h *growing) take(off, n uint64) {
	if b, ok := h.byOffset.ceiling(block{off: off}); ok && b.off == off {
		h.pull(b)
		if b.size > n {
			h.put(block{off: off + n, size: b.size - n})
		}
	}
	h.top = max(h.top, off+n)
}

// give takes back n units at off and merges them with the free blocks on both sides.
func (h *growing) give(off, n uint64) {
	b := block{off: off, size: n}
	if left, ok := h.byOffset.below(b); ok && left.off+left.size == off {
		h.pull(left)
		b = block{off: left.off, size: left.size + b.size}
	}
	if right, ok := h.byOffset.ceiling(b); ok && right.off == b.off+b.size {
		h.pull(right)
		b.size += right.size
	}
	h.put(b)
}

func (h *growing) put(b block) {
	b.rank = 0
	if b.size < smallUnits {
		h.puts++
		b.rank = math.MaxUint64 - h.puts
	}
	h.bySize.insert(b)
	h.byOffset.insert(b)
}

func (h *growing) pull(b block) {
	if !h.bySize.remove(b) || !h.byOffset.remove(b) {
		panic("BUG: model: free block missing from an order")
	}
}
