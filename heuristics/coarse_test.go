package heuristics

import (
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// TestCoarseTries: what the recipes give is valid on every shape, heads included, and the
// parts of every item are inside its hull and as high as it.
func TestCoarseTries(t *testing.T) {
	ran := map[string]int{}
	for _, s := range shapes {
		for seed := range uint64(6) {
			p := s.draw(seed, 300)
			in := newInstance(p.buffers, p.horizon)
			w := newBench(in)
			for r, recipe := range recipes {
				c := in.coarse(r)
				if c == nil {
					continue
				}
				checkItems(t, in, c)
				for n := range 2 {
					w.leash = leash{}
					if !coarseTry(r, n).run(w) {
						continue // a dive that takes too long
					}
					ran[recipe.name]++
					if bad := violation(p.buffers, ir.Layout{Offsets: w.offsets, Peak: ir.Bytes(w.peak)}); bad != "" {
						t.Fatalf("%s %d: %s, batch %d: %s", s.name, seed, recipe.name, n, bad)
					}
				}
			}
		}
	}
	for _, r := range recipes {
		if ran[r.name] == 0 {
			t.Errorf("recipe %s found nothing to do anywhere", r.name)
		}
	}
}

// checkItems: every buffer is in one item or in the rest, and items hold together.
func checkItems(t *testing.T, in *instance, c *coarse) {
	t.Helper()
	seen := make([]bool, len(in.buffers))
	for k, it := range c.items {
		for j, id := range it.ids {
			if seen[id] || c.rest[id] {
				t.Fatalf("buffer %d is in an item twice, or in the rest too", id)
			}
			seen[id] = true
			if end := it.at[j] + int64(in.buffers[id].Size); end > int64(c.in.buffers[k].Size) {
				t.Fatalf("item %d: member %d ends at %d, the item at %d", k, id, end, c.in.buffers[k].Size)
			}
		}
	}
	for i := range in.buffers {
		if b := &in.buffers[i]; !seen[i] && !c.rest[i] && b.Size > 0 && !in.pieces[i].empty() {
			t.Fatalf("buffer %d is nowhere", i)
		}
	}
}

// TestClusters: the rules that say who joins.
func TestClusters(t *testing.T) {
	buf := func(s, e, hs, he ir.Tick) ir.Buffer {
		return ir.Buffer{Size: 512, Start: s, End: e, HeadStart: hs, HeadEnd: he}
	}
	in := newInstance([]ir.Buffer{
		buf(0, 100, 0, 0), buf(3, 102, 0, 0), buf(5, 90, 0, 0), // the third ends too early
		buf(30, 104, 0, 0),                                            // starts too late
		buf(40, 42, 0, 0),                                             // lives too short
		buf(80, 200, 0, 20), buf(82, 200, 0, 21), buf(84, 200, 0, 60), // heads must agree
	}, 200)
	got := in.clusters(clusterRule{least: 10, most: 1000, gap: 5})
	want := map[int32]int{0: 0, 1: 0, 5: 1, 6: 1}
	group := map[int32]int{}
	for g, ids := range got {
		for _, id := range ids {
			group[id] = g
		}
	}
	if _, ok := group[4]; ok {
		t.Error("a short life is in a group")
	}
	for a, ka := range want {
		for _, b := range []int32{0, 1, 2, 3, 5, 6, 7} {
			kb, grouped := want[b]
			if same := group[a] == group[b]; same != (a == b || grouped && ka == kb) {
				t.Errorf("buffers %d and %d: together %v", a, b, same)
			}
		}
	}
}

// TestBlocks: repeated layers are found whatever goes on around them, solved once, and
// counted.
func TestBlocks(t *testing.T) {
	var tape testkit.Tape
	var keep []int
	for range 20 {
		a := tape.Alloc(4096)
		b := tape.Alloc(1024)
		keep = append(keep, tape.Alloc(512)) // one that stays, in the middle of each
		tape.Free(a)
		c := tape.Alloc(4096)
		tape.Free(b, c)
	}
	for range 300 { // time for the short lives to be short
		tape.Free(tape.Alloc(512))
	}
	tape.Free(keep...)
	buffers, horizon := tape.Done()
	in := newInstance(buffers, horizon)
	blocks, _ := in.regularity()
	if len(blocks) != 1 || blocks[0].Instances != 20 || blocks[0].Members != 3 ||
		blocks[0].Height != 5120 || blocks[0].Load != 5120 || blocks[0].Saved() != 57 {
		t.Errorf("blocks %+v", blocks)
	}
}

// TestRegularityReported: the result carries the repeats where the race looked for them,
// the same ones for any number of workers (TestDeterministic compares all of it).
func TestRegularityReported(t *testing.T) {
	b, h := testkit.Pipeline(1, testkit.Schedule{Layers: 6, Micro: 8, Warm: 4, Iterations: 2, Uneven: true})
	in := newInstance(b, h)
	blocks, groups := in.regularity()
	if len(blocks) == 0 || len(groups) == 0 {
		t.Fatalf("%d block classes, %d group classes", len(blocks), len(groups))
	}
	for _, c := range blocks {
		if c.Instances < 2 || c.Members < blockMembers || c.Height < c.Load {
			t.Errorf("%+v", c)
		}
	}
	for _, g := range groups {
		if g.Members < 2 || g.Instances < 1 || g.TMP < denseTMP || g.TMP > 1 {
			t.Errorf("%+v", g)
		}
	}
}
