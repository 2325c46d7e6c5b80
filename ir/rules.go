package ir

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Rules are what a user asks of a plan, as plain data: no syntax, no names left to look up. Package lang
// makes them from text; command-line flags fill in the same fields. The zero value asks for nothing.
type Rules struct {
	// Capacity is the most memory that plan and heap may use, in bytes: the device's less Headroom; 0: no limit.
	Capacity Bytes
	// Headroom is what of the device stays free for communication, workspaces and the context. It is
	// taken off Capacity already, and kept for reports.
	Headroom Bytes
	// Granularity is the size of the device's pages in bytes, a power of two; 0: not stated. A plan takes whole pages.
	Granularity Bytes
	// Reserve asks for arena room that dynamic requests have to themselves.
	Reserve Reserve
	// Effort, Exact and Seed direct the search: "" or fast, default, max; the most nodes of the exact
	// search, where ExactSet; the seed of drawn tries (0: the usual ones).
	Effort     string
	EffortFrom StatementID
	Exact      int64
	ExactSet   bool
	Seed       uint64
	// Step says where the iterations begin, where it is set.
	Step StepRule

	Selections []Selection
	List       []Rule
	// Statements are all statements in the order they hold, what List and Selections came from included.
	Statements []Statement
}

// StatementID is 1 + an index in Rules.Statements; 0 is that of what no file says.
type StatementID int32

// NoStatement is the statement of what no file says.
const NoStatement StatementID = 0

// Statement is one statement of a rules file, in its one canonical form.
type Statement struct {
	At   Place
	Text string // one line
}

