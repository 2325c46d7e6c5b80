package solver

import (
	"slices"
	"testing"

	"stweaver/internal/testkit"
)

// TestMemory: a failure covers states like it with a last point at least as high, and no
// others; growing forgets nothing.
func TestMemory(t *testing.T) {
	m := newMemory()
	k := key{7, 9}
	m.note(k, 10, 3, 5)
	for _, c := range []struct {
		key  key
		off  int64
		rank int32
		want bool
	}{
		{k, 10, 3, true}, {k, 10, 4, true}, {k, 11, 0, true}, {k, 10, 2, false}, {k, 9, 5, false},
		{key{7, 8}, 10, 3, false}, {key{6, 9}, 10, 3, false}, {k.with(1), 10, 3, false},
	} {
		if got := m.fails(c.key, c.off, c.rank); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	m.note(k, 12, 0, 5) // says less
	m.note(k, 9, 9, 5)  // says more
	if !m.fails(k, 9, 9) || !m.fails(k, 10, 0) || m.fails(k, 9, 8) {
		t.Error("the lowest last point is not the one that is kept")
	}
	r := testkit.Rand(1)
	var keys []key
	m = newMemory()
	for range 100 {
		keys = append(keys, key{r.Next(), r.Next()})
	}
	for _, k := range keys {
		m.note(k, 1, 1, 1)
	}
	before := 0
	var kept []key
	for _, k := range keys {
		if m.fails(k, 1, 1) {
			before++
			kept = append(kept, k)
		}
	}
	if before < 90 {
		t.Errorf("%d of 100 kept in %d places", before, len(m.slots))
	}
	for range 3 {
		m.grow()
	}
	for _, k := range kept {
		if !m.fails(k, 1, 1) {
			t.Fatalf("key %v is forgotten", k)
		}
	}
}

// TestKeys: the key is that of the unplaced and their lowest places, however they came
// about; ranks of another order are another matter.
func TestKeys(t *testing.T) {
	b, _ := testkit.Random(5, 12, 8, 12)
	items, n := cut(b, nil)
	parts, _ := reduce(items, n, AllSwitches&^(Components|FullSpan))
	p := &parts[0]
	x := newSearch(p, 1<<20, question{on: AllSwitches})
	for i := range x.ids {
		x.ids[i] = int32(i)
	}
	epochs := map[uint64]bool{}
	for _, by := range slices.Concat(orders, sectional) {
		x.by = by
		_, epoch := x.keyOf(x.ids)
		epochs[epoch] = true
	}
	if len(epochs) != len(orders)+len(sectional) {
		t.Error("two orders have one epoch")
	}
	x.key, _ = x.keyOf(x.ids)
	before := x.key
	for n, i := range x.ids[:6] {
		if ok, _ := x.place(i, x.low[i], x.ids[n+1:]); !ok {
			t.Fatal("no room")
		}
		if want, _ := x.keyOf(x.ids[n+1:]); x.key != want {
			t.Fatalf("after %d: the key as it went is not the key from scratch", n+1)
		}
	}
	x.undo(point{})
	if again, _ := x.keyOf(x.ids); again != before {
		t.Error("undo leaves another state")
	}
}
