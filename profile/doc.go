// Package profile turns the bytes of an allocation profile into an ir.Trace.
//
//	bytes ── unwrap ── sniff ── reader ── lives / intervals ── ir.Trace
//	         gzip      first    one a     who was alive
//	         zstd      64 KiB   format    from when to when
//
// How a profile is read, in ten lines:
//
//  1. gzip and zstd are told by their magic bytes and unwrapped, at most twice.
//  2. The format is told by the first bytes, never by the file's name.
//  3. Readers stream: what a file costs in memory is its events, not its length.
//  4. Recordings of an allocator (STWeaver's own, snapshot, chrome trace, text log) are replayed event by
//     event in the order they were written; each event that matters gets a tick.
//  5. A free nobody allocated was alive before the recording: alloc tick Before.
//  6. A block of the final state nobody allocated is a ghost: from Before to Never.
//  7. An allocation at an address that is still open means that a free was lost.
//  8. Lists of intervals (CSV, op log) are renumbered so that every event has a tick of
//     its own, frees first where times are equal: intervals stay half-open.
//  9. What the recording could not see is told in the trace's notes, with numbers.
//  10. A file that cannot be used is refused with an *Error: place, reason, remedy.
//
// Formats are one literal table (profile.go); a new one is one file and one line there.
// The pickle dialect, the event keys of four torch generations and the rules for lifetimes
// follow PyTorch's own memory viewer; the chrome trace is the one of torch.profiler with
// profile_memory=True; the text log is STAlloc's (arXiv 2507.16274); the interval CSV is
// MiniMalloc's (ASPLOS'23).
//
// Nothing here is shared between calls: every function may be called from any goroutine.
package profile
