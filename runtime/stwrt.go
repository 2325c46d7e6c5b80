//go:build cgo

package stwrt

/*
#cgo CFLAGS: -std=c11
#cgo LDFLAGS: -lpthread -ldl
#include <stdlib.h>
#include "stw.h"
#include "stw_plan.h"
#include "replay_driver.h"
#include "replay_events.h"

// events may be NULL: then the backend has none.
static stw_status go_create(stw_allocator **out, const void *plan, size_t plan_bytes,
                            uint64_t capacity, uint64_t heap_bytes, int still, size_t granularity, stwd_events *events,
                            char *err, size_t err_bytes)
{
    stw_options options = {.capacity_bytes = capacity, .heap_bytes = heap_bytes, .still = still};
    stw_backend backend = stw_backend_host(granularity);
    if (events) {
        events->host = backend;
        backend = stwd_events_backend(events);
    }
    return stw_create(out, plan, plan_bytes, &options, &backend, err, err_bytes);
}

static int go_record_stream(stw_allocator *a, uintptr_t p, uint64_t stream)
{
    return stw_record_stream(a, (void *)p, stream);
}

static int go_free(stw_allocator *a, uintptr_t p)
{
    return stw_free(a, (void *)p);
}

static uintptr_t go_malloc(stw_allocator *a, uint64_t size, uint64_t stream)
{
    return (uintptr_t)stw_malloc(a, size, stream);
}

static uintptr_t go_arena(const stw_allocator *a)
{
    return (uintptr_t)stw_arena(a);
}
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"stweaver/runtime/model"
)

// Options of an Allocator.
type Options struct {
	Capacity    uint64 // most memory to hold, bytes, arena and heaps together; 0: no limit
	Granularity uint64 // bytes by which memory is committed, a power of two >= 512; 0: 2 MiB
	HeapBytes   uint64 // address space of each stream's heap, bytes; 0: 256 GiB
	Still       bool   // idle memory is not moved
	Events      model.EventOptions
}

// Stats are the counters of stw_stats.
type Stats = model.Stats

// What New's errors wrap, one for each status of stw.h.
var (
	ErrArgument = errors.New("invalid argument")
	ErrPlan     = errors.New("invalid plan")
	ErrVersion  = errors.New("unsupported plan version")
	ErrMemory   = errors.New("out of memory")
)

func statusError(status C.stw_status) error {
	switch status {
	case C.STW_E_ARG:
		return ErrArgument
	case C.STW_E_PLAN:
		return ErrPlan
	case C.STW_E_VERSION:
		return ErrVersion
	case C.STW_E_MEMORY:
		return ErrMemory
	}
	return fmt.Errorf("status %d", int(status))
}

// Allocator is one stw_allocator over host memory.
type Allocator struct {
	c      *C.stw_allocator
	events *C.stwd_events // nil: the backend has no events
	arena  uint64         // bytes of the plan's
}

// New returns an allocator that executes the plan file in plan; an empty one is no plan, heap
// only. The bytes are copied. The error wraps one of the Err values and carries the C core's
// sentence.
func New(plan []byte, o Options) (*Allocator, error) {
	const errBytes = 256
	text := (*C.char)(C.calloc(1, errBytes))
	if text == nil {
		return nil, fmt.Errorf("stwrt: create: %w", ErrMemory)
	}
	defer C.free(unsafe.Pointer(text))
	var bytes unsafe.Pointer
	if len(plan) > 0 {
		bytes = unsafe.Pointer(unsafe.SliceData(plan))
	}
	still := C.int(0)
	if o.Still {
		still = 1
	}
	a := &Allocator{}
	if o.Events.On {
		a.events = (*C.stwd_events)(C.calloc(1, C.sizeof_stwd_events))
		if a.events == nil {
			return nil, fmt.Errorf("stwrt: create: %w", ErrMemory)
		}
		a.events.lag, a.events.fail_every = C.uint64_t(o.Events.Lag), C.uint64_t(o.Events.FailEvery)
		if o.Events.Keep {
			a.events.keeps = 1
		}
	}
	status := C.go_create(&a.c, bytes, C.size_t(len(plan)), C.uint64_t(o.Capacity),
		C.uint64_t(o.HeapBytes), still, C.size_t(o.Granularity), a.events, text, errBytes)
	if status != C.STW_OK {
		a.Close()
		return nil, fmt.Errorf("stwrt: create: %w: %s", statusError(status), C.GoString(text))
	}
	if len(plan) > 0 {
		var header C.stw_plan_header
		a.arena = binary.LittleEndian.Uint64(plan[unsafe.Offsetof(header.arena_bytes):])
	}
	return a, nil
}

// Close gives back all memory, live blocks included. No other call may be under way or follow,
// but a second Close does nothing.
func (a *Allocator) Close() {
	if a.c != nil {
		C.stw_destroy(a.c)
		a.c = nil
	}
	if a.events != nil {
		C.free(unsafe.Pointer(a.events.calls))
		C.free(unsafe.Pointer(a.events))
		a.events = nil
	}
}

// open returns the C allocator; using a closed one is a mistake of the caller's.
func (a *Allocator) open() *C.stw_allocator {
	if a.c == nil {
		panic("stwrt: allocator used after Close")
	}
	return a.c
}

// Malloc returns the address of size bytes for work of stream, 0 where there is none.
func (a *Allocator) Malloc(size, stream uint64) uintptr {
	return uintptr(C.go_malloc(a.open(), C.uint64_t(size), C.uint64_t(stream)))
}

// Free takes back an address and reports whether it was live. 0 is fine.
func (a *Allocator) Free(at uintptr) bool {
	return C.go_free(a.open(), C.uintptr_t(at)) == 0
}

// RecordStream says that work of stream, queued before the block at `at` is freed, uses it, too. It
// reports whether the block is live.
func (a *Allocator) RecordStream(at uintptr, stream uint64) bool {
	return C.go_record_stream(a.open(), C.uintptr_t(at), C.uint64_t(stream)) == 0
}

// EventCalls are all calls of event functions so far, where they are kept.
func (a *Allocator) EventCalls() []model.EventCall {
	if a.events == nil || a.events.n == 0 {
		return nil
	}
	calls := unsafe.Slice((*model.EventCall)(unsafe.Pointer(a.events.calls)), int(a.events.n))
	return append([]model.EventCall(nil), calls...)
}

// Mark tells of a point of the program: iteration value begins, or the phase called name. A
// zero byte ends the name.
func (a *Allocator) Mark(kind model.MarkKind, value int64, name string) {
	text := []byte(name + "\x00")
	C.stw_mark(a.open(), C.uint32_t(kind), C.int64_t(value), (*C.char)(unsafe.Pointer(&text[0])))
}

// Stats returns the counters.
func (a *Allocator) Stats() Stats {
	var s C.stw_stats
	C.stw_get_stats(a.open(), &s)
	return goStats(&s)
}

func goStats(s *C.stw_stats) Stats {
	return Stats{
		Requests:            uint64(s.requests),
		Frees:               uint64(s.frees),
		Hits:                uint64(s.hits),
		Conflicts:           uint64(s.conflicts),
		TooLarge:            uint64(s.too_large),
		Dynamic:             uint64(s.dynamic),
		Guests:              uint64(s.guests),
		Unknown:             uint64(s.unknown),
		Slow:                uint64(s.slow),
		Resyncs:             uint64(s.resyncs),
		Restarts:            uint64(s.restarts),
		ZeroSize:            uint64(s.zero_size),
		Failed:              uint64(s.failed),
		BadFree:             uint64(s.bad_free),
		LiveBytes:           uint64(s.live_bytes),
		PeakLiveBytes:       uint64(s.peak_live_bytes),
		HeapLiveBytes:       uint64(s.heap_live_bytes),
		HeapPeakBytes:       uint64(s.heap_peak_bytes),
		ReservedBytes:       uint64(s.reserved_bytes),
		PeakReservedBytes:   uint64(s.peak_reserved_bytes),
		ArenaBytes:          uint64(s.arena_bytes),
		StaticFallbackBytes: uint64(s.static_fallback_bytes),
		Sweeps:              uint64(s.sweeps),
		Trims:               uint64(s.trims),
		ReturnedBytes:       uint64(s.returned_bytes),
		Moves:               uint64(s.moves),
		MovedBytes:          uint64(s.moved_bytes),
		SetAside:            uint64(s.set_aside),
		EventRecords:        uint64(s.event_records),
		EventWaits:          uint64(s.event_waits),
		YoungWaits:          uint64(s.young_waits),
		WaitedAge:           uint64(s.waited_age),
		EventFailures:       uint64(s.event_failures),
		Deferred:            uint64(s.deferred),
		Position:            uint64(s.position),
		Atoms:               uint64(s.atoms),
	}
}

// Report is what the allocator did, a few lines for people (REPORT.md).
func (a *Allocator) Report() string {
	n := int(C.stw_report(a.open(), nil, 0))
	text := make([]byte, n+1)
	C.stw_report(a.c, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)))
	return string(text[:n])
}

// Trim gives back all heap memory that holds nothing, and returns the bytes.
func (a *Allocator) Trim() uint64 { return uint64(C.stw_trim(a.open())) }

// Arena returns the address of the arena, 0 where there is none. It does not change.
func (a *Allocator) Arena() uintptr { return uintptr(C.go_arena(a.open())) }

// Block is one live block.
type Block struct {
	Address uintptr
	Size    uint64 // bytes, rounded to 512
	Stream  uint64 // raw handle
	Planned bool   // an address of the plan
}

// Walk returns the live blocks in no particular order.
func (a *Allocator) Walk() ([]Block, error) {
	var n C.uint64_t
	list := C.stwd_walk(a.open(), &n)
	if list == nil {
		if n != 0 {
			return nil, fmt.Errorf("stwrt: walk: %w", ErrMemory)
		}
		return nil, nil
	}
	defer C.free(unsafe.Pointer(list))
	blocks := make([]Block, 0, int(n))
	for _, b := range unsafe.Slice(list, int(n)) {
		blocks = append(blocks, Block{uintptr(b.at), uint64(b.size), uint64(b.stream), b.planned != 0})
	}
	return blocks, nil
}

// Check holds all internal structures of the C core against each other. It is linear in
// everything.
func (a *Allocator) Check() error {
	var text [256]byte
	rule := C.stw_check(a.open(), (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	if rule == 0 {
		return nil
	}
	sentence, _, _ := strings.Cut(string(text[:]), "\x00")
	return fmt.Errorf("stwrt: check: rule %d: %s", int(rule), sentence)
}

// Version returns the version of the C library.
func Version() string { return C.GoString(C.stw_version()) }

// CRC32C returns the checksum of b as the plan file uses it.
func CRC32C(b []byte) uint32 {
	return uint32(C.stw_crc32c(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b))))
}
