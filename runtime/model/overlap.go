package model

// Span is an address range of the process, [At, At + Bytes).
type Span struct{ At, Bytes uint64 }

// Overlaps replays the lifetimes of s over the addresses its requests were given and counts
// the requests whose range overlapped one that was live: 0, unless an allocator is wrong.
// spans is indexed by request id; a request that got no memory has Bytes 0.
func Overlaps(s *Script, spans []Span) int {
	live := newOrdered(func(a, b Span) bool { return a.At < b.At })
	placed := make([]bool, s.IDs) // in the set: an overlapping request is counted, not added
	count := 0
	for _, op := range s.Ops {
		if op.Kind != OpAlloc && op.Kind != OpFree {
			continue
		}
		r := spans[op.ID]
		switch {
		case r.Bytes == 0:
		case op.Kind == OpAlloc:
			next, after := live.ceiling(r)
			prev, before := live.below(r)
			if after && next.At < r.At+r.Bytes || before && prev.At+prev.Bytes > r.At {
				count++
				continue
			}
			live.insert(r)
			placed[op.ID] = true
		case placed[op.ID]:
			live.remove(r)
		}
	}
	return count
}
