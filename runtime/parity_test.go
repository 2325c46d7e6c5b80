//go:build cgo

package stwrt_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

var seeds = flag.Int("seeds", 2000, "random cases of each parity test")

// twin drives the C core and the model together and fails on the first event after which they
// differ: in the address, in what a free answers, in any counter; and at the end in what event
// functions were asked.
type twin struct {
	c     *stwrt.Allocator
	m     *model.Allocator
	arena uintptr
	bases map[uint32]uintptr // of each heap, learnt from its first address
	step  int
	marks int // one in so many blocks, at least 2, is said to be used by another stream, too; 0: none
}

func newTwin(p *model.Plan, o stwrt.Options) (*twin, error) {
	var file []byte
	if p != nil {
		file = plantest.Encode(p)
	}
	c, err := stwrt.New(file, o)
	m, modelErr := model.New(p, model.Options(o))
	if (err == nil) != (modelErr == nil) {
		return nil, fmt.Errorf("creation: C says %v, the model %v", err, modelErr)
	}
	if err != nil {
		return nil, nil
	}
	return &twin{c: c, m: m, arena: c.Arena(), bases: make(map[uint32]uintptr)}, nil
}

// placed is where both put a request.
type placed struct {
	c  uintptr
	m  model.Addr
	ok bool
}

func (w *twin) malloc(size, stream uint64) (placed, error) {
	w.step++
	at := w.c.Malloc(size, stream)
	sym, ok := w.m.Malloc(size, stream)
	if ok != (at != 0) {
		return placed{}, fmt.Errorf("step %d: malloc(%d, stream %#x): C %#x, model %v %v", w.step, size, stream, at, sym, ok)
	}
	if ok {
		base := w.arena
		if sym.Space != 0 {
			var known bool
			if base, known = w.bases[sym.Space]; !known {
				base = at - uintptr(sym.Offset)
				w.bases[sym.Space] = base
			}
		}
		if at != base+uintptr(sym.Offset) {
			return placed{}, fmt.Errorf("step %d: malloc(%d, stream %#x): C at base %+d, model %v (%v)", w.step, size, stream, int64(at-base), sym, w.m.Last())
		}
	}
	return placed{at, sym, ok}, w.compare("malloc", w.m.Last())
}

func (w *twin) free(p placed) error {
	w.step++
	if a, b := w.c.Free(p.c), w.m.Free(p.m); a != b {
		return fmt.Errorf("step %d: free: C %v, model %v", w.step, a, b)
	}
	return w.compare("free", p.m)
}

func (w *twin) recordStream(p placed, stream uint64) error {
	w.step++
	if a, b := w.c.RecordStream(p.c, stream), w.m.RecordStream(p.m, stream); a != b {
		return fmt.Errorf("step %d: record_stream %#x: C %v, model %v", w.step, stream, a, b)
	}
	return w.compare("record_stream", p.m)
}

func (w *twin) mark(kind model.MarkKind, value int64, name string) error {
	w.step++
	w.c.Mark(kind, value, name)
	w.m.Mark(kind, value, name)
	return w.compare("mark", fmt.Sprint(kind, value, name))
}

func (w *twin) compare(what string, detail any) error {
	if c, m := w.c.Stats(), w.m.Stats(); c != m {
		return fmt.Errorf("step %d: %s %v: counters differ\nC     %+v\nmodel %+v", w.step, what, detail, c, m)
	}
	return nil
}

// live compares what both say is handed out.
func (w *twin) live(blocks map[uint32]placed, sizes map[uint32]uint64) error {
	if err := w.c.Check(); err != nil {
		return err
	}
	walk, err := w.c.Walk()
	if err != nil {
		return err
	}
	want := make(map[uintptr]uint64)
	for id, p := range blocks {
		want[p.c] = (sizes[id] + model.Unit - 1) &^ (model.Unit - 1)
	}
	for _, b := range walk {
		if want[b.Address] != b.Size {
			return fmt.Errorf("walk: block %#x of %d bytes, expected %d", b.Address, b.Size, want[b.Address])
		}
	}
	if len(walk) != len(want) {
		return fmt.Errorf("walk: %d blocks, %d are live", len(walk), len(want))
	}
	return w.events()
}

