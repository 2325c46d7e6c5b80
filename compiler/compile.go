// Package compiler turns a profile into a plan. It is the only place where the order of the
// work is written down:
//
//	steps → kinds → lower → constrain → pack → verify → rehearse → emit
//
// steps finds the iterations of the trace, kinds aligns them into a template and classes its
// requests, lower makes the problem (prologue, loop, carried buffers), constrain adds what rules ask of its
// buffers, pack places the buffers, verify judges the result with ir.Verify and by executing the recorded events, and
// rehearse runs it beside the heap alone and shrinks a plan that loses, and emit writes the plan. ir.Check runs between passes; a layout that does not verify is a bug
// of ours and is never written.
//
// A compile is a function of trace and options: no clock, environment or randomness
// enters the plan. The clock is only read to report what a pass took.
package compiler

import (
	"context"
	"fmt"
	"io"
	"time"

	"stweaver/heuristics"
	"stweaver/ir"
)

// Effort is how much work the packers may do.
type Effort string

// Efforts.
const (
	Fast    Effort = "fast"
	Default Effort = "default"
	Max     Effort = "max"
)

// Efforts lists the efforts in rising order.
var Efforts = []Effort{Fast, Default, Max}

func (e Effort) tries() int {
	switch e {
	case Fast:
		return heuristics.EffortFast
	case Max:
		return heuristics.EffortMax
	}
	return heuristics.EffortDefault
}

// Options of a compile. The zero value is the default.
type Options struct {
	Rules    ir.Rules
	Effort   Effort     // "" is Default
	From, To int        // iterations of the profile to plan from; both 0: the steady ones
	Keep     string     // what the plan holds, as Rehearsal.Holds has it; "": the rehearsal decides
	Sharing  ir.Sharing // whether streams share memory, and on what terms
	Curve    bool       // where they do: pack for every AGE of CurveAges, too. The plan gets the best layout that its AGE allows
	OnePass  bool       // do not look for iterations: plan the recording as it is, once through
	Dump     string     // pass after which Text is written to DumpTo
	DumpTo   io.Writer
	Progress func(pass string, done, total int, best, bound ir.Bytes)
	// Stop, if not nil, ends the search for better layouts when it is closed: the best so far is
	// kept, verified and written like any other. Which one that is depends on when.
	Stop <-chan struct{}
}

// Compiled is what a compile found and made. All of it is immutable afterwards.
type Compiled struct {
	Trace   *ir.Trace // as given; where streams share, with every free where it was asked for
	Steps   *Steps
	Problem *ir.Problem
	Layout  *ir.Layout
	Streams []ir.PlanStream
	Plan    *ir.Plan
	Packs   []StreamPack // one for each arena with planned buffers: of a stream, or of all that share
	Passes  []PassTime
	Notes   []string // what a user should know, in the order found
	// RuleNotes are those of the notes that are about rules.
	RuleNotes []string
	// Rehearsal is nil where the plan cannot lose and none was needed.
	Rehearsal *Rehearsal
	Verified  Verification
	// Curve is, by AGE, what Options.Curve asks for.
	Curve []CurvePoint
	// Reserved is nil where no room was asked for.
	Reserved *Reserved
	// Obeyed is nil where no rule asks anything of the layout.
	Obeyed *Obeyed
	// Interrupted is true if Options.Stop ended a search that had more to try.
	Interrupted bool

	options   Options
	template  *Template
	mapping   *mapping
	shares    []share     // by stream; one where streams share
	order     []int       // of the shares in the arena, lowest first
	latest    []ir.Offset // by share: the highest begin that pins and windows leave it; nil: no rules
	reserve   []ir.Bytes  // by share: room for dynamic requests
	selected  []bitset    // requests of each selection of the rules
	weighing  bool        // it is a pack for comparison
	apartLive ir.Bytes    // the least that streams apart need, deferred frees included; where they share
	digest    [32]byte
}

// Verification says what the verify pass looked at.
type Verification struct {
	Buffers  int // judged by ir.Verify
	Replayed int // requests placed while executing the recorded events
}

