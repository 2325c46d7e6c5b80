//go:build cgo

package stwrt_test

import (
	"path/filepath"
	"strings"
	"testing"

	"stweaver/ir"
	"stweaver/profile"
	"stweaver/simulate"

	stwrt "stweaver/runtime"
)

// heapOf runs a recording through the heap alone.
func heapOf(t *testing.T, tr *ir.Trace, o stwrt.Options) stwrt.Stats {
	t.Helper()
	a, err := stwrt.New(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	at := make([]uintptr, len(tr.Requests))
	for _, e := range simulate.Events(tr) {
		switch e.Kind {
		case ir.EvAlloc:
			at[e.ID] = a.Malloc(uint64(e.Size), tr.Streams[e.Stream])
		case ir.EvFree:
			if at[e.ID] != 0 && !a.Free(at[e.ID]) {
				t.Fatalf("request %d is not live", e.ID)
			}
		case ir.EvRelease:
			a.Trim()
		}
	}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	return a.Stats()
}

// The heap alone needs less memory than PyTorch's allocator for every recording, and as much as an ideal best fit, which counts no pages,
// on the whole; and with hardly more than what lives it serves them all, where PyTorch's runs out of memory.
func TestHeapBesideNative(t *testing.T) {
	paths, err := filepath.Glob("../testdata/profiles/*.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no profiles: %v", err)
	}
	logs, err := filepath.Glob("../../shared/data/torchcpu/*.gz")
	if err != nil || len(logs) == 0 {
		t.Log("no ../shared/data: only what is in the repository")
	}
	var n, sum, ideal float64
	for _, path := range append(paths, logs...) {
		tr, err := profile.ReadFile(path, profile.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		name, page := filepath.Base(path), uint64(2<<20)
		if strings.HasSuffix(path, ".txt.gz") { // of a CPU: all of it is small
			page = 64 << 10
		}
		events := simulate.Events(tr)
		native, _ := simulate.Run("native", events, simulate.Options{})
		best, _ := simulate.Run("best-fit", events, simulate.Options{})
		s := heapOf(t, tr, stwrt.Options{Granularity: page})
		e := float64(s.PeakLiveBytes) / float64(s.PeakReservedBytes)
		if uint64(native.PeakAllocated) != s.PeakLiveBytes || s.Failed > 0 {
			t.Errorf("%s: %d bytes live, native has %d; %d requests failed", name, s.PeakLiveBytes, native.PeakAllocated, s.Failed)
		}
		if e < native.Efficiency() {
			t.Errorf("%s: E %.4f, native %.4f", name, e, native.Efficiency())
		}
		n, sum, ideal = n+1, sum+e, ideal+best.Efficiency()

		tight := uint64(float64(s.PeakLiveBytes)*1.02) + 8*page
		tr.Releases = nil // it has to see for itself
		short := heapOf(t, tr, stwrt.Options{Granularity: page, Capacity: tight})
		if short.Failed > 0 || short.PeakReservedBytes > tight {
			t.Errorf("%s: %d requests failed with %d bytes for %d that live", name, short.Failed, tight, s.PeakLiveBytes)
		}
		squeezed, _ := simulate.Run("native", simulate.Events(tr), simulate.Options{Limit: ir.Bytes(tight)})
		t.Logf("%-40s E %.4f, ideal best fit %.4f, native %.4f; short of memory: %.4f in %d trims, native out of memory: %v", name, e,
			best.Efficiency(), native.Efficiency(), float64(s.PeakLiveBytes)/float64(short.PeakReservedBytes), short.Trims, squeezed.OOM)
	}
	if sum < ideal-0.002*n {
		t.Errorf("E %.4f in the mean, ideal best fit %.4f", sum/n, ideal/n)
	}
}
