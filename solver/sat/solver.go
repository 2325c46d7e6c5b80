package sat

import (
	"slices"
	"time"

	"github.com/go-air/gini"
	"github.com/go-air/gini/z"
)

// engine is one gini solver under the rules its code was found to need:
//
//   - Only Try, never Solve or GoSolve: Try leaves its deadline behind, and a plain Solve
//     after a Try that ran out answers "unknown" at its first poll. A handle of GoSolve
//     blocks for ever when it is stopped after a result.
//   - Assumptions hold for one call, so try takes them as arguments.
//   - A variable that is in no clause may read false in both signs, so truth is read
//     from the literal as it was made, and a reader has a meaning for "neither".
//   - A clause added after the solver refuted its own clauses makes it forget the conflict,
//     find a "model", check it, and end the process by log.Fatalf. So a solver that
//     answered no without the help of an assumption is finished: nothing more is added
//     to it and every further try says no.
//   - After a no under an assumption the negated assumption is added. That is the answer in
//     clause form, and takes gini past the clean-up of a stale conflict.
//   - Any panic inside it makes the engine broken: every further try says unknown.
//
// The deadline is polled every 20,000 propagations, so a try overstays by some
// milliseconds. Not safe for concurrent use.
type engine struct {
	g        *gini.Gini
	deadline time.Time
	vars     int64
	clauses  int64
	tries    int64
	why      []z.Lit // the assumptions that the last no is about
	refuted  bool    // the clauses alone have no model
	broken   bool    // the library panicked
}

// Results of a try.
const (
	no      = -1
	unknown = 0
	yes     = 1
)

// newEngine makes a solver with room for so many variables and clauses.
func newEngine(vars, clauses int64, deadline time.Time) *engine {
	return &engine{g: gini.NewVc(int(vars)+8, int(clauses)+8), deadline: deadline}
}

// lit makes a variable and returns its positive literal.
func (e *engine) lit() (l z.Lit) {
	defer e.guard()
	e.vars++
	return e.g.Lit()
}

// add adds a clause. An empty one refutes.
func (e *engine) add(lits ...z.Lit) {
	if e.refuted || e.broken {
		return
	}
	if len(lits) == 0 {
		e.refuted = true
		return
	}
	defer e.guard()
	e.clauses++
	for _, l := range lits {
		e.g.Add(l)
	}
	e.g.Add(0)
}

// try asks for a model under the assumptions, for at most limit and never past the
// engine's deadline.
func (e *engine) try(limit time.Duration, assume ...z.Lit) (result int) {
	e.why = nil
	if e.refuted {
		return no
	}
	left := time.Until(e.deadline)
	if e.broken || left <= 0 || limit <= 0 {
		return unknown
	}
	defer func() {
		if e.broken {
			result = unknown
		}
	}()
	defer e.guard()
	e.tries++
	if len(assume) > 0 {
		e.g.Assume(assume...)
	}
	result = e.g.Try(min(limit, left))
	if result != no {
		return result
	}
	blamed := e.g.Why(nil)
	if len(assume) == 0 || len(blamed) == 0 {
		e.refuted = true
		return no
	}
	e.why = slices.Clone(blamed)
	clause := make([]z.Lit, len(blamed))
	for k, l := range blamed {
		clause[k] = l.Not()
	}
	e.add(clause...)
	return no
}

// holds reports whether l, a literal made by lit, is true in the last model.
func (e *engine) holds(l z.Lit) bool {
	return l.Var() <= e.g.MaxVar() && e.g.Value(l)
}

// guard turns a panic of the library into a broken engine.
func (e *engine) guard() {
	if r := recover(); r != nil {
		e.broken = true
	}
}