// events compares what the event functions were asked.
func (w *twin) events() error {
	c, m := w.c.EventCalls(), w.m.EventCalls()
	for i := range min(len(c), len(m)) {
		if c[i] != m[i] {
			return fmt.Errorf("event call %d: C %+v, model %+v", i, c[i], m[i])
		}
	}
	if len(c) != len(m) {
		return fmt.Errorf("C has made %d calls of event functions, the model %d", len(c), len(m))
	}
	return nil
}

// hostile is how often an event that no script has is thrown in: one in so many, 0 never.
type hostile int

// play runs s on both, with noise: early, double and unknown frees, absurd sizes, unknown
// streams, marks at random places.
func (w *twin) play(s *model.Script, src plantest.Source, noise hostile) error {
	blocks, sizes := make(map[uint32]placed), make(map[uint32]uint64)
	var order []uint32 // ids ever handed out: what early frees choose from
	dead := placed{c: 512, m: model.Addr{Space: 0, Offset: 1}, ok: true}
	for _, op := range s.Ops {
		if noise > 0 && src(int(noise)) == 0 {
			if err := w.disturb(src, blocks, order, dead, s.Names); err != nil {
				return err
			}
		}
		var err error
		switch op.Kind {
		case model.OpAlloc:
			var p placed
			if p, err = w.malloc(uint64(op.Size), op.Stream); p.ok {
				blocks[op.ID], sizes[op.ID] = p, uint64(op.Size)
				order = append(order, op.ID)
				for err == nil && w.marks > 0 && src(w.marks) == 0 {
					err = w.recordStream(p, s.Ops[src(len(s.Ops))].Stream+uint64(src(2)))
				}
			}
		case model.OpFree:
			if p, ok := blocks[op.ID]; ok {
				delete(blocks, op.ID)
				err = w.free(p)
				dead = p
			}
		case model.OpMark:
			name := ""
			if op.Mark == model.MarkPhase {
				name = s.Names[op.ID]
			}
			err = w.mark(op.Mark, op.Size, name)
		}
		if err != nil {
			return err
		}
	}
	return w.live(blocks, sizes)
}

func (w *twin) disturb(src plantest.Source, blocks map[uint32]placed, order []uint32, dead placed, names []string) error {
	switch src(9) {
	case 8:
		w.step++
		if a, b := w.c.Trim(), w.m.Trim(); a != b {
			return fmt.Errorf("step %d: trim: C gives back %d bytes, the model %d", w.step, a, b)
		}
		return w.compare("trim", "")
	case 0: // an early free; the script's own is left out
		if len(order) > 0 {
			id := order[src(len(order))]
			if p, ok := blocks[id]; ok {
				delete(blocks, id)
				return w.free(p)
			}
		}
	case 1: // a double free, unless the address is live again
		for _, p := range blocks {
			if p.c == dead.c {
				return nil
			}
		}
		return w.free(dead)
	case 2:
		_, err := w.malloc(0, uint64(src(3)))
		return err
	case 3:
		_, err := w.malloc(model.MaxSize+uint64(src(2)), 0)
		return err
	case 4: // a stream the plan does not know, or the next one it does
		p, err := w.malloc(uint64(1+src(1<<16)), uint64(0x9000+src(3)))
		if err != nil || !p.ok {
			return err
		}
		return w.free(p)
	case 5:
		return w.mark(model.MarkIteration, int64(src(4)-1), "")
	case 6:
		return w.mark(model.MarkPhase, 0, append(names, "elsewhere")[src(len(names)+1)])
	case 7: // kinds nobody knows do nothing
		return w.mark(model.MarkKind(3+src(200)), 0, "")
	}
	return nil
}

