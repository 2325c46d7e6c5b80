package ir_test

import (
	"errors"
	"reflect"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"stweaver/ir"
)

// The records live in flat slices of up to 10^6: their size is a decision, and a pointer
// in them would make the collector look at each.
func TestRecordSizes(t *testing.T) {
	for _, c := range []struct {
		v    any
		size uintptr
	}{
		{ir.Request{}, 48}, {ir.Mark{}, 24}, {ir.Buffer{}, 48}, {ir.Entry{}, 40}, {ir.EntryMark{}, 24},
		{ir.Event{}, 40}, {ir.Slot{}, 32}, {ir.PlanEntry{}, 12}, {ir.PlanMark{}, 24}, {ir.PlanStream{}, 24},
	} {
		typ := reflect.TypeOf(c.v)
		if typ.Size() != c.size {
			t.Errorf("%v has %d bytes, decided: %d", typ, typ.Size(), c.size)
		}
		for i := range typ.NumField() {
			switch typ.Field(i).Type.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map, reflect.String, reflect.Interface:
				t.Errorf("%v.%s is a pointer", typ, typ.Field(i).Name)
			}
		}
	}
	_ = unsafe.Sizeof(0)
}

func TestRoundUp(t *testing.T) {
	for n, want := range map[ir.Bytes]ir.Bytes{0: 0, 1: 512, 512: 512, 513: 1024, ir.MaxSize: ir.MaxSize, ir.MaxSize - 1: ir.MaxSize} {
		if got := ir.RoundUp(n); got != want {
			t.Errorf("RoundUp(%d) = %d, want %d", n, got, want)
		}
	}
}

// A block with only a free event was alive from the start: [free X 100][alloc Y 50][free Y]
// has a peak of both (pytorch/pytorch#179489).
func TestLivePeakCountsWhatWasThere(t *testing.T) {
	tr := &ir.Trace{Names: []string{""}, Streams: []uint64{0, 5}, Events: 3, Requests: []ir.Request{
		{Size: 1000, Alloc: ir.Before, FreeRequested: 2, Free: 2}, {Size: 500, Alloc: 0, FreeRequested: 1, Free: 1, Stream: 1},
	}}
	if err := tr.Check(); err != nil {
		t.Fatal(err)
	}
	if peak, at := tr.LivePeak(); peak != 1024+512 || at != 0 {
		t.Errorf("peak %d at %v", peak, at)
	}
	if got := tr.StreamPeaks(); got[0] != 1024 || got[1] != 512 {
		t.Errorf("stream peaks %v", got)
	}
}

func TestDigestIgnoresWhatDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawTrace(t)
		b := *a
		b.Streams, b.Format, b.Notes, b.Reserved = []uint64{7, 8}, "other", nil, 99
		if a.Digest() != b.Digest() {
			t.Fatal("handles, format and notes enter the digest")
		}
		if len(a.Requests) > 0 {
			b.Requests = append([]ir.Request(nil), a.Requests...)
			b.Requests[0].Size++
			if a.Digest() == b.Digest() {
				t.Fatal("a size does not enter the digest")
			}
		}
	})
}

func TestCheckNamesTheRule(t *testing.T) {
	trace := func(edit func(*ir.Trace)) error {
		tr := &ir.Trace{Names: []string{""}, Streams: []uint64{0}, Events: 4, Requests: []ir.Request{
			{Size: 1, Alloc: 0, FreeRequested: 2, Free: 2}, {Size: 1, Alloc: 1, FreeRequested: 3, Free: 3}}}
		edit(tr)
		return tr.Check()
	}
	problem := func(edit func(*ir.Problem)) error {
		p := &ir.Problem{L0: 1, L1: 3, Streams: []uint64{0}, Names: []string{""},
			Buffers: []ir.Buffer{{Size: 512, Start: 0, End: 3}, {Size: 512, Start: 2, End: 3, HeadStart: 1, HeadEnd: 2}},
			Entries: []ir.Entry{{MinSize: 512, MaxSize: 512, Buffer: 0, Kind: ir.Persistent}, {MinSize: 512, MaxSize: 1024, Buffer: ir.NoBuffer, Kind: ir.Dynamic},
				{MinSize: 512, MaxSize: 512, Buffer: 1, Kind: ir.Carried}},
			Marks: []ir.EntryMark{{Entry: 1, Kind: ir.MarkIteration}}}
		edit(p)
		return p.Check()
	}
	for _, c := range []struct {
		rule string
		err  error
	}{
		{"", trace(func(*ir.Trace) {})},
		{"T1", trace(func(t *ir.Trace) { t.Names = nil })},
		{"T1", trace(func(t *ir.Trace) { t.Requests[0].Stream = 1 })},
		{"T2", trace(func(t *ir.Trace) { t.Requests[0].Size = 0 })},
		{"T2", trace(func(t *ir.Trace) { t.Requests[0].Size = ir.MaxSize + 1 })},
		{"T3", trace(func(t *ir.Trace) { t.Requests[0].Free = 1 })},
		{"T3", trace(func(t *ir.Trace) { t.Requests[0].Free = 9 })},
		{"T4", trace(func(t *ir.Trace) { t.Requests[1].Alloc = 0 })},
		{"T5", trace(func(t *ir.Trace) { t.Requests[1].FreeRequested = 2; t.Requests[1].Free = 2 })},
		{"T6", trace(func(t *ir.Trace) { t.Marks = []ir.Mark{{Tick: 5, Kind: ir.MarkPhase}} })},
		{"", problem(func(*ir.Problem) {})},
		{"P1", problem(func(p *ir.Problem) { p.L0 = 4 })},
		{"P2", problem(func(p *ir.Problem) { p.Buffers[0].Size = 100 })},
		{"P3", problem(func(p *ir.Problem) { p.Buffers[0].End = 4 })},
		{"P4", problem(func(p *ir.Problem) { p.Buffers[1].HeadEnd = 3 })},
		{"P4", problem(func(p *ir.Problem) { p.Buffers[1].HeadStart = 0; p.Buffers[1].HeadEnd = 1 })},
		{"P5", problem(func(p *ir.Problem) { p.Buffers[0], p.Buffers[1] = p.Buffers[1], p.Buffers[0] })},
		{"P6", problem(func(p *ir.Problem) { p.Entries[0].MaxSize = 1024 })},
		{"P6", problem(func(p *ir.Problem) {
			p.Entries[1].Buffer = 1
			p.Entries[1].MaxSize = 512
			p.Entries[1].Kind = ir.Carried
		})},
		{"P7", problem(func(p *ir.Problem) { p.Entries[0].Buffer = ir.NoBuffer; p.Entries[0].Kind = ir.Dynamic })},
		{"P8", problem(func(p *ir.Problem) { p.Entries[1].MinSize = 2048 })},
		{"P8", problem(func(p *ir.Problem) { p.Entries[0].Buffer = ir.NoBuffer })},
		{"P9", problem(func(p *ir.Problem) { p.Marks[0].Entry = 4 })},
	} {
		var ce *ir.CheckError
		switch {
		case c.rule == "" && c.err != nil:
			t.Errorf("valid, but: %v", c.err)
		case c.rule != "" && (!errors.As(c.err, &ce) || ce.Rule != c.rule):
			t.Errorf("want %s, got %v", c.rule, c.err)
		}
	}
}
