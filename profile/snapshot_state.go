package profile

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"stweaver/ir"
)

// segmentsOf returns the segments of a list.
func (s *snapshot) segmentsOf(v value) []*segment {
	var segs []*segment
	for _, item := range s.itemsOf(v) {
		if item.k == kDict {
			if d := s.dicts.at(int(item.n)); d.shape == shapeSegment {
				segs = append(segs, &s.segments[d.idx])
			}
		}
	}
	return segs
}

// deviceSegments keeps those of the device, ordered by address: the order in which a file
// lists them must not show in the trace.
func (s *snapshot) deviceSegments(all []*segment) []*segment {
	var segs []*segment
	for _, g := range all {
		if g.device == int64(s.device) {
			segs = append(segs, g)
		}
	}
	slices.SortStableFunc(segs, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.size, b.size))
	})
	return segs
}

// pool numbers the private pool of an event: by its pool_id, or where the recorder wrote
// none by the segment that has the address at the end. 0 is the default pool.
func (s *snapshot) pool(pair uint32, addr uint64) uint32 {
	if pair == 0 {
		i, found := slices.BinarySearchFunc(s.segs, addr, func(g *segment, a uint64) int { return cmp.Compare(g.addr, a) })
		if !found {
			i--
		}
		if i < 0 || addr-s.segs[i].addr >= uint64(s.segs[i].size) {
			return 0
		}
		pair = s.segs[i].pool
	}
	if pair <= 1 { // absent, or (0, 0)
		return 0
	}
	n, ok := s.poolNums[pair]
	if !ok {
		n = uint32(len(s.poolNums) + 1)
		s.poolNums[pair] = n
	}
	return n
}

// endState goes through the blocks that are in use at the end. Old blocks have no address
// of their own: they follow each other from the segment's. A block that no event speaks of
// counts with its block size: that is what it keeps from others, and all that every
// generation of snapshots says of it.
func (s *snapshot) endState() error {
	accounted := 0
	for _, g := range s.segs {
		if g.blocks < 0 {
			continue
		}
		at, sum := g.addr, int64(0)
		for _, item := range s.itemsOf(value{uint64(g.blocks), kList}) {
			if item.k != kDict || s.dicts.at(int(item.n)).shape != shapeBlock {
				continue
			}
			b := s.blocks.at(int(s.dicts.at(int(item.n)).idx))
			if err := checkSize(b.size); err != nil {
				return fault("a block of the segment at %#x: %v", g.addr, err.(*Error).Msg)
			}
			if b.has&hasAddr != 0 {
				at = b.addr
			}
			switch b.state {
			case sActiveAllocated, sActivePendingFree, sActiveAwaitingFree:
				if b.size > 0 && s.lives.resident(at, claim{ir.Bytes(b.size), g.stream, g.pool}, b.requested) {
					accounted++
				}
			}
			at += uint64(b.size)
			sum += min(b.size, math.MaxInt64-sum)
		}
		if sum != g.size {
			s.lives.count.brokenBlocks++
		}
	}
	if len(s.segs) > 0 {
		for _, p := range s.lives.places {
			if p.state != placeClosed {
				s.lives.count.vanished++
			}
		}
		s.lives.count.vanished -= accounted
	}
	return nil
}

// held follows what the allocator has from the driver. Only differences are known while
// the events go by; the final state fixes the level.
//
//	bytes          _____
//	  ^      _____|     |___   <- sum of the final segments
//	  |  ___|        net
//	  |  start = final - net, peak = start + the highest net
//	  +-----------------------> events
type held struct {
	net, high int64
	mapped    bool // some of it by segment_map
	seen      bool
}

func (h *held) event(act uint32, size int64) error {
	if err := checkSize(size); err != nil {
		return err
	}
	h.seen = true
	if act == sSegmentMap || act == sSegmentUnmap {
		h.mapped = true
	}
	if act == sSegmentFree || act == sSegmentUnmap {
		size = -size
	}
	if size > 0 && h.net > math.MaxInt64-size || size < 0 && h.net < math.MinInt64-size {
		return fault("the sizes of segments sum to more than 2^63 bytes")
	}
	h.net += size
	h.high = max(h.high, h.net)
	return nil
}

