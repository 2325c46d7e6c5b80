package profile

// slab is a list that grows without copying: chunks of slabLen items, never moved.
// A million small records cost their own size, where an append-grown slice would have
// held twice as much while it was copied.
type slab[T any] struct {
	chunks [][]T
	n      int
}

const (
	slabBits = 12
	slabLen  = 1 << slabBits
)

// add appends v and returns its index.
func (s *slab[T]) add(v T) int {
	if s.n&(slabLen-1) == 0 {
		s.chunks = append(s.chunks, make([]T, 0, slabLen))
	}
	last := len(s.chunks) - 1
	s.chunks[last] = append(s.chunks[last], v)
	s.n++
	return s.n - 1
}

// at returns the item with index i, which must exist. The pointer stays good.
func (s *slab[T]) at(i int) *T { return &s.chunks[i>>slabBits][i&(slabLen-1)] }
