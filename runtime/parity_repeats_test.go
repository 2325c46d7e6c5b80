//go:build cgo

package stwrt_test

import (
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// Plans that repeat, programs that do so as often as they like, with sizes in proportion or not, diverging or not, marks thrown in.
func TestParityRepeats(t *testing.T) {
	sum := make(reached)
	for seed := range plantest.Seeds(*seeds / 4) {
		src := plantest.Seeded(seed)
		r := plantest.Repeating(src)
		times := make([]int, 2+src(4))
		for k := range times {
			times[k] = 1 + src(2*r.Times)
		}
		s, _ := r.Script(times)
		if src(2) == 0 {
			part := int64(1 + src(24))
			from, to := src(len(s.Ops)), src(len(s.Ops))
			for k := from; k < to; k++ {
				if op := &s.Ops[k]; op.Kind == model.OpAlloc && src(8) > 0 {
					op.Size = max(1, op.Size*part/16)
				}
			}
		}
		s, err := model.Diverge(s, randomSpec(src), uint64(seed))
		if err != nil {
			t.Fatal(err)
		}
		w, err := newTwin(r.Plan, stwrt.Options{Granularity: 512 << src(12), HeapBytes: 1 << 30, Still: src(3) == 0})
		if err == nil {
			err = w.play(s, src, hostile([]int{0, 0, 50}[src(3)]))
			sum.add(w.m.Stats())
		}
		closeTwin(w)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	sum.need(t, "dynamic", "restarts", "event records", "event waits", "young waits", "old waits", "event failures", "deferred")
}