// Place is a position in a file; line and column count from 1, columns in characters.
type Place struct {
	File         string
	Line, Column int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Compare orders places by file, line and column.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// RuleKind is what a rule asks for.
type RuleKind uint8

// Rule kinds, with the fields of Rule that they use beside Of.
const (
	RulePin      RuleKind = iota + 1 // one after the other from From on, in the order they are requested; or, where To is not NoOffset, each inside [From, To)
	RuleArena                        // the buffers have a region to themselves: at most Max bytes, no buffer across a multiple of Piece in it; 0: no limit
	RuleTogether                     // the buffers lie one after the other, without gaps, in the order they are requested
	RuleApart                        // buffers of different selections never share an address; of one selection: its buffers never do
	RuleKeep                         // nothing else ever uses the buffers' addresses
	RuleShare                        // Streams may reuse each other's memory, Age requests after a free
	RuleSeparate                     // Streams share no memory with any other stream
	RuleTreat                        // As
	RuleGuard                        // the addresses stay taken for Ticks requests after the usual death
	RuleExpect                       // Measure is at most or at least Limit; else the compile fails
	RuleCapacity                     // the plan takes at most Max bytes, which are Rules.Capacity
	RuleAlign                        // every planned address is a multiple of Max bytes, a power of two
)

// Treatment is what a RuleTreat makes of its requests.
type Treatment uint8

// Treatments.
const (
	AsDynamic    Treatment = iota + 1 // no planned address
	AsStatic                          // an address of their own size, the largest seen, though they vary
	AsPersistent                      // held to the end once they are there
	AsIgnored                         // not in the plan: the runtime meets them as requests it does not know
)

// Measure is what a RuleExpect is about.
type Measure uint8

// Measures. Peak is in bytes; the others are rates in 0…1.
const (
	MeasurePeak    Measure = iota + 1 // highest planned address
	MeasureGap                        // plan peak over bound, less 1
	MeasureDynamic                    // share of one step's bytes that have no planned address
	MeasureHits                       // in replay: share of planned requests at their planned address, from the second iteration on
)

// Rule is one thing asked of the plan. Its index in Rules.List is how constraints and conflicts name it.
type Rule struct {
	Kind      RuleKind
	Statement StatementID
	Of        []int // indices in Rules.Selections
	// What follows is used as the kind says.
	From, To   Offset
	Max, Piece Bytes
	Streams    []StreamID // by first appearance in the profile; empty: all
	Age        Tick       // -1: the usual one
	As         Treatment
	Ticks      Tick // of the plan: requests
	Measure    Measure
	AtLeast    bool // the limit is a lower one
	Limit      float64
}

// Selection is a named set of requests. It names only selections before it.
type Selection struct {
	Name      string // "" where it is written inside a rule
	Statement StatementID
	Where     Expr
}

// Op is what an Expr does.
type Op uint8

// Operators. And, Or and Not work on Args; Ref takes the requests of the selection Sel; Test asks for a
// field; True takes every request.
const (
	OpTrue Op = iota + 1
	OpAnd
	OpOr
	OpNot
	OpRef
	OpTest
)

// Field is a property of a request.
type Field uint8

// Fields. The first are numbers, tested against the range [Lo, Hi]; the others are words or texts, tested
// against Words or Patterns.
const (
	FieldSize      Field = iota + 1 // rounded size in bytes
	FieldLife                       // requests made while it lives
	FieldPhases                     // phase borders it lives across
	FieldStream                     // ordinal of the stream, by first appearance
	FieldRequest                    // ordinal in the recording, from 0
	FieldIteration                  // iteration of the profile, counted from 0; before the first one: -1
	FieldPart                       // of the plan: 0 prologue, 1 loop, 2 neither
	FieldKind                       // Kind
	FieldPhase                      // name of the phase in force at the allocation
	FieldModule                     // any module or annotated span open at the allocation
	FieldFrame                      // any source frame of the allocation: "file:line function"
)

// Expr is a condition on a request.
type Expr struct {
	Op       Op
	Args     []Expr
	Sel      int
	Field    Field
	Lo, Hi   int64 // both included
	Kinds    []Kind
	Patterns []Pattern // any of them
}

// Match is how a Pattern is compared.
type Match uint8

// Matches. A glob must match the whole name: * stands for any characters, ? for one. A regular expression
// (of Go) need match a part only.
const (
	Exact Match = iota + 1
	Glob
	Regexp
)

// Pattern is a text that a name is compared with.
type Pattern struct {
	Text string
	How  Match
}

// StepRule says where iterations begin. At most one of the fields is set.
type StepRule struct {
	Statement   StatementID
	At          []int64 // requests that begin an iteration, ascending; the last one ends the last
	Every, From int64   // an iteration is Every requests long, the first begins with request From
	Where       *Expr   // each request that it takes begins an iteration
}

// On reports whether the rules say where iterations begin.
func (s *StepRule) On() bool { return len(s.At) > 0 || s.Every > 0 || s.Where != nil }

// StatementOf returns a statement; the empty one for NoStatement.
func (r *Rules) StatementOf(id StatementID) Statement {
	if id == NoStatement {
		return Statement{}
	}
	return r.Statements[id-1]
}

// Forget takes a statement out, with all that came from it but selections: something else stands above it.
func (r *Rules) Forget(id StatementID) {
	if id == NoStatement {
		return
	}
	move := func(x *StatementID) {
		switch {
		case *x == id:
			*x = NoStatement
		case *x > id:
			*x--
		}
	}
	r.List = slices.DeleteFunc(slices.Clone(r.List), func(x Rule) bool { return x.Statement == id })
	r.Selections = slices.Clone(r.Selections)
	r.Statements = slices.Delete(slices.Clone(r.Statements), int(id-1), int(id))
	for i := range r.List {
		move(&r.List[i].Statement)
	}
	for i := range r.Selections {
		move(&r.Selections[i].Statement)
	}
	if r.Reserve.Statement == id {
		r.Reserve = Reserve{}
	}
	if r.Step.Statement == id {
		r.Step = StepRule{}
	}
	if r.EffortFrom == id {
		r.Effort = ""
	}
	move(&r.Reserve.Statement)
	move(&r.Step.Statement)
	move(&r.EffortFrom)
}

// Find returns the first rule of a kind; -1 where there is none.
func (r *Rules) Find(kind RuleKind) int {
	return slices.IndexFunc(r.List, func(x Rule) bool { return x.Kind == kind })
}

// Asks reports whether a condition asks for the field.
func (r *Rules) Asks(f Field) bool {
	var in func(e *Expr) bool
	in = func(e *Expr) bool {
		return e.Op == OpTest && e.Field == f || slices.ContainsFunc(e.Args, func(x Expr) bool { return in(&x) })
	}
	return r.Step.Where != nil && in(r.Step.Where) || slices.ContainsFunc(r.Selections, func(s Selection) bool { return in(&s.Where) })
}

// Origin says where rule number i of the list is written, and how.
func (r *Rules) Origin(i int) string {
	s := r.StatementOf(r.List[i].Statement)
	return fmt.Sprintf("%v: %s", s.At, s.Text)
}

// Digest identifies what the statements say, wherever they are written.
func (r *Rules) Digest() [32]byte {
	h := sha256.New()
	for _, s := range r.Statements {
		fmt.Fprintf(h, "%s\n", s.Text)
	}
	return [32]byte(h.Sum(nil))
}

// Reserve is the room kept for dynamic requests in each stream's part of the arena: a quantile of the
// recorded iterations' peaks of dynamic bytes, times Headroom, up to Cap. The zero value reserves nothing.
type Reserve struct {
	Quantile  float64 // in [0, 1]
	Headroom  float64 // above 0 where something is to be reserved
	Cap       Bytes   // 0: no limit
	Statement StatementID
}

// On reports whether anything is asked for.
func (r Reserve) On() bool { return r.Headroom > 0 }
