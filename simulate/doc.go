// Package simulate runs a sequence of requests through models of other allocators, to see what
// memory each would have taken from the driver. No memory is allocated: a model keeps the books of
// its blocks and nothing else.
//
// A model is one file and one line of the table in simulate.go:
//
//	native      PyTorch's caching allocator with default settings
//	expandable  the same with expandable_segments:True
//	best-fit    best fit without pools, pages and segments: what native could be
//	windows     a static plan with the published rule for dynamic requests; it needs a plan
//
// All keep the rule that a block belongs to the stream (and private pool) it was made for and serves no
// other. A block is free when its free is *completed*: a model cannot know when a kernel on another
// stream has finished, the recording does.
//
// # What a model cannot show
//
// The order of requests is that of the recording; empty_cache is where the recording shows that it gave something back.
// garbage_collection_threshold, max_split_size and roundup_power2_divisions are not modelled: they are off by default. Requests that were live
// before the recording began are made first, in the order in which the trace lists them: where they really lay, and what was
// cached beside them, is not known.
package simulate
