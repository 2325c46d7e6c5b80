package simulate

import "stweaver/ir"

// The constants of c10/cuda/CUDACachingAllocator.cpp, under its names.
const (
	kSmallSize     ir.Bytes = 1 << 20  // largest request of the small pool, and what a split of the large pool must leave at least
	kSmallBuffer   ir.Bytes = 2 << 20  // segment of the small pool
	kMinLargeAlloc ir.Bytes = 10 << 20 // from here on a request gets a segment of its own size
	kLargeBuffer   ir.Bytes = 20 << 20 // segment of smaller requests of the large pool
	kRoundLarge    ir.Bytes = 2 << 20  // rounding of a segment's own size
)

// native is PyTorch's caching allocator: segments from cudaMalloc, cut into blocks, best fit
// among the free blocks of one stream in one of two pools. Source: c10/cuda/CUDACachingAllocator.cpp
// (PyTorch 2.13; get_free_block, alloc_block, should_split, try_merge_blocks, release_cached_blocks).
// Among free blocks of equal size the one of the oldest segment is taken, as 2.13 does; versions that
// compare addresses do the same where the driver hands out ascending ones.
type native struct {
	driver   *driver
	pools    pools
	segments uint32
}

func newNative(d *driver, _ *Options) model { return &native{driver: d} }

func (n *native) malloc(r request) *block {
	size := r.size
	p := n.pools.get(poolKey{r.stream, r.private, size <= kSmallSize})
	var b *block
	if i := p.free.first(size); i < len(p.free) {
		b = p.free[i]
		p.free.remove(b)
	} else if b = n.segment(p, size); b == nil {
		n.release()
		if b = n.segment(p, size); b == nil {
			return nil
		}
	}
	rest := b.size - size
	return b.take(size, rest > kSmallSize || p.small && rest >= ir.Align)
}

func (n *native) free(b *block) { b.release() }

// segmentSize is what a request that fits no cached block asks of the driver.
func segmentSize(size ir.Bytes) ir.Bytes {
	switch {
	case size <= kSmallSize:
		return kSmallBuffer
	case size < kMinLargeAlloc:
		return kLargeBuffer
	}
	return roundTo(size, kRoundLarge)
}

func (n *native) segment(p *pool, size ir.Bytes) *block {
	size = segmentSize(size)
	if !n.driver.take(size, 1) {
		return nil
	}
	n.segments++
	return &block{size: size, pool: p, segment: n.segments}
}

// release gives back every segment of the default pool that is one free block.
func (n *native) release() {
	for _, p := range n.pools.list {
		if p.private != 0 {
			continue // in use by its graph for as long as the trace shows
		}
		kept := p.free[:0]
		for _, b := range p.free {
			if b.whole() {
				n.driver.give(b.size, 1)
			} else {
				kept = append(kept, b)
			}
		}
		clear(p.free[len(kept):])
		p.free = kept
	}
}
