// Package heuristics packs buffers: it gives each an address so that no two that are
// alive together overlap, and keeps the highest address low.
//
// What Pack promises:
//
//   - total: there is a layout for every list of buffers, and it is returned
//   - valid: buffers that meet in time never share a byte, head pieces included
//   - never above greedy by size with best fit
//   - aligned, as every address is a sum of sizes and those are multiples of ir.Align
//   - deterministic: the same buffers and options give the same layout, on any machine
//     and with any number of workers; effort is counted in tries, never in time
//
// How:
//
//  1. time is cut into sections, so that what meets in a section meets in time (instance.go)
//  2. an occupancy index over the sections answers "the lowest free range of this size
//     during this life" and "the smallest" (index.go, place.go)
//  3. a packer is an order of the buffers and a choice of fit; the portfolio is a table of
//     them, tried one after the other (table.go, portfolio.go)
//  4. coarse problems, in which groups of buffers are boxes, are packed many times and the
//     best layouts expanded (cluster.go, coarse.go, coarsetry.go, expand.go); congruent
//     blocks are solved once (blocks.go); micro-batches that repeat are rolled up on a circle and
//     packed there (period.go, fold.go)
//  5. where that ends a little above the live peak, the buffers that decide there are packed
//     alone, by coarse problems and a climb, and the rest fitted around them (crux.go, climb.go)
//  6. then come tries with drawn parameters, in turn with more of 4, as many as the effort
//     says (sample.go)
//  7. all of it ends at the first layout whose peak is the live peak: it is optimal
//
// Streams are the caller's business: all buffers of one call may share addresses.
package heuristics
