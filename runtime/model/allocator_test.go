package model_test

import (
	"errors"
	"strings"
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"
)

func newModel(t testing.TB, p *model.Plan, o model.Options) *model.Allocator {
	t.Helper()
	a, err := model.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// spans turns a result's addresses into ranges of one address space for Overlaps.
func spans(s *model.Script, r *model.Result) []model.Span {
	out := make([]model.Span, s.IDs)
	for _, op := range s.Ops {
		if op.Kind != model.OpAlloc {
			continue
		}
		switch r.Answers[op.ID].Class {
		case model.Failed, model.Zero:
		default:
			at := r.Addrs[op.ID]
			out[op.ID] = model.Span{At: uint64(at.Space)<<50 + at.Offset, Bytes: (uint64(op.Size) + 511) &^ 511}
		}
	}
	return out
}

// overlapsBrute counts as model.Overlaps does, against every live range.
func overlapsBrute(s *model.Script, spans []model.Span) int {
	count := 0
	var live []uint32
	for _, op := range s.Ops {
		if op.Kind == model.OpFree {
			for i, id := range live {
				if id == op.ID {
					live = append(live[:i], live[i+1:]...)
					break
				}
			}
		}
		if op.Kind != model.OpAlloc || spans[op.ID].Bytes == 0 {
			continue
		}
		r, hit := spans[op.ID], false
		for _, id := range live {
			hit = hit || spans[id].At < r.At+r.Bytes && r.At < spans[id].At+spans[id].Bytes
		}
		if hit {
			count++
		} else {
			live = append(live, op.ID)
		}
	}
	return count
}

// A program that keeps to the plan gets every planned address, from the first request on,
// without one step of the slow path.
func TestInSync(t *testing.T) {
	for seed := range plantest.Seeds(500) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 150, Streams: 3, Static: true})
		s := c.Script(src, 4, seed%2 == 0)
		st := newModel(t, c.Plan, model.Options{}).Run(s).Stats
		if st.Hits != st.Requests || st.Slow != 0 || st.HeapPeakBytes != 0 || st.Resyncs != 0 {
			t.Fatalf("seed %d: %+v", seed, st)
		}
	}
}

// The same with dynamic entries, as long as nothing optional is left out.
func TestInSyncDynamic(t *testing.T) {
	for seed := range plantest.Seeds(500) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 150, Streams: 3})
		for i := range c.Plan.Slots {
			c.Plan.Slots[i].Flags &^= model.Optional
		}
		st := newModel(t, c.Plan, model.Options{}).Run(c.Script(src, 4, true)).Stats
		if st.Hits+st.Dynamic != st.Requests || st.Slow != 0 {
			t.Fatalf("seed %d: %+v", seed, st)
		}
	}
}

// Whatever happens, no two live blocks overlap and the counters add up.
func TestNeverOverlaps(t *testing.T) {
	conflicts := uint64(0)
	for seed := range plantest.Seeds(500) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 60, Streams: 3})
		spec := model.Spec{Late: model.Rate{Percent: 20}, Extra: model.Rate{Percent: 5}, Missing: model.Rate{Percent: 5},
			Swap: model.Rate{Percent: 5}, Resize: model.Rate{Percent: 5}, Restart: model.Rate{PerIteration: int(seed % 2)}}
		s, err := model.Diverge(c.Script(src, 4, true), spec, seed)
		if err != nil {
			t.Fatal(err)
		}
		a := newModel(t, c.Plan, model.Options{Capacity: c.Plan.Arena + uint64(src(1<<24)) + 1, Granularity: 512})
		r := a.Run(s)
		where := spans(s, r)
		if n := overlapsBrute(s, where); n != 0 {
			t.Fatalf("seed %d: %d requests overlap", seed, n)
		}
		st := r.Stats
		if sum := st.Hits + st.Conflicts + st.TooLarge + st.Dynamic + st.Unknown + st.Failed + st.ZeroSize; sum != st.Requests {
			t.Fatalf("seed %d: %d of %d requests have a class", seed, sum, st.Requests)
		}
		if st.ReservedBytes > c.Plan.Arena+1<<24 || st.PeakLiveBytes > st.PeakReservedBytes {
			t.Fatalf("seed %d: %+v", seed, st)
		}
		conflicts += st.Conflicts
	}
	if conflicts == 0 {
		t.Error("no range was ever found occupied")
	}
}

