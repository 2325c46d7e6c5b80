package simulate

import (
	"cmp"
	"slices"

	"stweaver/ir"
)

// block is a piece of a segment. The blocks of a segment are linked in the order of their addresses and
// leave no gaps:
//
//	segment  | in use | free | in use |   unmapped   |
//	          prev <- block -> next
//
// Two neighbours are never both free and mapped, nor both unmapped: they would have been merged.
type block struct {
	size       ir.Bytes
	at         ir.Bytes // offset in the segment
	asked      ir.Bytes // in use: the rounded size of the request
	prev, next *block
	pool       *pool
	segment    uint32 // ordinal, by age: no two segments share an address
	used       bool
	unmapped   bool // address space without memory
}

// whole reports whether b is a segment by itself.
func (b *block) whole() bool { return b.prev == nil && b.next == nil }

// pool is what one stream of one private pool (0: the default one) has cached.
//
// PyTorch keeps one set for all streams, with the stream as the leading key: the same blocks are found.
type pool struct {
	poolKey
	free     blockSet
	unmapped []*block // by segment and address
}

type poolKey struct {
	stream  ir.StreamID
	private uint32
	small   bool
}

// pools makes the pools as they are asked for. The order in which they are released must not depend on
// a map's.
type pools struct {
	of   map[poolKey]*pool
	list []*pool
}

func (p *pools) get(k poolKey) *pool {
	q := p.of[k]
	if q == nil {
		if p.of == nil {
			p.of = make(map[poolKey]*pool)
		}
		q = &pool{poolKey: k}
		p.of[k] = q
		p.list = append(p.list, q)
	}
	return q
}

// blockSet holds free blocks by size; equal ones by the age of their segment, then address.
type blockSet []*block

func bySize(a, b *block) int {
	return cmp.Or(cmp.Compare(a.size, b.size), byAddress(a, b))
}

func byAddress(a, b *block) int {
	return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.at, b.at))
}

// first is the index of the smallest block of at least size.
func (s blockSet) first(size ir.Bytes) int {
	i, _ := slices.BinarySearchFunc(s, size, func(b *block, size ir.Bytes) int {
		if b.size < size {
			return -1
		}
		return 1
	})
	return i
}

func (s *blockSet) insert(b *block) {
	i, _ := slices.BinarySearchFunc(*s, b, bySize)
	*s = slices.Insert(*s, i, b)
}

func (s *blockSet) remove(b *block) {
	i, _ := slices.BinarySearchFunc(*s, b, bySize)
	*s = slices.Delete(*s, i, i+1)
}

// split cuts b at size and returns the upper part, which is in no set yet.
func (b *block) split(size ir.Bytes) *block {
	rest := &block{size: b.size - size, at: b.at + size, prev: b, next: b.next, pool: b.pool, segment: b.segment, unmapped: b.unmapped}
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.size = rest, size
	return rest
}

// take marks b as used by a request of size; what it is larger goes back to the pool where cut.
func (b *block) take(size ir.Bytes, cut bool) *block {
	b.used = true
	if cut {
		b.pool.free.insert(b.split(size))
	}
	return b
}

// release puts b into the free set, merged with its free neighbours.
func (b *block) release() {
	b.used = false
	b.absorb(b.prev)
	b.absorb(b.next)
	b.pool.free.insert(b)
}

// absorb makes the neighbour n a part of b where both are free or both unmapped. b is in no set; n leaves its own.
func (b *block) absorb(n *block) {
	if n == nil || n.used || n.unmapped != b.unmapped {
		return
	}
	if n.unmapped {
		b.pool.removeUnmapped(n)
	} else {
		b.pool.free.remove(n)
	}
	if n == b.prev {
		b.at, b.prev = n.at, n.prev
		if b.prev != nil {
			b.prev.next = b
		}
	} else if b.next = n.next; b.next != nil {
		b.next.prev = b
	}
	b.size += n.size
}

func (p *pool) insertUnmapped(b *block) {
	i, _ := slices.BinarySearchFunc(p.unmapped, b, byAddress)
	p.unmapped = slices.Insert(p.unmapped, i, b)
}

func (p *pool) removeUnmapped(b *block) {
	i, _ := slices.BinarySearchFunc(p.unmapped, b, byAddress)
	p.unmapped = slices.Delete(p.unmapped, i, i+1)
}
