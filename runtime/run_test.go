//go:build cgo

package stwrt_test

import (
	"strings"
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// run executes s on a fresh allocator, and fails the test unless every block held its pattern,
// none overlapped, the core is sound afterwards and nothing is left.
func run(t *testing.T, p *model.Plan, s *model.Script, o stwrt.RunOptions) *stwrt.RunResult {
	t.Helper()
	a, err := stwrt.New(plantest.Encode(p), stwrt.Options{Granularity: 4096, HeapBytes: 1 << 32})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, err := a.Run(s, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.CanaryFaults != 0 {
		t.Fatalf("%d blocks lost their pattern", r.CanaryFaults)
	}
	if o.Threads <= 1 {
		if n := a.Overlaps(s, r); n != 0 {
			t.Fatalf("%d requests overlap a live one", n)
		}
	}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	if live := a.Stats().LiveBytes; live != 0 {
		t.Fatalf("%d bytes are left", live)
	}
	return r
}

// The driver in C puts every request where the model does, and counts the same.
func TestRunAgreesWithModel(t *testing.T) {
	for seed := range plantest.Seeds(300) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 60, Streams: 3})
		s, err := model.Diverge(c.Script(src, 4, true), randomSpec(src), seed)
		if err != nil {
			t.Fatal(err)
		}
		s.Ops = append(s.Ops, model.SnapshotOp(), model.AllocOp(s.IDs, 5, 0), model.SnapshotOp())
		s.IDs++
		got := run(t, c.Plan, s, stwrt.RunOptions{Canary: true, Seed: seed})
		m, err := model.New(c.Plan, model.Options{Granularity: 4096, HeapBytes: 1 << 32})
		if err != nil {
			t.Fatal(err)
		}
		want := m.Run(s)
		if got.Stats != want.Stats {
			t.Fatalf("seed %d: counters differ\nC     %+v\nmodel %+v", seed, got.Stats, want.Stats)
		}
		if len(got.Snapshots) != 2 || got.Snapshots[0] != want.Snapshots[0] || got.Snapshots[1] != want.Snapshots[1] {
			t.Fatalf("seed %d: snapshots differ", seed)
		}
		for id, at := range got.Addresses {
			off, arena := at.Arena()
			class := want.Answers[id].Class
			inArena := want.Addrs[id].Space == 0 && class != 0 && class != model.Failed && class != model.Zero
			if arena != inArena || arena && off != want.Addrs[id].Offset {
				t.Fatalf("seed %d: request %d at %#x, model %v %v", seed, id, uint64(at), want.Addrs[id], want.Answers[id])
			}
		}
	}
}

// Threads that all run the list disturb each other's place in the plan; their memory stays apart.
func TestRunThreads(t *testing.T) {
	for seed := range plantest.Seeds(20) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 300, Streams: 3})
		s, err := model.Diverge(c.Script(src, 10, true), randomSpec(src), seed)
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, c.Plan, s, stwrt.RunOptions{Canary: true, Seed: seed, Threads: 4})
		if len(r.Addresses) != 4*int(s.IDs) {
			t.Fatalf("%d addresses of 4 times %d requests", len(r.Addresses), s.IDs)
		}
	}
}

