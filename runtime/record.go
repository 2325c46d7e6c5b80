//go:build cgo

package stwrt

/*
#include <stdlib.h>
#include "stw_record.h"

static void go_recorder_malloc(stw_recorder *r, uintptr_t p, uint64_t size, int device, uint64_t stream)
{
    stw_recorder_malloc(r, (const void *)p, size, device, stream);
}

static void go_recorder_free(stw_recorder *r, uintptr_t p, int device)
{
    stw_recorder_free(r, (const void *)p, device);
}

static void go_recorder_stream(stw_recorder *r, uintptr_t p, int device, uint64_t stream)
{
    stw_recorder_record_stream(r, (const void *)p, device, stream);
}

static int go_recorder_open(stw_recorder **out, const char *path, uint64_t max_bytes, uint32_t ring_slots, char *err, size_t err_bytes)
{
    stw_record_options options = {.max_bytes = max_bytes, .ring_slots = ring_slots};
    return stw_recorder_open(out, path, &options, err, err_bytes);
}
*/
import "C"

import (
	"errors"
	"strings"
	"unsafe"
)

// recordErrBytes is room for a sentence with two paths in it.
const recordErrBytes = 9 << 10

// RecordOptions of a Recorder. Zero is a good value for each.
type RecordOptions struct {
	MaxBytes  uint64 // of the file, at which the recording ends; 0: no limit
	RingSlots uint32 // events on their way to the file, a power of two from 64 to 2^24; 0: 65,536
}

// Recorder writes the requests of a process to a profile; stw_record.h says what it promises and
// when to call what. Its methods may be called by several goroutines at once, except Close.
type Recorder struct{ c *C.stw_recorder }

// OpenRecorder begins a recording, which is written to path.part until it is closed.
func OpenRecorder(path string, o RecordOptions) (*Recorder, error) {
	var text [recordErrBytes]byte
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	r := &Recorder{}
	if C.go_recorder_open(&r.c, name, C.uint64_t(o.MaxBytes), C.uint32_t(o.RingSlots), (*C.char)(unsafe.Pointer(&text[0])), recordErrBytes) != 0 {
		return nil, cError(text[:])
	}
	return r, nil
}

func cError(text []byte) error {
	sentence, _, _ := strings.Cut(string(text), "\x00")
	return errors.New("stwrt: " + sentence)
}

// Malloc records that at was handed out; at 0: that a request was refused.
func (r *Recorder) Malloc(at uintptr, size uint64, device int, stream uint64) {
	C.go_recorder_malloc(r.c, C.uintptr_t(at), C.uint64_t(size), C.int(device), C.uint64_t(stream))
}

// Free records that at is about to be given back.
func (r *Recorder) Free(at uintptr, device int) {
	C.go_recorder_free(r.c, C.uintptr_t(at), C.int(device))
}

// RecordStream records that work of stream uses at, too.
func (r *Recorder) RecordStream(at uintptr, device int, stream uint64) {
	C.go_recorder_stream(r.c, C.uintptr_t(at), C.int(device), C.uint64_t(stream))
}

// Mark records a point of the program; kind is one of STW_RECORD_ITERATION to LEAVE, which are those of
// ir.MarkKind. A zero byte ends the name.
func (r *Recorder) Mark(kind uint32, value int64, name string) {
	text := []byte(name + "\x00")
	C.stw_recorder_mark(r.c, C.uint32_t(kind), C.int64_t(value), (*C.char)(unsafe.Pointer(&text[0])))
}

// Held records the most bytes that the allocator of device has held so far.
func (r *Recorder) Held(device int, bytes uint64) {
	C.stw_recorder_held(r.c, C.int(device), C.uint64_t(bytes))
}

// Close ends the recording and gives the file its name. The error says why a recording ended before,
// and what there is of it. A second Close does nothing.
func (r *Recorder) Close() error {
	var text [recordErrBytes]byte
	c := r.c
	r.c = nil
	if C.stw_recorder_close(c, (*C.char)(unsafe.Pointer(&text[0])), recordErrBytes) != 0 {
		return cError(text[:])
	}
	return nil
}
