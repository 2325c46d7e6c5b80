package model

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestOrderedAgainstSlice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	set := newOrdered(func(a, b int) bool { return a < b })
	var want []int
	for step := range 30000 {
		v := r.IntN(4000)
		at, found := slices.BinarySearch(want, v)
		grow := 70
		if step > 15000 {
			grow = 30 // shrink to nothing, chunk by chunk
		}
		if r.IntN(100) < grow {
			if !found {
				set.insert(v)
				want = slices.Insert(want, at, v)
			}
		} else {
			if set.remove(v) != found {
				t.Fatalf("step %d: remove(%d) answered %v", step, v, !found)
			}
			if found {
				want = slices.Delete(want, at, at+1)
			}
		}
		v = r.IntN(4100) - 50
		at, _ = slices.BinarySearch(want, v)
		if got, ok := set.ceiling(v); ok != (at < len(want)) || ok && got != want[at] {
			t.Fatalf("step %d: ceiling(%d) = %d, %v", step, v, got, ok)
		}
		if got, ok := set.below(v); ok != (at > 0) || ok && got != want[at-1] {
			t.Fatalf("step %d: below(%d) = %d, %v", step, v, got, ok)
		}
		if set.n != len(want) {
			t.Fatalf("step %d: %d values, want %d", step, set.n, len(want))
		}
	}
}
