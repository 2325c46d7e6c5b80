//go:build cgo

package stwrt_test

import (
	"maps"
	"slices"
	"testing"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// The plans that the compiler made (testdata/plans: needs, kept space, streams that share, sizes that vary), kept to or not.
func TestParityKept(t *testing.T) {
	sum := make(reached)
	plans := kept(t)
	for k, name := range slices.Sorted(maps.Keys(plans)) {
		p, err := ir.DecodePlan(plans[name])
		if err != nil {
			t.Fatal(err)
		}
		c := &plantest.Case{Plan: compiler.ModelPlan(p)}
		for _, e := range p.Entries {
			life := int(e.Life)
			if e.Life == ir.MaxLife {
				life = plantest.Forever
			}
			c.Life = append(c.Life, life)
		}
		for seed := range plantest.Seeds(*seeds / 20) {
			src := plantest.Seeded(seed + uint64(k)<<32)
			s, err := model.Diverge(c.Script(src, 2+src(3), false), randomSpec(src), seed)
			if err != nil {
				t.Fatal(err)
			}
			o := stwrt.Options{Granularity: 512 << src(13), HeapBytes: 8 << 30, Still: src(4) == 0}
			o.Events = model.EventOptions{On: src(4) > 0, Lag: uint64(src(8)), FailEvery: []uint64{0, 0, 7, 50}[src(4)], Keep: true}
			if src(3) == 0 {
				o.Capacity = c.Plan.Arena + uint64(src(int(c.Plan.Arena/4)))
			}
			w, err := newTwin(c.Plan, o)
			if err == nil && w != nil { // both refuse where granules do not fit
				w.marks = []int{0, 0, 20}[src(3)]
				err = w.play(s, src, hostile([]int{0, 20, 100}[src(3)]))
				sum.add(w.m.Stats())
			}
			closeTwin(w)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
		}
	}
	sum.need(t, "set aside") // see TestParitySetAside
}