func closeTwin(w *twin) {
	if w != nil {
		w.c.Close()
	}
}

// In step with the plan, with dynamic sizes and optional entries.
func TestParityInSync(t *testing.T) {
	for seed := range plantest.Seeds(*seeds) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 80, Streams: 3, Guests: seed%2 == 0})
		s := c.Script(src, 3, seed%2 == 0)
		w, err := newTwin(c.Plan, stwrt.Options{Granularity: 4096, HeapBytes: 1 << 30})
		if err == nil {
			err = w.play(s, src, 0)
		}
		closeTwin(w)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// randomSpec draws rates of divergence.
func randomSpec(src plantest.Source) model.Spec {
	rate := func(most int) model.Rate {
		switch src(4) {
		case 0:
			return model.Rate{Percent: float64(1 + src(most))}
		case 1:
			return model.Rate{PerIteration: 1 + src(3)}
		}
		return model.Rate{}
	}
	spec := model.Spec{Late: rate(30), Extra: rate(20), Missing: rate(20), Swap: rate(20), Resize: rate(20)}
	if src(3) == 0 {
		spec.Restart = model.Rate{PerIteration: 1}
	}
	return spec
}

// counters are those of model.Stats that say which way a request went.
var counters = []struct {
	name string
	of   func(*model.Stats) uint64
}{
	{"hits", func(s *model.Stats) uint64 { return s.Hits }},
	{"conflicts", func(s *model.Stats) uint64 { return s.Conflicts }},
	{"too large", func(s *model.Stats) uint64 { return s.TooLarge }},
	{"guests", func(s *model.Stats) uint64 { return s.Guests }},
	{"dynamic", func(s *model.Stats) uint64 { return s.Dynamic }},
	{"unknown", func(s *model.Stats) uint64 { return s.Unknown }},
	{"slow", func(s *model.Stats) uint64 { return s.Slow }},
	{"resyncs", func(s *model.Stats) uint64 { return s.Resyncs }},
	{"zero size", func(s *model.Stats) uint64 { return s.ZeroSize }},
	{"failed", func(s *model.Stats) uint64 { return s.Failed }},
	{"bad free", func(s *model.Stats) uint64 { return s.BadFree }},
	{"restarts", func(s *model.Stats) uint64 { return s.Restarts }},
	{"trims", func(s *model.Stats) uint64 { return s.Trims }},
	{"moves", func(s *model.Stats) uint64 { return s.Moves }},
	{"set aside", func(s *model.Stats) uint64 { return s.SetAside }},
	{"sweeps", func(s *model.Stats) uint64 { return s.Sweeps }},
	{"event records", func(s *model.Stats) uint64 { return s.EventRecords }},
	{"event waits", func(s *model.Stats) uint64 { return s.EventWaits }},
	{"young waits", func(s *model.Stats) uint64 { return s.YoungWaits }},
	{"old waits", func(s *model.Stats) uint64 { return s.EventWaits - s.YoungWaits }},
	{"event failures", func(s *model.Stats) uint64 { return s.EventFailures }},
	{"deferred", func(s *model.Stats) uint64 { return s.Deferred }},
}

// reached sums counters over cases: a parity test that never left the fast path shows nothing.
type reached map[string]uint64

func (r reached) add(s model.Stats) {
	for _, c := range counters {
		r[c.name] += c.of(&s)
	}
}

// need fails t unless some case has moved each counter but those in except.
func (r reached) need(t *testing.T, except ...string) {
	t.Helper()
	for _, c := range counters {
		if r[c.name] == 0 && !slices.Contains(except, c.name) {
			t.Errorf("no case has reached %q", c.name)
		}
	}
	t.Log(r)
}

