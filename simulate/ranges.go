package simulate

import "stweaver/ir"

// ranges are the growing address ranges of a model: each pool has one (more, where that is too short), and memory is mapped to
// it page by page. Blocks without memory are unmapped ones; the last block of a range normally is.
//
//	range  | in use | free | in use | free | unmapped …
//	                                   '----------' a request may take both: the free block grows
type ranges struct {
	driver   *driver
	pools    pools
	segments uint32
	space    ir.Bytes              // addresses of a range
	page     func(*pool) ir.Bytes  // unit of mapping
	calls    func(pages int64) int // driver calls that map so many pages
}

// grow maps memory where size bytes of free or unmapped addresses follow each other, lowest first, in a new
// range where there are none, and takes the block out of the free set. What it has mapped before it fails
// stays cached.
func (r *ranges) grow(p *pool, size ir.Bytes) *block {
	b := p.startOf(size)
	if b == nil {
		b = r.reserve(p, size)
	}
	if b.unmapped && !r.mapBlock(b, min(b.size, size)) {
		return nil
	}
	for b.size < size {
		n := b.next
		if !r.mapBlock(n, min(n.size, size-b.size)) {
			return nil
		}
		b = n // which has absorbed b
	}
	p.free.remove(b)
	return b
}

func (p *pool) startOf(size ir.Bytes) *block {
	for _, b := range p.unmapped {
		if b.prev != nil && !b.prev.used {
			b = b.prev
		}
		sum := ir.Bytes(0)
		for n := b; n != nil && !n.used; n = n.next {
			if sum += n.size; sum >= size {
				return b
			}
		}
	}
	return nil
}

func (r *ranges) reserve(p *pool, size ir.Bytes) *block {
	r.segments++
	b := &block{size: roundTo(max(r.space, size), r.page(p)), pool: p, segment: r.segments, unmapped: true}
	p.insertUnmapped(b)
	return b
}

// mapBlock maps the first size bytes of b, in whole pages, and merges them with free neighbours: b is free then.
func (r *ranges) mapBlock(b *block, size ir.Bytes) bool {
	page := r.page(b.pool)
	size = roundTo(size, page)
	if !r.driver.take(size, r.calls(int64(size/page))) {
		return false
	}
	b.pool.removeUnmapped(b)
	if size < b.size {
		b.pool.insertUnmapped(b.split(size))
	}
	b.unmapped = false
	b.release()
	return true
}

// unmap takes the memory of [from, to) from the free block b, which may leave free blocks before and after it.
func (r *ranges) unmap(b *block, from, to ir.Bytes, calls int) {
	p := b.pool
	p.free.remove(b)
	if to < b.at+b.size {
		p.free.insert(b.split(to - b.at))
	}
	if from > b.at {
		low := b
		b = low.split(from - low.at)
		p.free.insert(low)
	}
	b.unmapped = true
	b.absorb(b.prev)
	b.absorb(b.next)
	p.insertUnmapped(b)
	r.driver.give(to-from, calls)
}

// roundTo rounds n up to a multiple of m, a power of two or not.
func roundTo(n, m ir.Bytes) ir.Bytes { return (n + m - 1) / m * m }
