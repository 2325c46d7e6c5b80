//go:build cgo

package stwrt

/*
#include "replay_driver.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"stweaver/runtime/model"
)

// RunOptions say how a list of operations is executed.
type RunOptions struct {
	// Canary writes a pattern into the first and last 64 bytes of every block and checks it
	// when the block is freed. Without it nothing is touched and the run is timed.
	Canary bool
	Seed   uint64 // of the pattern
	// Threads is how many threads each run a copy of the list, with request ids of their own,
	// against the one allocator; 0 is 1. More than one is about safety: a plan is for one.
	Threads int

	beforeRelease func(at []uintptr) // for tests: sees the addresses by id while what is left still lives
}

// MaxThreads bounds RunOptions.Threads.
const MaxThreads = 1024

// Address is where a request went: in the arena, elsewhere, or nowhere (0).
type Address uint64

// Arena returns the offset in the arena, in bytes, if the address lies in it.
func (a Address) Arena() (offset uint64, ok bool) { return uint64(a &^ 1), a&1 != 0 }

// Failed reports whether there is no address.
func (a Address) Failed() bool { return a == 0 }

// RunResult is what a run showed.
type RunResult struct {
	Addresses    []Address // by request id; of thread t from t × IDs on
	Snapshots    []Stats   // at the list's snapshot operations; of the first thread
	Stats        Stats     // at the end of the list, before what it leaves is freed
	CanaryFaults uint64    // blocks whose pattern had changed
	Failed       int       // requests without an address

	// Timed runs only: CPU time, so that a busy machine does not count. A pair is an allocation
	// and a free; the driver's walk over its list is counted in.
	NsPerPair         float64
	BaselineNsPerPair float64 // malloc(64) and free of the C library, before and after the run
}

// baselinePairs is how many pairs each half of the baseline times.
const baselinePairs = 1 << 18

// Run executes s inside C, so that no call from Go is in the time. What the list does not free
// is freed at the end. The error names an operation that breaks the rules of a script, or says
// that a thread could not be started.
func (a *Allocator) Run(s *model.Script, o RunOptions) (*RunResult, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("stwrt: run: %w", err)
	}
	threads := max(o.Threads, 1)
	if threads > MaxThreads {
		return nil, fmt.Errorf("stwrt: run: %d threads, at most %d are allowed", threads, MaxThreads)
	}
	names, nameAt, err := packNames(s.Names)
	if err != nil {
		return nil, err
	}
	var events, snapshots int
	for _, op := range s.Ops {
		switch op.Kind {
		case model.OpAlloc, model.OpFree:
			events++
		case model.OpSnapshot:
			snapshots++
		}
	}
	// The lists live on the C side of the call as plain arguments of one struct; the memory
	// they point to is pinned for as long.
	taken := make([]C.stw_stats, snapshots)
	at := make([]C.uintptr_t, int(s.IDs)*threads)
	var sizes []C.uint64_t
	if o.Canary {
		sizes = make([]C.uint64_t, len(at))
	}
	call := newCall(s.Ops, names, nameAt, taken)
	defer call.unpin()
	call.list.n_ids = C.uint32_t(s.IDs)
	call.list.seed = C.uint64_t(o.Seed)
	if o.Canary {
		call.list.canary = 1
	}

	r := &RunResult{}
	var baseline uint64
	if !o.Canary {
		baseline = uint64(C.stwd_baseline(baselinePairs))
	}
	var out C.stwd_result
	status := C.stwd_run(a.open(), &call.list, C.uint32_t(threads), unsafe.SliceData(at), unsafe.SliceData(sizes), &out)
	r.Stats = a.Stats()
	if !o.Canary {
		baseline += uint64(C.stwd_baseline(baselinePairs))
		r.BaselineNsPerPair = float64(baseline) / (2 * baselinePairs)
		r.NsPerPair = float64(out.spent_ns) * 2 / float64(max(events, 1))
	}
	if o.beforeRelease != nil {
		seen := make([]uintptr, len(at))
		for i, p := range at {
			seen[i] = uintptr(p)
		}
		o.beforeRelease(seen)
	}
	late := C.stwd_release(a.c, &call.list, C.uint32_t(threads), unsafe.SliceData(at), unsafe.SliceData(sizes))
	if status != 0 {
		return nil, fmt.Errorf("stwrt: run: not all of %d threads could be started", threads)
	}
	r.CanaryFaults = uint64(out.faults + late)
	for i := range taken {
		r.Snapshots = append(r.Snapshots, goStats(&taken[i]))
	}
	a.addresses(r, at, s, threads)
	return r, nil
}

// addresses fills in where each request went and counts those that went nowhere.
func (a *Allocator) addresses(r *RunResult, at []C.uintptr_t, s *model.Script, threads int) {
	arena := a.Arena()
	r.Addresses = make([]Address, len(at))
	for i, p := range at {
		p &^= 1 // freed
		r.Addresses[i] = Address(p)
		if off := uint64(p) - uint64(arena); arena != 0 && p != 0 && off < a.arena {
			r.Addresses[i] = Address(off | 1)
		}
	}
	for _, op := range s.Ops {
		if op.Kind != model.OpAlloc {
			continue
		}
		for t := range threads {
			if r.Addresses[t*int(s.IDs)+int(op.ID)].Failed() {
				r.Failed++
			}
		}
	}
}

// Overlaps counts the requests of a single-threaded run of s whose range overlapped one that
// was live: 0, unless the allocator is wrong.
func (a *Allocator) Overlaps(s *model.Script, r *RunResult) int {
	spans := make([]model.Span, s.IDs)
	arena := uint64(a.Arena())
	for _, op := range s.Ops {
		if op.Kind != model.OpAlloc || r.Addresses[op.ID].Failed() {
			continue
		}
		at := uint64(r.Addresses[op.ID])
		if off, ok := r.Addresses[op.ID].Arena(); ok {
			at = arena + off
		}
		spans[op.ID] = model.Span{At: at, Bytes: (uint64(op.Size) + model.Unit - 1) &^ (model.Unit - 1)}
	}
	return model.Overlaps(s, spans)
}

// packNames lays names out one after another, each ended by a zero byte.
func packNames(names []string) (text []byte, at []uint32, err error) {
	for i, name := range names {
		if strings.Contains(name, "\x00") {
			return nil, nil, fmt.Errorf("stwrt: run: phase name %d (%q) has a zero byte in it", i, name)
		}
		at = append(at, uint32(len(text)))
		text = append(append(text, name...), 0)
	}
	return text, at, nil
}