// Requests of two streams never have the same address at any two times.
func TestStreamsApart(t *testing.T) {
	for seed := range plantest.Seeds(200) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 60, Streams: 3})
		s, err := model.Diverge(c.Script(src, 3, false), model.Spec{Missing: model.Rate{Percent: 10}, Swap: model.Rate{Percent: 10}}, seed)
		if err != nil {
			t.Fatal(err)
		}
		r := newModel(t, c.Plan, model.Options{}).Run(s)
		owner := make(map[model.Addr]uint64)
		for _, op := range s.Ops {
			if op.Kind != model.OpAlloc {
				continue
			}
			for off := uint64(0); off < uint64(op.Size); off += model.Unit {
				at := r.Addrs[op.ID]
				at.Offset += off
				if had, ok := owner[at]; ok && had != op.Stream {
					t.Fatalf("seed %d: %v belongs to streams %#x and %#x", seed, at, had, op.Stream)
				}
				owner[at] = op.Stream
			}
		}
	}
}

func TestOverlapsSees(t *testing.T) {
	s := &model.Script{IDs: 4, Ops: []model.Op{
		model.AllocOp(0, 1, 0), model.AllocOp(1, 1, 0), model.FreeOp(0), model.AllocOp(2, 1, 0), model.AllocOp(3, 1, 0),
	}}
	for _, c := range []struct {
		spans []model.Span
		want  int
	}{
		{[]model.Span{{0, 512}, {512, 512}, {0, 512}, {1024, 512}}, 0},
		{[]model.Span{{0, 1024}, {512, 512}, {0, 512}, {1024, 512}}, 1},
		{[]model.Span{{0, 512}, {512, 512}, {0, 1024}, {0, 0}}, 1},
		{[]model.Span{{0, 512}, {512, 512}, {0, 512}, {100, 1}}, 1},
		{[]model.Span{{0, 512}, {0, 512}, {0, 512}, {0, 512}}, 2},
	} {
		if got := model.Overlaps(s, c.spans); got != c.want {
			t.Errorf("%v: %d overlaps, want %d", c.spans, got, c.want)
		}
		if got := overlapsBrute(s, c.spans); got != c.want {
			t.Errorf("%v: brute force: %d overlaps, want %d", c.spans, got, c.want)
		}
	}
}

func TestFreeTwice(t *testing.T) {
	a := newModel(t, nil, model.Options{})
	at, ok := a.Malloc(1, 0)
	if !ok || !a.Free(at) || a.Free(at) || a.Free(model.Addr{Space: 9, Offset: 512}) {
		t.Fatal("a block can be freed other than once, or an unknown one at all")
	}
	if st := a.Stats(); st.Frees != 1 || st.BadFree != 2 || st.LiveBytes != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestAbsurdSizes(t *testing.T) {
	a := newModel(t, nil, model.Options{})
	for _, size := range []uint64{0, model.MaxSize, model.MaxSize + 1, ^uint64(0)} {
		if at, ok := a.Malloc(size, 0); ok {
			t.Errorf("%d bytes at %v", size, at)
		}
	}
	if st := a.Stats(); st.Requests != 4 || st.ZeroSize != 1 || st.Failed != 3 || st.ReservedBytes != 0 {
		t.Errorf("%+v", st)
	}
}

func TestNewRefuses(t *testing.T) {
	c := plantest.New(plantest.Seeded(3), plantest.Config{Entries: 20, Streams: 2, Static: true})
	if _, err := model.New(c.Plan, model.Options{Capacity: 1}); !errors.Is(err, model.ErrCapacity) {
		t.Errorf("arena above capacity: %v", err)
	}
	if _, err := model.New(nil, model.Options{Granularity: 100}); err == nil {
		t.Error("granularity 100 is accepted")
	}
	bad := *c.Plan
	bad.LoopStart = 1000
	if _, err := model.New(&bad, model.Options{}); err == nil || !strings.Contains(err.Error(), "loop starts at entry 1000") {
		t.Errorf("loop start beyond the end: %v", err)
	}
}
