// Package model is the runtime allocator in plain Go: the same matcher, marks, placement
// and heaps as the C core, written from runtime/MATCHER.md alone, so that a test can hold
// one against the other event by event. It is also the rehearsal: a compiler asks it what
// a plan would do to a list of requests, without memory and without cgo.
//
// A request goes through these steps:
//
//	malloc(size, stream)
//	   |  match.go    where in the plan are we? fast path, else one column of an alignment (column.go);
//	   |              anew.go, repeat.go: unless an iteration begins anew, or what repeats goes on elsewhere
//	   |  proportion.go  is it of another size as the requests before it were?
//	   |  occupy.go   is the planned range free? disjoint intervals, ordered
//	   |  heap.go     else: best fit in the stream's own growing range; sweep.go: or, before that grows, idle space
//	   |  order.go    does the stream have to wait for another? limbo.go: for those that use a block, too
//	   `- allocator.go counts, and remembers the block
//
// Addresses are symbolic: (space, offset), space 0 being the arena and 1 + k the heap that
// was the k-th to be needed. Nothing is ever touched, so a plan of 70 GiB costs no memory.
//
// Where the C core has bitmaps, boundary tags and size lists, the model has one ordered set
// (ordered.go) under three orders. That is deliberate: two implementations that share no data
// structure do not share its mistakes. Costs: O(1) for a request in step with the plan plus
// O(log n) for its place, O(700) for one out of step, O(n) for each column of a search.
//
// Lists of operations (script.go), their divergence (diverge.go, spec.go) and a count of
// overlapping addresses (overlap.go) live here because the model and the binding share them.
//
// Nothing here is safe for use by several goroutines at once.
package model