func playDiverged(src plantest.Source, entries int, sum reached) error {
	c := plantest.New(src, plantest.Config{Entries: entries, Streams: 3, Guests: src(2) == 0, Shared: src(2) == 0, Copies: src(5)})
	s, err := model.Diverge(c.Script(src, 2+src(3), src(2) == 0), randomSpec(src), uint64(src(1<<30)))
	if err != nil {
		return err
	}
	o := stwrt.Options{Granularity: 512 << src(12), HeapBytes: 1 << 30}
	if src(3) == 0 {
		o.Capacity = c.Plan.Arena + uint64(src(1<<22))
	}
	if src(5) == 0 {
		o.HeapBytes = 1 << 20
	}
	o.Still = src(5) == 0
	if src(4) == 0 {
		c.Plan.Capacity = c.Plan.Arena + uint64(src(1<<22))
	}
	o.Events = model.EventOptions{On: src(4) > 0, Lag: uint64(src(8)), FailEvery: []uint64{0, 0, 2, 7, 50}[src(5)], Keep: true}
	w, err := newTwin(c.Plan, o)
	if w == nil {
		return err
	}
	defer closeTwin(w)
	w.marks = []int{0, 3, 20}[src(3)]
	err = w.play(s, src, hostile([]int{0, 4, 20, 100}[src(4)]))
	sum.add(w.m.Stats())
	return err
}

// Out of step in every way there is.
func TestParityDiverged(t *testing.T) {
	sum := make(reached)
	for seed := range plantest.Seeds(*seeds) {
		if err := playDiverged(plantest.Seeded(seed), 80, sum); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	sum.need(t, "restarts", "old waits") // see TestParityLost, TestParityStreams
}

// The same, drawn by rapid, which shrinks a case that fails.
func TestParityRapid(t *testing.T) {
	for range plantest.Seeds(10) {
		rapid.Check(t, func(t *rapid.T) {
			src := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
			if err := playDiverged(src, 30, make(reached)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// foreign is a stretch of requests the plan knows nothing of: streams it has, sizes it may not
// have, and every number of frees between.
func foreign(src plantest.Source, first uint32, streams []uint64, n int) (ops []model.Op) {
	for k := range n {
		id := first + uint32(k)
		ops = append(ops, model.AllocOp(id, int64(1+src(1<<18)), streams[src(len(streams))]))
		for back := src(4); back > 0 && k >= back; back-- {
			ops = append(ops, model.FreeOp(id-uint32(back)))
		}
	}
	return ops
}

// Pieces of the program's requests with foreign ones between: lost, searching, found again.
func TestParityLost(t *testing.T) {
	sum := make(reached)
	for seed := range plantest.Seeds(*seeds / 20) {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 1600, Streams: 3, Static: src(2) == 0, Guests: true})
		s := c.Script(src, 2, src(4) == 0)
		var streams []uint64
		for _, op := range s.Ops {
			if op.Kind == model.OpAlloc && !slices.Contains(streams, op.Stream) {
				streams = append(streams, op.Stream)
			}
		}
		all := &model.Script{Names: s.Names}
		for piece := range uint32(4) {
			from := src(len(s.Ops))
			for _, op := range s.Ops[from : from+src(len(s.Ops)-from)] {
				if op.Kind != model.OpMark {
					op.ID += piece * 2 * s.IDs
				}
				all.Ops = append(all.Ops, op)
			}
			all.Ops = append(all.Ops, foreign(src, (piece*2+1)*s.IDs, streams, min(src(1000), int(s.IDs)))...)
		}
		w, err := newTwin(c.Plan, stwrt.Options{Granularity: 4096, HeapBytes: 4 << 30})
		if err == nil {
			err = w.play(all, src, hostile(500*src(2)))
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sum.add(w.m.Stats())
		closeTwin(w)
	}
	if sum["restarts"] < plantest.Seeds(*seeds/20) {
		t.Errorf("the matcher was lost %d times only", sum["restarts"])
	}
	sum.need(t, "set aside", "zero size", "failed", "bad free", "trims", "event records", "event waits", "young waits", "old waits", "event failures", "deferred")
}