func TestRunFailedRequests(t *testing.T) {
	a, err := stwrt.New(nil, stwrt.Options{Granularity: 4096, Capacity: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	s := &model.Script{IDs: 2, Ops: []model.Op{
		model.AllocOp(0, 2<<20, 0), model.AllocOp(1, 512, 0), model.FreeOp(0),
	}}
	r, err := a.Run(s, stwrt.RunOptions{Canary: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed != 1 || !r.Addresses[0].Failed() || r.Addresses[1].Failed() || r.Stats.Failed != 1 {
		t.Errorf("failed %d, addresses %v, counted %d; want request 0 alone", r.Failed, r.Addresses, r.Stats.Failed)
	}
}

func TestRunRefuses(t *testing.T) {
	a, err := stwrt.New(nil, stwrt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for want, s := range map[string]*model.Script{
		"freed while not live": {IDs: 1, Ops: []model.Op{model.FreeOp(0)}},
		"request 7 of 1":       {IDs: 1, Ops: []model.Op{model.AllocOp(7, 1, 0)}},
		"zero byte":            {Names: []string{"a\x00b"}},
	} {
		if _, err := a.Run(s, stwrt.RunOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := a.Run(&model.Script{}, stwrt.RunOptions{Threads: 1 << 20}); err == nil {
		t.Error("a million threads are not refused")
	}
	if r, err := a.Run(&model.Script{}, stwrt.RunOptions{}); err != nil || r.Stats.Requests != 0 {
		t.Errorf("the empty script: %v", err)
	}
}

// stack is a plan of layers: n requests of a few sizes, the last one freed first, then again.
// It is what training does: forward keeps, backward gives back.
func stack(n int) *model.Plan {
	p := &model.Plan{}
	at := uint32(0)
	for k := range n {
		size := uint32(2000 + k%7*3000)
		p.Slots = append(p.Slots, model.Slot{Lo: at, Hi: size, Flags: model.Planned})
		p.Entries = append(p.Entries, model.Entry{Slot: uint32(k), NfMax: 3})
		at += size
	}
	p.Arena = uint64(at) * model.Unit
	p.Streams = []model.Stream{{End: p.Arena}}
	return p
}

// stackScript is the script of a stack.
func stackScript(p *model.Plan, iterations int) *model.Script {
	s := &model.Script{}
	for range iterations {
		first := s.IDs
		for _, slot := range p.Slots {
			s.Ops = append(s.Ops, model.AllocOp(s.IDs, int64(slot.Hi)*model.Unit, 0))
			s.IDs++
		}
		for id := s.IDs; id > first; id-- {
			s.Ops = append(s.Ops, model.FreeOp(id-1))
		}
	}
	return s
}

// A pair of malloc and free in step with the plan, as a ratio to malloc(64) and free of the C
// library in the same run. The time holds the driver's walk over its list. "random" is a plan
// whose blocks lie across one another's borders, so that each holds dozens of atoms; the others
// are stacks of so many layers, one atom a block.
func BenchmarkPair(b *testing.B) {
	src := plantest.Seeded(4)
	random := plantest.New(src, plantest.Config{Entries: 4000, Streams: 1, Static: true})
	for _, c := range []struct {
		name   string
		plan   *model.Plan
		script *model.Script
	}{
		{"random", random.Plan, random.Script(src, 50, false)},
		{"stack-16", stack(16), stackScript(stack(16), 10000)},
		{"stack-1000", stack(1000), stackScript(stack(1000), 160)},
		{"stack-30000", stack(30000), stackScript(stack(30000), 5)},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkPair(b, plantest.Encode(c.plan), c.script) })
	}
}

func benchmarkPair(b *testing.B, plan []byte, s *model.Script) {
	var ns, base, hits float64
	var atoms uint64
	runs := 0
	for b.Loop() {
		a, err := stwrt.New(plan, stwrt.Options{})
		if err != nil {
			b.Fatal(err)
		}
		r, err := a.Run(s, stwrt.RunOptions{})
		a.Close()
		if err != nil {
			b.Fatal(err)
		}
		ns += r.NsPerPair
		base += r.BaselineNsPerPair
		hits += float64(r.Stats.Hits) / float64(r.Stats.Requests)
		atoms = r.Stats.Atoms
		runs++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ns/float64(runs), "ns/pair")
	b.ReportMetric(base/float64(runs), "ns/glibc-pair")
	b.ReportMetric(ns/base, "ratio")
	b.ReportMetric(hits/float64(runs), "hits/request")
	b.ReportMetric(float64(atoms), "atoms")
}
