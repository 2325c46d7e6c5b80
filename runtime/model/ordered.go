package model

import (
	"iter"
	"sort"
)

// chunkMax is the number of values at which a chunk is split in two. It bounds the copying of
// an insertion; the list of chunks itself is short.
const chunkMax = 256

// ordered is a set of values under a strict order, as a list of sorted chunks:
//
//	[a b c] [d e] [f g h i] …      each chunk non-empty, all in order
//
// Finding is two binary searches, inserting and removing move at most chunkMax values and
// one list of chunks: for 10^5 values that is a few hundred pointers.
type ordered[T any] struct {
	less   func(a, b T) bool
	chunks [][]T
	n      int
}

func newOrdered[T any](less func(a, b T) bool) *ordered[T] { return &ordered[T]{less: less} }

// seek returns the place of the first value that is not less than v; chunk is len(chunks)
// when there is none.
func (o *ordered[T]) seek(v T) (chunk, at int) {
	chunk = sort.Search(len(o.chunks), func(i int) bool {
		c := o.chunks[i]
		return !o.less(c[len(c)-1], v)
	})
	if chunk == len(o.chunks) {
		return chunk, 0
	}
	c := o.chunks[chunk]
	return chunk, sort.Search(len(c), func(i int) bool { return !o.less(c[i], v) })
}

// ceiling returns the first value that is not less than v.
func (o *ordered[T]) ceiling(v T) (T, bool) {
	chunk, at := o.seek(v)
	if chunk == len(o.chunks) {
		var none T
		return none, false
	}
	return o.chunks[chunk][at], true
}

// below returns the last value that is less than v.
func (o *ordered[T]) below(v T) (T, bool) {
	chunk, at := o.seek(v)
	if at > 0 {
		return o.chunks[chunk][at-1], true
	}
	if chunk > 0 {
		c := o.chunks[chunk-1]
		return c[len(c)-1], true
	}
	var none T
	return none, false
}

// all yields the values in order. The set must not change meanwhile.
func (o *ordered[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, c := range o.chunks {
			for _, v := range c {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// insert adds v, which must not be in the set.
func (o *ordered[T]) insert(v T) {
	o.n++
	chunk, at := o.seek(v)
	if chunk == len(o.chunks) {
		if chunk == 0 {
			o.chunks = append(o.chunks, append(make([]T, 0, chunkMax), v))
			return
		}
		chunk--
		at = len(o.chunks[chunk])
	}
	var zero T
	c := append(o.chunks[chunk], zero)
	copy(c[at+1:], c[at:])
	c[at] = v
	o.chunks[chunk] = c
	if len(c) < chunkMax {
		return
	}
	upper := append(make([]T, 0, chunkMax), c[chunkMax/2:]...)
	o.chunks[chunk] = c[:chunkMax/2]
	o.chunks = append(o.chunks, nil)
	copy(o.chunks[chunk+2:], o.chunks[chunk+1:])
	o.chunks[chunk+1] = upper
}

// remove takes v out and reports whether it was there.
func (o *ordered[T]) remove(v T) bool {
	chunk, at := o.seek(v)
	if chunk == len(o.chunks) || o.less(v, o.chunks[chunk][at]) {
		return false
	}
	o.n--
	c := o.chunks[chunk]
	c = append(c[:at], c[at+1:]...)
	if len(c) > 0 {
		o.chunks[chunk] = c
		return true
	}
	o.chunks = append(o.chunks[:chunk], o.chunks[chunk+1:]...)
	return true
}
