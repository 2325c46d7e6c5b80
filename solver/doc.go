// Package solver is the exact search: it proves that a layout is the best there is, or finds
// a better one, or says how far it came.
//
//	buffers ── reduce ──> parts ── search at a capacity ──> layout, or none, or out of nodes
//	                       │  ^                                     │
//	                       │  └──── next capacity (bisection) ──────┘
//	                       └── what the search cannot refute: SAT on the largest buffers
//
// How:
//
//  1. what cannot change the answer is taken away: time becomes sections, sizes are divided
//     by their gcd, components are told apart, buffers that live through a whole component
//     are stacked under it (sections.go, reduce.go)
//  2. at a capacity, buffers that fit whatever the others do are peeled off (peel.go)
//  3. the rest is searched depth first; a node puts one buffer on the lowest place that is
//     left, rules cut what cannot lead anywhere new (search.go, node.go, split.go, memo.go);
//     large problems use an index instead of scans (wide.go)
//  4. several orders take turns, each turn with twice the nodes (turns.go); capacities are
//     bisected between bound and best (minimise.go)
//  5. where a gap remains, SAT may refute capacities (refute.go)
//
// Everything is counted in nodes, never in time, so the same input gives the same layout on
// any machine with any number of workers. Only verdicts of SAT depend on the machine.
//
// The search and most of its rules are MiniMalloc's (Moffitt, ASPLOS 2023), here without
// copies: flat arrays and an undo log. The memory of failed states is this package's own.
package solver