// PassTime is the wall time of one pass.
type PassTime struct {
	Name    string
	Seconds float64
}

type pass struct {
	name string
	doc  string
	run  func(*Compiled, context.Context) error
	dump func(*Compiled, io.Writer) error
}

// passes is the compiler. Later passes rely on what earlier ones left in Compiled.
var passes = []pass{
	{"steps", "find the iterations", (*Compiled).runSteps, (*Compiled).dumpSteps},
	{"kinds", "align them into a template and class its requests", (*Compiled).runKinds, (*Compiled).dumpKinds},
	{"lower", "make buffers and timeline", (*Compiled).runLower, (*Compiled).dumpProblem},
	{"constrain", "what rules ask for, in terms of buffers", (*Compiled).runConstrain, (*Compiled).dumpProblem},
	{"pack", "place the buffers", (*Compiled).runPack, (*Compiled).dumpProblem},
	{"verify", "judge the layout", (*Compiled).runVerify, (*Compiled).dumpProblem},
	{"rehearse", "judge the plan beside the heap alone, shrink it where it loses", (*Compiled).runRehearse, (*Compiled).dumpProblem},
	{"emit", "write the plan", (*Compiled).runEmit, (*Compiled).dumpPlan},
}

// PassNames lists the passes in order.
func PassNames() []string {
	var names []string
	for _, p := range passes {
		names = append(names, p.name)
	}
	return names
}

// InfeasibleError: no layout fits what was asked for. CLI exit code 5. Rules, where there are any, cannot be
// obeyed together: none of them can be left out of the list.
type InfeasibleError struct {
	Msg   string
	Rules []ir.RuleID
}

func (e *InfeasibleError) Error() string { return "compiler: " + e.Msg }

// Compile makes a plan for t. It is safe to call from several goroutines. Errors are
// *StepsError where the profile has no usable iteration, *InfeasibleError where the plan
// cannot fit, and ctx.Err() after an interruption.
func Compile(ctx context.Context, t *ir.Trace, o Options) (*Compiled, error) {
	c, err := start(t, o)
	if err != nil {
		return nil, err
	}
	return c, c.runPasses(ctx, passes)
}

// Analyse runs the passes up to constrain: everything but the packing. Verify and replay
// use it to read a profile against an existing plan.
func Analyse(ctx context.Context, t *ir.Trace, o Options) (*Compiled, error) {
	c, err := start(t, o)
	if err != nil {
		return nil, err
	}
	return c, c.runPasses(ctx, passes[:4])
}

func start(t *ir.Trace, o Options) (*Compiled, error) {
	if o.Effort == "" {
		o.Effort = Default
	}
	if o.Dump != "" {
		known := false
		for _, p := range passes {
			known = known || p.name == o.Dump
		}
		if !known {
			return nil, fmt.Errorf("compiler: no pass %q; there are %v", o.Dump, PassNames())
		}
	}
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("compiler: the reader made an invalid trace: %w", err)
	}
	o.Sharing = sharedByRule(&o.Rules, o.Sharing)
	c := &Compiled{Trace: t, options: o, digest: t.Digest()}
	if o.Sharing.On {
		c.Trace = t.Asked()
		for _, peak := range t.StreamPeaks() {
			c.apartLive += peak
		}
	}
	return c, nil
}

// Rules are those that the compile obeys.
func (c *Compiled) Rules() *ir.Rules { return &c.options.Rules }

func (c *Compiled) runPasses(ctx context.Context, list []pass) error {
	for _, p := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.options.Progress != nil {
			c.options.Progress(p.name, 0, 0, 0, 0)
		}
		began := time.Now()
		if err := p.run(c, ctx); err != nil {
			return err
		}
		c.Passes = append(c.Passes, PassTime{p.name, time.Since(began).Seconds()})
		if c.options.Dump == p.name && c.options.DumpTo != nil {
			if err := p.dump(c, c.options.DumpTo); err != nil {
				return fmt.Errorf("compiler: dump after %s: %w", p.name, err)
			}
		}
	}
	return nil
}
