package heuristics

// The greedy packers: buffers in one fixed order, each put where the fit says. They are
// the yardstick (greedy by size, best fit, is what the result is never worse than), the
// fast way out on easy problems, and the base the two-level fit is built on.
//
// Sources: by size is the rule of XLA, TFLite and most planners since; by lifespan XLA's
// other one; by start is what an online allocator with a perfect heap would do.

// greedy returns a packer that places everything in the order of k with one fit.
func greedy(k key, f fit) func(*bench) bool {
	always := func(int32) fit { return f }
	return func(w *bench) bool { return w.pack(w.in.ids(k), always) }
}
