package ir

import (
	"fmt"
	"math"
)

// Tick orders events. In a Trace it is the ordinal of an event in the order the
// allocator saw it; in a Problem it is the ordinal of an allocation on the plan's
// timeline (doc.go, "Two clocks"). It is never wall time.
type Tick int64

// Before is the alloc tick of a request that was live when recording began;
// Never is the free tick of one that was still live when it ended.
const (
	Before Tick = -1
	Never  Tick = math.MaxInt64
)

func (t Tick) String() string {
	switch t {
	case Before:
		return "before"
	case Never:
		return "never"
	}
	return fmt.Sprintf("%d", int64(t))
}

// Bytes is a size in bytes; never negative in a checked value.
type Bytes int64

// Offset is a byte distance from the start of the arena. NoOffset marks a buffer
// that has no place.
type Offset int64

// NoOffset is the offset of a buffer that is not placed.
const NoOffset Offset = -1

// Typed ids are indices into the slice that owns the noun.
type (
	BufferID uint32 // index in Problem.Buffers
	StreamID uint32 // index in Trace.Streams; ids follow first appearance
	NameID   uint32 // index in Trace.Names; 0 is the empty name
)

// NoBuffer is the buffer of an entry that is not planned (dynamic, or left out).
const NoBuffer BufferID = math.MaxUint32

// Align is the placement quantum of plans, in bytes: PyTorch's own minimum block.
// Every planned size and offset is a multiple of it.
const Align Bytes = 512

// MaxSize is the largest request that is accepted, in bytes (2^60, the size at which
// PyTorch itself refuses). It keeps every sum of 2^3 sizes inside an int64; sums over
// a whole trace are checked where they are formed.
const MaxSize Bytes = 1 << 60

// RoundUp returns n rounded up to a multiple of Align. n must be in [0, MaxSize].
func RoundUp(n Bytes) Bytes { return (n + Align - 1) &^ (Align - 1) }
