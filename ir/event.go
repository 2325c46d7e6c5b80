package ir

// EventKind is what happens in an Event.
type EventKind uint8

// Event kinds.
const (
	EvAlloc EventKind = iota + 1
	EvFree
	EvMark
	EvRelease // the program asked the allocator to give back all that it had cached
)

// NoEntry is the entry of an event whose request the plan does not know.
const NoEntry = ^uint32(0)

// Event is one step of a workload: what a training process does to its allocator, in
// order. A Trace is what was recorded; events are what is replayed, where requests of a
// repeated iteration are new instances of the recorded ones.
type Event struct {
	Size   Bytes // EvAlloc: as asked for, not rounded
	Value  int64 // EvMark of an iteration: its number
	ID     uint32
	Entry  uint32 // EvAlloc: the plan entry it is an instance of, or NoEntry
	Stream StreamID
	Name   NameID // EvMark of a phase
	Kind   EventKind
	Mark   MarkKind
	Lag    uint16 // EvFree: requests until, in the recording, the streams that were marked had let go; 0: none was
	Pool   uint32 // EvAlloc: the private pool, 0 = the default one
}
