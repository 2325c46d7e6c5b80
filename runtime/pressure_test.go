//go:build cgo

package stwrt_test

import (
	"fmt"
	"slices"
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// pressed is a program of several streams whose heaps together have less memory than they would like, each
// holding idle granules that another one needs.
type pressed struct {
	*twin
	granule, capacity uint64
	held              []placed
	sizes             []uint64 // of what is held
	failures          int
	marked            bool // some frees wait for other streams
}

// touched counts the granules that live blocks touch, from nothing but their addresses.
func (w *pressed) touched() uint64 {
	seen := make(map[model.Addr]bool)
	for i, p := range w.held {
		for g := p.m.Offset / w.granule; g <= (p.m.Offset+w.sizes[i]-1)/w.granule; g++ {
			seen[model.Addr{Space: p.m.Space, Offset: g}] = true
		}
	}
	return uint64(len(seen))
}

// ask makes a request. Where it fails there must have been no way to serve it, and nothing may be left of it.
func (w *pressed) ask(size, stream uint64) error {
	size = (size + model.Unit - 1) &^ (model.Unit - 1)
	before := w.c.Stats()
	p, err := w.malloc(size, stream)
	if err != nil || p.ok {
		if p.ok {
			w.held, w.sizes = append(w.held, p), append(w.sizes, size)
		}
		return err
	}
	w.failures++
	after := w.c.Stats()
	if after.LiveBytes != before.LiveBytes || after.HeapPeakBytes != before.HeapPeakBytes || after.Failed != before.Failed+1 || after.Unknown != before.Unknown {
		return fmt.Errorf("a request that failed has changed\n%+v to\n%+v", before, after)
	}
	if err := w.c.Check(); err != nil || w.marked {
		return err
	}
	touched, needs := w.touched(), (size+2*w.granule-1)/w.granule // at most, wherever it begins
	if after.ReservedBytes > (touched+needs)*w.granule {
		return fmt.Errorf("a request of %d bytes failed with %d bytes reserved, %d granules of %d in use", size, after.ReservedBytes, touched, w.granule)
	}
	if (touched+needs)*w.granule <= w.capacity {
		return fmt.Errorf("a request of %d bytes failed with %d granules of %d in use and a capacity of %d", size, touched, w.granule, w.capacity)
	}
	return nil
}

func (w *pressed) drop(i int) error {
	p := w.held[i]
	w.held, w.sizes = slices.Delete(w.held, i, i+1), slices.Delete(w.sizes, i, i+1)
	return w.free(p)
}

func (w *pressed) play(src plantest.Source, streams, most int) error {
	few := src(3) == 0 // sizes, so many holes are equal
	for step := range 400 {
		var err error
		fill := 70 - 40*(step/60%2) // fills and drains in turn
		switch {
		case len(w.held) == 0 || src(100) < fill:
			size := 1 + src(1<<src(most))
			if few {
				size = (1 + src(3)) * int(w.granule)
			}
			err = w.ask(uint64(size), uint64(src(streams)))
		default:
			i := src(len(w.held))
			if w.marked && src(4) == 0 {
				err = w.recordStream(w.held[i], uint64(src(streams)))
			}
			if err == nil {
				err = w.drop(i)
			}
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	for len(w.held) > 0 {
		if err := w.drop(src(len(w.held))); err != nil {
			return err
		}
	}
	// One more request than there is room for has everybody's frees waited for; an event may fail, or take its time.
	for i := 0; i < 100 && (i == 0 || w.c.Stats().ReservedBytes > 0); i++ {
		if err := w.ask(w.capacity+2*w.granule, 0); err != nil {
			return err
		}
		w.c.Trim()
		w.m.Trim()
	}
	if s := w.c.Stats(); s.ReservedBytes != 0 || s.LiveBytes != 0 {
		return fmt.Errorf("at the end %d bytes are reserved, %d live", s.ReservedBytes, s.LiveBytes)
	}
	return w.compare("the end", "")
}

// Many streams' heaps under one capacity, C beside the model: idle granules of one serve another, a request fails only
// where what lives leaves no room for it, and then without a trace; nothing is lost on the way.
func TestParityPressure(t *testing.T) {
	failures, sum := 0, make(reached)
	for seed := range plantest.Seeds(*seeds / 8) {
		src := plantest.Seeded(seed)
		o := stwrt.Options{Granularity: 512 << src(10), HeapBytes: 1 << 30, Capacity: uint64(1 + src(1<<(18+src(6))))}
		w := &pressed{granule: o.Granularity, capacity: o.Capacity, marked: src(3) == 0}
		o.Events = model.EventOptions{On: w.marked, Lag: uint64(src(20)), FailEvery: []uint64{0, 0, 5}[src(3)]}
		var err error
		if w.twin, err = newTwin(nil, o); err != nil {
			t.Fatal(err)
		}
		err = w.play(src, 1+src(9), 8+src(11))
		failures += w.failures
		sum.add(w.m.Stats())
		closeTwin(w.twin)
		if err != nil {
			t.Fatalf("seed %d (granule %d, capacity %d): %v", seed, w.granule, w.capacity, err)
		}
	}
	if failures == 0 || sum["trims"] == 0 || sum["deferred"] == 0 {
		t.Errorf("%d requests have failed, %d trims, %d deferred", failures, sum["trims"], sum["deferred"])
	}
	t.Logf("%d requests have failed, %d trims, %d deferred", failures, sum["trims"], sum["deferred"])
}
