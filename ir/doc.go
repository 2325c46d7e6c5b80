// Package ir holds the nouns of STWeaver: what was asked for (Trace), what is to be
// packed (Problem, Rules), where it goes (Layout) and what the runtime is told (Plan).
// Every other package is a verb on them. It imports the standard library only.
//
// # Units
//
// Sizes and offsets are bytes; planned ones are multiples of Align (512). Intervals are
// half-open everywhere: a buffer that ends at t and one that starts at t may share memory.
//
// # Two clocks
//
// A Trace counts events: every allocation and every free has a tick of its own, in the
// order the allocator saw them, never wall time.
//
// A Problem counts allocations only: its tick is the index of an entry in the plan's
// request sequence, and a request that is freed before the allocation of entry k ends
// at k. Frees between two allocations cannot change what fits, so nothing is lost, and
// iterations that free a little earlier or later get the same clock. (The clock is that
// of the template alignment; see package compiler.)
//
// # The picture
//
// Time to the right, addresses up. The loop [L0, L1) repeats for ever; a carried buffer
// leaves at L1 and comes back in at L0, at the same address:
//
//	address
//	  ^   prologue     |        loop
//	  |  +-------------+---------------------------+
//	  |  | weights (persistent)                    |
//	  |  +-------------+---------------------------+
//	  |  +-----+       +---+                    +--+
//	  |  |init |       | c | head          main | c|   carried
//	  |  +-----+       +---+  +----+ +-------+  +--+
//	  |                       | t1 | |  t2   |          transient, scoped
//	  |                       +----+ +-------+
//	  +----------------+---------------------------+--> tick
//	  0               L0                          L1
//
// # Invariants
//
// Checked by Check (T, P, F) between passes and by Verify (V) after every compile. Their
// numbers appear in messages.
//
//	T1  every name, stream and site id is in range; Names[0] is empty
//	T2  0 < Size <= MaxSize, and the rounded sizes sum to an int64
//	T3  Alloc is Before or in [0, Events); Alloc < FreeRequested <= Free; finite frees are in [0, Events)
//	T4  requests are ordered by Alloc, those of Before first
//	T5  no two events share a tick
//	T6  marks are ordered by Tick, in [0, Events], with a known kind; so are releases
//	P1  0 <= L0 <= L1 == len(Entries)
//	P2  buffer sizes are positive multiples of Align, at most MaxSize
//	P3  0 <= Start < End <= L1
//	P4  a head is empty, or 0 <= HeadStart < HeadEnd <= Start with HeadStart <= L0 < HeadEnd and Start >= L0 and End == L1
//	P5  buffers are ordered by (Start, entry)
//	P6  a planned entry's largest size and its stream are those of its buffer, it has a kind other than dynamic; its tick is the buffer's Start or HeadStart
//	P7  every buffer is named by one entry at its Start, and by one at its HeadStart where that is before L0
//	P8  an entry that is not planned is dynamic and has MinSize <= MaxSize
//	P9  marks are ordered by entry, in [0, L1]
//	P10 AGE is in [0, MaxAge]; where streams share nothing it is 0 and no buffer has a lag
//	C1  the buffers of a constraint exist, and none is there twice; there is at least one
//	C2  sizes, ticks and windows of constraints are in range; pins at an address and alignments are multiples of Align
//	V1  every buffer has a place: 0 <= offset, a multiple of Align
//	V2  no two buffers alive at one tick share an address
//	V3  no two buffers of different streams share an address at any time; where streams share, an
//	    address passes to another stream AGE ticks after it is let go of or later, and to the same
//	    stream after the lesser of AGE and the buffer's lag; across the border of the loop, too (sharing.go)
//	V4  Peak is the highest end of a buffer
//	V5  Peak is within the capacity of the rules
//	R1  pinned buffers are at their address, or inside their window
//	R2  a region's addresses, from its lowest to its highest, are nobody else's; it is not too large, and nothing lies across its pieces
//	R3  buffers that are to lie together follow each other without gaps, in order
//	R4  buffers that are to lie apart share no address at any time
//	R5  a kept buffer shares no address with anybody at any time
//	R6  a guarded buffer's place is nobody's for as many ticks after its death
//	R7  aligned buffers are at multiples of their alignment
//	R8  Peak is within the capacity of the constraints
//	R9  the plan keeps what kept buffers and regions have from requests without an address (VerifyKept)
//	F1… the plan file: rule Fn is Pn of runtime/plan_check.c
package ir
