//go:build cgo

package stwrt_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/profile"

	stwrt "stweaver/runtime"
)

// playTrace drives an allocator and a recorder through t, as the program that was recorded drove its own.
func playTrace(t *testing.T, tr *ir.Trace, path string) {
	t.Helper()
	a, err := stwrt.New(nil, stwrt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, err := stwrt.OpenRecorder(path, stwrt.RecordOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := make([]uintptr, len(tr.Requests))
	byTick := make([]int32, tr.Events) // request + 1 that begins, -(request + 1) that ends
	for i := range tr.Requests {
		q := &tr.Requests[i]
		if q.Alloc == ir.Before || q.FreeRequested != q.Free {
			t.Fatalf("request %d is alive before the recording, or freed later than asked", i)
		}
		byTick[q.Alloc] = int32(i + 1)
		if q.Free != ir.Never {
			byTick[q.Free] = -int32(i + 1)
		}
	}
	marks := tr.Marks
	mark := func(upTo ir.Tick) {
		for len(marks) > 0 && marks[0].Tick <= upTo {
			r.Mark(uint32(marks[0].Kind), marks[0].Value, tr.Name(marks[0].Name))
			marks = marks[1:]
		}
	}
	for k, v := range byTick {
		mark(ir.Tick(k))
		switch {
		case v > 0:
			q := &tr.Requests[v-1]
			stream := tr.Streams[q.Stream]
			at[v-1] = a.Malloc(uint64(q.Size), stream)
			r.Malloc(at[v-1], uint64(q.Size), tr.Device, stream)
		case v < 0:
			r.Free(at[-v-1], tr.Device)
			if !a.Free(at[-v-1]) {
				t.Fatalf("request %d is not live", -v-1)
			}
		}
	}
	mark(ir.Tick(tr.Events))
	r.Held(tr.Device, a.Stats().PeakReservedBytes)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// compilePlan returns the plan of tr as a file, without the name of the format that tr came in.
func compilePlan(t *testing.T, tr *ir.Trace) []byte {
	t.Helper()
	c, err := compiler.Compile(context.Background(), tr, compiler.Options{Effort: compiler.Fast})
	if err != nil {
		t.Fatal(err)
	}
	n := len(c.Plan.Info)
	c.Plan.Info = slices.DeleteFunc(c.Plan.Info, func(f ir.Fact) bool { return f.Key == "profile-format" })
	if len(c.Plan.Info) != n-1 {
		t.Fatalf("the plan does not say what it was made from: %v", c.Plan.Info)
	}
	file, err := ir.EncodePlan(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRecordedPlan: what is recorded while a known program runs makes the plan, byte for byte, that the program's own
// profile makes, whatever format and allocator that came from; but for the name of the format.
func TestRecordedPlan(t *testing.T) {
	for _, name := range []string{"llama24_ckpt.pickle.gz", "gpt2_dense.txt.gz", "mixtral4.pickle.gz", "gpt2m_frames.pickle.gz"} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "mixtral4.pickle.gz" {
				t.Skip("compiles it twice")
			}
			want, err := profile.ReadFile(filepath.Join("../testdata/profiles", name), profile.DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "a.stwp")
			playTrace(t, want, path)
			got, err := profile.ReadFile(path, profile.DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest() != want.Digest() {
				t.Errorf("the trace is another one: %d requests, %d marks, %d events for %d, %d, %d",
					len(got.Requests), len(got.Marks), got.Events, len(want.Requests), len(want.Marks), want.Events)
			}
			if peak, _ := got.LivePeak(); got.Format != "stweaver-record" || got.Device != want.Device || got.Reserved < peak || len(got.Notes) != 0 {
				t.Errorf("%s of device %d, %d bytes reserved, notes %v", got.Format, got.Device, got.Reserved, got.Notes)
			}
			if !bytes.Equal(compilePlan(t, got), compilePlan(t, want)) {
				t.Error("the plan is another one")
			}
			info, err := os.Stat(path)
			if err != nil || info.Size() > 17*(want.Events+int64(len(want.Marks)))+1024 {
				t.Errorf("%d bytes for %d events and %d marks: %v", info.Size(), want.Events, len(want.Marks), err)
			}
		})
	}
}

// TestRecordThreads: the order of the file is one that the allocator can have seen, whatever the
// threads do: no address alive twice, no free of what is not alive, each thread's requests in their order.
func TestRecordThreads(t *testing.T) {
	const threads, turns = 8, 3000
	a, err := stwrt.New(nil, stwrt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	path := filepath.Join(t.TempDir(), "a.stwp")
	r, err := stwrt.OpenRecorder(path, stwrt.RecordOptions{RingSlots: 1024})
	if err != nil {
		t.Fatal(err)
	}
	passed := make(chan uintptr, 64) // blocks on their way to another thread
	var all sync.WaitGroup
	for self := range threads {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(self), 1))
			var held [16]uintptr
			for i := range turns {
				k := rng.IntN(len(held))
				if held[k] != 0 {
					r.Free(held[k], 0)
					a.Free(held[k])
				}
				size, stream := uint64(1+i*threads+self), uint64(rng.IntN(2))
				held[k] = a.Malloc(size, stream)
				r.Malloc(held[k], size, 0, stream)
				if i%4 == 0 {
					select {
					case passed <- held[k]:
						held[k] = 0
					case held[k^1] = <-orNew(passed, held[k^1]):
					default:
					}
				}
			}
			for _, p := range held {
				if p != 0 {
					r.Free(p, 0)
					a.Free(p)
				}
			}
		})
	}
	all.Wait()
	close(passed)
	for p := range passed {
		r.Free(p, 0)
		a.Free(p)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := profile.ReadFile(path, profile.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Notes) != 0 || len(tr.Requests) != threads*turns || tr.Events != 2*threads*turns {
		t.Errorf("%d requests, %d events, notes %v", len(tr.Requests), tr.Events, tr.Notes)
	}
	var next [threads]int
	for _, q := range tr.Requests {
		self := (int(q.Size) - 1) % threads
		if i := (int(q.Size) - 1) / threads; i != next[self] {
			t.Fatalf("request %d of thread %d comes when %d is due", i, self, next[self])
		}
		next[self]++
		if q.Free == ir.Never {
			t.Fatalf("request %d of thread %d is never freed", next[self], self)
		}
	}
}

// orNew gives what may be received into an empty place; nil, which never is, where the place is taken.
func orNew(c chan uintptr, place uintptr) chan uintptr {
	if place != 0 {
		return nil
	}
	return c
}

// TestRecordKinds: both sides mean the same by every kind of event.
func TestRecordKinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.stwp")
	r, err := stwrt.OpenRecorder(path, stwrt.RecordOptions{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1007)
	r.Mark(uint32(ir.MarkIteration), 41, "")
	r.Malloc(1<<20, 1<<40, 2, 1<<63)
	r.Mark(uint32(ir.MarkPhase), 0, "forward")
	r.Mark(uint32(ir.MarkEnter), 0, long+"é and more")
	r.Malloc(512, 1<<40-1, 2, 0)
	r.Malloc(9, 7, 255, 0)
	r.RecordStream(512, 2, 1<<63)
	r.Malloc(0, 1<<60, 2, 0)
	r.Mark(uint32(ir.MarkLeave), 0, "forward")
	r.Free(512, 2)
	r.Free(1<<20, 2)
	r.Mark(uint32(ir.MarkIteration), -1, "")
	r.Held(2, 3<<40)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := profile.ReadFile(path, profile.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	tr.WriteText(&text)
	want := `trace format="stweaver-record" device=2 events=5 onepass=false wrapped=false late=false reserved=3298534883328 allocator="stweaver"
stream 0 0x8000000000000000
stream 1 0x0
name 1 "forward"
name 2 "LONG"
request 0 size=1099511627776 alloc=0 freereq=4 free=4 stream=0 site=0 flags=0 pool=0
request 1 size=1099511627775 alloc=1 freereq=2 free=3 stream=1 site=0 flags=0 pool=0
mark tick=0 kind=iteration value=41 name=0
mark tick=1 kind=phase value=0 name=1
mark tick=1 kind=enter value=0 name=2
mark tick=2 kind=leave value=0 name=1
mark tick=5 kind=iteration value=-1 name=0
note info devices "this is device 2; the file also has device 255 (1 events)"
note info record-stream "1 blocks were used by another stream than their own when they were freed"
note warn oom "1 requests failed for lack of memory while this was recorded"
end trace
`
	if got := strings.ReplaceAll(text.String(), long, "LONG"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestRecordEnds(t *testing.T) {
	dir := t.TempDir()
	if _, err := stwrt.OpenRecorder(filepath.Join(dir, "no", "a.stwp"), stwrt.RecordOptions{}); err == nil || !strings.Contains(err.Error(), "no/a.stwp.part: No such file or directory") {
		t.Errorf("%v", err)
	}
	path := filepath.Join(dir, "a.stwp")
	r, err := stwrt.OpenRecorder(path, stwrt.RecordOptions{MaxBytes: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uintptr(50_000) {
		r.Malloc(512*(i+1), 512, 3, 7)
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "ended after") {
		t.Errorf("%v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	tr, err := profile.ReadFile(path, profile.DefaultOptions())
	if err != nil || len(tr.Notes) != 1 || tr.Notes[0].Code != "cut" || tr.Device != 3 || !slices.Equal(tr.Streams, []uint64{7}) {
		t.Fatalf("%v %v", err, tr)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 100_000 || len(tr.Requests) == 0 || len(tr.Requests) > 100_000/16 {
		t.Errorf("%d bytes, %d requests, %v", info.Size(), len(tr.Requests), err)
	}
}
