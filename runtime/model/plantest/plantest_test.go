package plantest

import (
	"bytes"
	"testing"

	"stweaver/runtime/model"
)

// Plans come out valid, in all their variety, and the same for the same seed.
func TestNew(t *testing.T) {
	var loops, passes, dynamic, optional, carried, streams, marks int
	for seed := range uint64(300) {
		c := New(Seeded(seed), Config{Entries: 60, Streams: 3})
		if again := New(Seeded(seed), Config{Entries: 60, Streams: 3}); !bytes.Equal(Encode(c.Plan), Encode(again.Plan)) {
			t.Fatalf("seed %d: two plans", seed)
		}
		n := len(c.Plan.Entries)
		if int(c.Plan.LoopStart) < n {
			loops++
		} else {
			passes++
		}
		for k, e := range c.Plan.Entries {
			slot := c.Plan.Slots[e.Slot]
			if slot.Flags&model.Planned == 0 {
				dynamic++
			}
			if slot.Flags&model.Optional != 0 {
				optional++
			}
			if int(c.Plan.LoopStart) < n && c.Life[k] != Forever && k+c.Life[k] > n {
				carried++
			}
		}
		if len(c.Plan.Streams) > 1 {
			streams++
		}
		marks += len(c.Plan.Marks)
	}
	for what, n := range map[string]int{"loops": loops, "passes": passes, "dynamic": dynamic, "optional": optional, "carried": carried, "streams": streams, "marks": marks} {
		if n < 50 {
			t.Errorf("%s: %d in 300 plans", what, n)
		}
	}
}
