//go:build cgo

package stwrt_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"stweaver/runtime/model"
	"stweaver/runtime/model/plantest"

	stwrt "stweaver/runtime"
)

// use puts an allocator through a few requests of every kind and checks it.
func use(a *stwrt.Allocator) error {
	var at []uintptr
	for k := range uint64(100) {
		at = append(at, a.Malloc(1+k*k*300%100000, k%3*7))
		if k%3 == 0 {
			a.Free(at[k/2])
		}
		if k%20 == 0 {
			a.Mark(model.MarkIteration, int64(k/20), "")
			a.Mark(model.MarkPhase, 0, plantest.Phase(0))
		}
	}
	if err := a.Check(); err != nil {
		return err
	}
	for _, p := range at {
		a.Free(p)
	}
	if s := a.Stats(); s.LiveBytes != 0 {
		return errors.New("bytes are live when everything is freed")
	}
	return a.Check()
}

// load returns an error only where an allocator that was created is not sound.
func load(plan []byte) error {
	a, err := stwrt.New(plan, stwrt.Options{Granularity: 4096, HeapBytes: 1 << 30, Capacity: 1 << 34})
	if err != nil {
		return nil
	}
	defer a.Close()
	return use(a)
}

// kept returns plan files as the compiler writes them; a test of package compiler keeps them as they would be written today.
func kept(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../testdata/plans/*.plan")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no plans: %v", err)
	}
	plans := make(map[string][]byte)
	for _, path := range paths {
		plan, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		plans[filepath.Base(path)] = plan
	}
	return plans
}

// Bytes of any kind give an error or an allocator that works. The checksum is made good, or no
// mutation would get beyond it.
func FuzzLoad(f *testing.F) {
	for seed := range uint64(8) {
		c := plantest.New(plantest.Seeded(seed), plantest.Config{Entries: 12, Streams: 3, Guests: true})
		f.Add(plantest.Encode(c.Plan), true)
	}
	plans := kept(f)
	for _, name := range slices.Sorted(maps.Keys(plans)) {
		f.Add(plans[name], true)
	}
	f.Add([]byte{}, false)
	f.Add([]byte("\x93STW\r\n\x1a\n"), false)
	f.Fuzz(func(t *testing.T, plan []byte, seal bool) {
		if seal {
			plan = append([]byte(nil), plan...)
			plantest.Seal(plan)
		}
		if err := load(plan); err != nil {
			t.Fatal(err)
		}
	})
}

// Every byte of small plans set to telling values: what the fuzzer does, in every test run.
func TestLoadMutated(t *testing.T) {
	for seed := range plantest.Seeds(3) {
		c := plantest.New(plantest.Seeded(seed), plantest.Config{Entries: 10, Streams: 2})
		plan := plantest.Encode(c.Plan)
		for i := range plan {
			for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff, plan[i] + 1, plan[i] ^ 0x10} {
				old := plan[i]
				plan[i] = v
				plantest.Seal(plan)
				if err := load(plan); err != nil {
					t.Fatalf("seed %d: byte %d set to %#x: %v", seed, i, v, err)
				}
				plan[i] = old
			}
			if err := load(plan[:i]); err != nil {
				t.Fatalf("seed %d: cut at %d: %v", seed, i, err)
			}
		}
	}
}

func TestNewErrors(t *testing.T) {
	plan := plantest.Encode(plantest.New(plantest.Seeded(1), plantest.Config{Entries: 10, Streams: 2}).Plan)
	change := func(f func([]byte)) []byte {
		b := append([]byte(nil), plan...)
		f(b)
		return b
	}
	cases := []struct {
		name string
		plan []byte
		o    stwrt.Options
		want error
	}{
		{"text", []byte("hello"), stwrt.Options{}, stwrt.ErrPlan},
		{"checksum", change(func(b []byte) { b[130]++ }), stwrt.Options{}, stwrt.ErrPlan},
		{"major", change(func(b []byte) { binary.LittleEndian.PutUint16(b[8:], 2); plantest.Seal(b) }), stwrt.Options{}, stwrt.ErrVersion},
		{"capacity", plan, stwrt.Options{Capacity: 512}, stwrt.ErrMemory},
		{"granularity", plan, stwrt.Options{Granularity: 1000}, stwrt.ErrArgument},
	}
	for _, c := range cases {
		a, err := stwrt.New(c.plan, c.o)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if a != nil {
			t.Errorf("%s: an allocator beside the error", c.name)
		}
	}
}

// The model refuses what the loader refuses.
func TestModelRefuses(t *testing.T) {
	differ, n := 0, plantest.Seeds(400)
	for seed := range n {
		src := plantest.Seeded(seed)
		c := plantest.New(src, plantest.Config{Entries: 10, Streams: 3, Shared: seed%2 == 1})
		plan := *c.Plan
		plan.Slots = append([]model.Slot(nil), plan.Slots...)
		plan.Entries = append([]model.Entry(nil), plan.Entries...)
		plan.Streams = append([]model.Stream(nil), plan.Streams...)
		plan.Marks = append([]model.Mark(nil), plan.Marks...)
		spoil(src, &plan)
		want := plan.Check()
		a, err := stwrt.New(plantest.Encode(&plan), stwrt.Options{Granularity: 512})
		if (err == nil) != (want == nil) {
			t.Errorf("seed %d: C says %v, the model %v", seed, err, want)
		}
		if want != nil {
			differ++
		}
		if a != nil {
			a.Close()
		}
	}
	if differ < int(n)/4 {
		t.Errorf("only %d of %d plans were spoilt", differ, n)
	}
}

// spoil changes one field, mostly to something that is not allowed.
func spoil(src plantest.Source, p *model.Plan) {
	slot := &p.Slots[src(len(p.Slots))]
	entry := &p.Entries[src(len(p.Entries))]
	stream := &p.Streams[src(len(p.Streams))]
	switch src(10) {
	case 0:
		slot.Lo += uint32(src(1 << 16))
	case 1:
		slot.Hi = uint32(src(3))
	case 2:
		slot.Stream = uint16(src(4))
	case 3:
		entry.Slot += uint32(src(3))
	case 4:
		entry.NfMin, entry.NfMax = uint8(src(4)), uint8(src(4))
	case 5:
		stream.Begin += uint64(src(4) * 256)
	case 6:
		stream.End += uint64(src(4) * 512)
	case 7:
		p.LoopStart += uint32(src(4))
	case 9:
		slot.Flags ^= model.Kept
	case 8:
		p.Marks = append(p.Marks, model.Mark{Entry: uint32(src(14)), Kind: model.MarkKind(src(4)), Value: int64(src(2)), Name: uint64(src(2))})
	}
}

func TestCRC32C(t *testing.T) {
	b := make([]byte, 1000)
	for i := range b {
		b[i] = byte(i * 7)
		for _, from := range []int{0, 1, i / 2} {
			if from > i {
				continue
			}
			want := crc32.Checksum(b[from:i], crc32.MakeTable(crc32.Castagnoli))
			if got := stwrt.CRC32C(b[from:i]); got != want {
				t.Fatalf("bytes [%d, %d): %#x, want %#x", from, i, got, want)
			}
		}
	}
}
