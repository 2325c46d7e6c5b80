// Package sat decides, by SAT, whether buffers of given sizes fit under a capacity when
// given pairs of them may not share an address. It is the arm of the exact solver that
// refutes: branch and bound is faster at finding tight layouts, and helpless where the
// optimum lies above the live peak; a clause learner is the other way round.
//
// The question in ten lines:
//
//  1. shrink the instance at the capacity (reduce.go): what always fits is put aside, what
//     can hide behind another is put there, what conflicts with all is stacked below,
//     and what falls apart is decided part by part;
//  2. the heaviest clique found above the capacity settles it at once: a clause learner
//     would have to prove a pigeon-hole principle;
//  3. where the clauses fit the budget, the order encoding (order.go): one variable for
//     each candidate offset of each buffer, one for each conflicting pair;
//  4. else the same over sizes rounded down, to refute, or up, to find (round.go);
//  5. else the orientation encoding (orient.go): a variable for each pair only, and
//     chains of buffers too tall for the capacity become clauses as they turn up;
//  6. a layout is checked pair by pair before it leaves the package.
//
// Sizes, offsets and capacities are plain integers in one unit of the caller's choice;
// a buffer occupies [offset, offset+size), and a capacity C allows offset+size <= C.
// The package knows no time: lifetimes that wrap round a loop are conflicts like any other.
//
// A verdict other than Unknown does not depend on the clock. Whether there is one
// does, since gini can only be limited by time.
//
// Sources: order encoding, Soh, Inoue, Tamura, Banbara, Nabeshima, "A SAT-based method
// for solving the two-dimensional strip packing problem" (RCRA 2008); normal patterns,
// Herz, "Recursive computational procedure for two-dimensional stock cutting" (1972), and
// Côté and Iori, "The meet-in-the-middle principle for cutting and packing problems"
// (2018); cuts found lazily follow the usual pattern of SAT modulo difference logic.
// The solver is github.com/go-air/gini, imported by this package alone (solver.go).
package sat

// Instance is a set of buffers and the pairs of them that are alive together. Twice the sum of the sizes round any one
// buffer, and its size times their number, must fit an int64.
type Instance struct {
	Sizes     []int64    // units, one for each buffer; 0 or less occupies nothing
	Conflicts [][2]int32 // pairs i < j, sorted, no duplicates
	Fixed     []int64    // offset in units, -1 where free; nil: all free
}

// Verdict is the answer to "is there a layout at most this high?".
type Verdict uint8

// Verdicts. Unknown means the budget ran out.
const (
	Unknown Verdict = iota
	Feasible
	Infeasible
)

func (v Verdict) String() string {
	switch v {
	case Feasible:
		return "feasible"
	case Infeasible:
		return "infeasible"
	}
	return "unknown"
}

// Budget limits a call. MaxClauses is a count and limits memory (about 60 bytes for each);
// Seconds is wall time. Zero means 20 million clauses, ten seconds.
type Budget struct {
	MaxClauses int64
	Seconds    float64
}

// Answer is a verdict and what it took.
type Answer struct {
	Verdict  Verdict
	Offsets  []int64 // one for each buffer where Feasible, checked; else nil
	Vars     int64   // variables of all encodings tried
	Clauses  int64   // clauses handed to the solver, cuts included
	Rounds   int64   // calls of the solver
	Encoding string  // what decided: "reduction", "clique", "order", "order, rounded down", "order, rounded up", "orientation"
	Rejected int64   // layouts that failed the check and were dropped; anything but 0 is a defect
}

// Bound is a proved lower bound on the height of any layout.
type Bound struct {
	Value int64
	Kind  string  // "live peak": nothing better than load was proved; "core": the buffers of Core alone need it; "proved": it meets upper
	Core  []int32 // buffers, ascending; nil where Kind is "live peak"
}
