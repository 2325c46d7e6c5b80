package simulate

import (
	"slices"

	"stweaver/ir"
)

// expandable is PyTorch's caching allocator with expandable segments: a range of addresses for each
// pool and stream, nine eighths of the device long, to which pages of 2 MiB (small pool) or 20 MiB (large pool) are mapped as needed. Source:
// c10/cuda/CUDACachingAllocator.cpp (ExpandableSegment, get_free_block, find_expandable_block,
// try_allocate_expandable_block, map_block, unmap_block).
//
// A limit is the memory of the device: it is met when a page cannot be had, not when the request's segment
// size would pass it, as under a memory fraction. A driver call is one of cuMemCreate and cuMemMap for each page and
// cuMemSetAccess for each piece mapped, and of cuMemUnmap and cuMemRelease for each page given back.
type expandable struct{ ranges }

func newExpandable(d *driver, _ *Options) model {
	space := Unlimited
	if d.limit < Unlimited {
		space = d.limit/8*9 + d.limit%8*9/8
	}
	return &expandable{ranges{driver: d, space: space,
		page: func(p *pool) ir.Bytes {
			if p.small {
				return kSmallBuffer
			}
			return kLargeBuffer
		},
		calls: func(pages int64) int { return int(2*pages) + 1 },
	}}
}

func (e *expandable) malloc(r request) *block {
	size := r.size
	p := e.pools.get(poolKey{r.stream, r.private, size <= kSmallSize})
	b := p.bestExpandable(size)
	if b == nil {
		if b = e.grow(p, size); b == nil {
			e.release()
			if b = e.grow(p, size); b == nil {
				return nil
			}
		}
	}
	return b.take(size, b.size-size >= ir.Align)
}

func (e *expandable) free(b *block) { b.release() }

// bestExpandable takes the best fit out of the free set, counting a block as large as it can grow, so that
// the end of the range comes last.
func (p *pool) bestExpandable(size ir.Bytes) *block {
	i := p.free.first(size)
	if i == len(p.free) {
		return nil
	}
	for i+1 < len(p.free) && p.free[i+1].reach() < p.free[i].reach() {
		i++
	}
	b := p.free[i]
	p.free.remove(b)
	return b
}

// reach is the size that b can grow to.
func (b *block) reach() ir.Bytes {
	if b.next != nil && b.next.unmapped {
		return b.size + b.next.size
	}
	return b.size
}

// release unmaps every page of the default pool that holds no block in use.
func (e *expandable) release() {
	for _, p := range e.pools.list {
		if p.private != 0 {
			continue // in use by its graph for as long as the trace shows
		}
		page := e.page(p)
		for _, b := range slices.Clone(p.free) {
			if from, to := roundTo(b.at, page), (b.at+b.size)/page*page; from < to {
				e.unmap(b, from, to, int(2*(to-from)/page))
			}
		}
	}
}