// reserved fills in what the recorded allocator held at most, and which one it was.
func (s *snapshot) reserved() error {
	t := s.trace
	expandable := s.held.mapped
	var final int64
	for _, g := range s.segs {
		if err := checkSize(g.size); err != nil {
			return fault("the segment at %#x: %v", g.addr, err.(*Error).Msg)
		}
		if final > math.MaxInt64-g.size {
			return fault("the sizes of segments sum to more than 2^63 bytes")
		}
		final += g.size
		expandable = expandable || g.expandable
	}
	if v, ok := s.get(s.settings, sExpandableSegments); ok && v.k == kBool && v.n == 1 {
		expandable = true
	}
	t.Allocator = "native"
	if expandable {
		t.Allocator = "expandable"
	}
	if len(s.segs) == 0 && !s.held.seen {
		return nil
	}
	start := final - s.held.net
	if start < 0 {
		t.Notef(ir.Warn, "end-state", "the segments at the end are %d bytes less than the events left", -start)
		start = 0
	}
	if start > math.MaxInt64-s.held.high {
		return fault("the sizes of segments sum to more than 2^63 bytes")
	}
	t.Reserved = ir.Bytes(start + s.held.high)
	return nil
}

// ring decides whether the recorder's ring buffer lost the oldest events. Newer recorders
// say so. Older ones show it by a number of events that is exactly a capacity people set,
// together with frees of blocks whose allocation is not there.
func (s *snapshot) ring() {
	t := s.trace
	said, known := s.perDevice(sOverflowed)
	if known && said == 0 {
		return
	}
	limit, hasLimit := s.perDevice(sMaxEntries)
	unmatched := s.lives.count.unmatched > 0
	switch {
	case known:
		t.Wrapped = true
		t.Notef(ir.Warn, "wrapped", "the recorder's ring buffer overflowed: %d events are left, the oldest are lost", s.total)
	case hasLimit && uint64(s.total) == limit && unmatched,
		!hasLimit && unmatched && roundCap(s.total):
		t.Wrapped = true
		t.Notef(ir.Warn, "wrapped", "exactly %d events with %d frees of blocks allocated earlier: the recorder's ring buffer was full, the oldest are lost",
			s.total, s.lives.count.unmatched)
	}
}

// perDevice reads a setting that may be one value or a list with one for each device.
func (s *snapshot) perDevice(key uint32) (uint64, bool) {
	v, ok := s.get(s.settings, key)
	if items := s.itemsOf(v); ok && (v.k == kList || v.k == kPair) {
		if s.device >= len(items) {
			return 0, false
		}
		v = items[s.device]
	}
	return v.n, ok && (v.k == kInt || v.k == kUint || v.k == kBool)
}

// roundCap tells a capacity that a person would write: one digit and zeros, or a power of
// two; from 1,000 up.
func roundCap(n int) bool {
	if n < 1000 {
		return false
	}
	if bits.OnesCount(uint(n)) == 1 {
		return true
	}
	for n%10 == 0 {
		n /= 10
	}
	return n < 10
}

// bursts finds where the program had cached memory given back (empty_cache): the call is in no event, what it did
// is. Segments are given back in a row either for that, or because the driver refused a new one, which then follows at
// once; and it cannot have refused what, with all that was held, is no more than was held at another time.
type bursts struct {
	open  bool // the last events gave back segments
	last  burst
	found []burst
}

type burst struct {
	at   ir.Tick
	held int64 // before it, and with the segment that follows; in differences, as held has them
	new  bool  // one follows
}

func (b *bursts) event(act uint32, size int64, at ir.Tick, held int64) {
	if act == sSegmentFree || act == sSegmentUnmap {
		if !b.open {
			b.open, b.last = true, burst{at: at, held: held}
		}
		return
	}
	if b.open && act != sOOM {
		if act == sSegmentAlloc || act == sSegmentMap {
			b.last.held, b.last.new = b.last.held+size, true
		}
		b.found = append(b.found, b.last)
	}
	b.open = false
}

func (b *bursts) releases(most int64) (at []ir.Tick) {
	for _, u := range b.found {
		if !u.new || u.held <= most {
			at = append(at, u.at)
		}
	}
	return at
}
