package simulate

import (
	"slices"

	"stweaver/ir"
)

// bestFit is what a caching allocator could be at best without knowing the future: each stream has one
// range of addresses that grows from its first request on, all sizes share it, and a request takes the
// smallest free block that holds it, the lowest of equals, cut to its size. Only when there is none the
// range grows, by what is missing above its highest block. Memory comes in units of 512 bytes: expandable
// segments without pools and pages.
//
// Under a limit the free ends of all ranges are given back before a request fails; holes below them are
// not: no page is that small. A driver call is one growth or one such return.
type bestFit struct{ ranges }

func newBestFit(d *driver, _ *Options) model {
	return &bestFit{ranges{driver: d, space: Unlimited,
		page:  func(*pool) ir.Bytes { return ir.Align },
		calls: func(int64) int { return 1 },
	}}
}

func (h *bestFit) malloc(r request) *block {
	size := r.size
	p := h.pools.get(poolKey{stream: r.stream, private: r.private})
	var b *block
	if i := p.free.first(size); i < len(p.free) {
		b = p.free[i]
		p.free.remove(b)
	} else if b = h.grow(p, size); b == nil {
		h.release()
		if b = h.grow(p, size); b == nil {
			return nil
		}
	}
	return b.take(size, b.size > size)
}

func (h *bestFit) free(b *block) { b.release() }

// release gives back the free end of each range of the default pool.
func (h *bestFit) release() {
	for _, p := range h.pools.list {
		if p.private != 0 {
			continue
		}
		for _, b := range slices.Clone(p.free) {
			if b.next != nil && b.next.unmapped {
				h.unmap(b, b.at, b.at+b.size, 1)
			}
		}
	}
}
