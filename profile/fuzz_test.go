package profile

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"stweaver/internal/testkit"
)

// fuzzRead: no content may panic, take memory out of proportion, or give a trace that
// breaks an invariant; and an error is one of ours, with a reason.
func fuzzRead(f *testing.F, seeds ...[]byte) { fuzzBounded(f, 1000, seeds...) }

// fuzzBounded allows perByte bytes of memory for one of content, and some to begin with;
// 0 is no limit.
func fuzzBounded(f *testing.F, perByte uint64, seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(fuzzCheck(perByte))
}

func fuzzCheck(perByte uint64) func(*testing.T, []byte) {
	return func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tr, err := Read("fuzz", bytes.NewReader(b), DefaultOptions())
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; perByte > 0 && took > 8<<20+perByte*uint64(len(b)) {
			t.Fatalf("%d bytes allocated for %d bytes of content", took, len(b))
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Msg == "" || e.Path != "fuzz" {
				t.Fatalf("not an error of ours: %v", err)
			}
			return
		}
		if err := tr.Check(); err != nil {
			t.Fatal(err)
		}
		if len(tr.Requests) == 0 {
			t.Fatal("a trace without requests")
		}
		if _, at := tr.LivePeak(); int64(at) > tr.Events {
			t.Fatalf("the peak is at %v of %d", at, tr.Events)
		}
	}
}

// FuzzStwp mends the checksums, without which no change would get further than the first block.
func FuzzStwp(f *testing.F) {
	for _, b := range [][]byte{
		recordingOf(func(r *testkit.Recording) {}),
		recordingOf(func(r *testkit.Recording) { r.PerBlock = 3 }),
		recordingOf(func(r *testkit.Recording) { r.Open = true }),
		recordingOf(func(r *testkit.Recording) { r.Reason, r.Errno, r.Lost = 2, 28, 5 }),
	} {
		f.Add(b, true)
		f.Add(b, false)
	}
	check := fuzzCheck(1000)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend {
			mendSums(b)
		}
		check(t, b)
	})
}

func FuzzSnapshot(f *testing.F) {
	var seeds [][]byte
	for proto := 2; proto <= 5; proto++ {
		seeds = append(seeds, pickle(f, snap([]*testkit.Dict{seg(0, addrX, blk{512, active}, blk{512, pending})},
			[]ev{alloc(addrX, 512), ask(addrX, 512), done(addrX, 512), {action: "segment_alloc", addr: 1, size: 2 << 20}},
			[]ev{alloc(addrY, 5)}).Set("allocator_settings", (&testkit.Dict{}).Set("trace_alloc_max_entries", 4)), proto))
	}
	var synth bytes.Buffer
	if _, err := testkit.WriteSnapshot(&synth, testkit.SnapshotSpec{Requests: 6, Depth: 2, Layers: 1, Weights: 1}); err != nil {
		f.Fatal(err)
	}
	fuzzRead(f, append(seeds, synth.Bytes(), []byte("\x80\x04cos\nsystem\n."), []byte("\x80\x04}(\x8c\x04addr\x8a\x0a0123456789u."))...)
}

func FuzzChrome(f *testing.F) {
	fuzzRead(f, []byte(chromeFileOf(mem("1.5", 0, 512, 512), mem("2e3", 1, 512, -512), spanEvent("user_annotation", "ProfilerStep#1", "1", "2"))),
		[]byte("["+mem("1", 0, 9, 9)+"]"), []byte(`{"traceEvents":[{}]}`), []byte(`[[1,2]]`))
}

func FuzzLog(f *testing.F) {
	fuzzRead(f, []byte("1 0x10 5 0\nIteration Index : 0\nmicro-batch : F\na->B Layer : F-start\n0 0x10 5 0\na->B Layer : B-end\noptimizer step\nIteration Index : end\n"),
		[]byte("1 0x10 5 0\n1 0x10 5 (nil)\n0 0x11 7 9\n"))
}

func FuzzCSV(f *testing.F) {
	fuzzRead(f, []byte("id,lower,upper,size\na,0,5,512\nb,5,6,1\n"), []byte("lower,upper,size,stream,x\n0,1,5,0x2,\"q\"\n"), []byte("a,b,c\n"))
}

func FuzzOplog(f *testing.F) {
	fuzzRead(f, []byte("0 381 92928\n1 379 256\n"), []byte("5 4 3\n"))
}

// FuzzWrapped lets the fuzzer at what lies around the formats. Compressed bytes may stand
// for any number of others; what bounds them is the window, and the limits of the readers.
func FuzzWrapped(f *testing.F) {
	for _, b := range samples(f) {
		f.Add(b)
	}
	fuzzBounded(f, 0, gz(f, samples(f)[3]), zst(f, samples(f)[5]), gz(f, zst(f, samples(f)[1])))
}
