package compiler

import (
	"fmt"
	"slices"
	"strings"

	"stweaver/ir"
	"stweaver/solver"
)

// Version of the program, written into plans.
const Version = "0.1.0"

// KindCount is what a plan holds of one kind.
type KindCount struct {
	Requests int      `json:"requests"`
	Bytes    ir.Bytes `json:"bytes"` // sum of rounded sizes
}

// Summary is the report of a compile. Bytes are rounded as the planner rounds.
type Summary struct {
	Requests         int                  `json:"requests"` // of the profile
	Steps            int                  `json:"steps"`    // iterations found
	StepsUsed        [2]int               `json:"steps_used"`
	StepsSource      string               `json:"steps_source"`
	Streams          int                  `json:"streams"`
	Kinds            map[string]KindCount `json:"kinds"`
	PrologueRequests int                  `json:"prologue_requests"`
	StepRequests     int                  `json:"step_requests"`   // of one iteration
	Unroll           int                  `json:"unroll"`          // iterations the plan's loop holds
	LivePeak         ir.Bytes             `json:"live_peak_bytes"` // of the whole profile, planned or not
	Bound            ir.Bytes             `json:"bound_bytes"`     // no plan of these buffers can be smaller
	BoundKind        string               `json:"bound_kind"`
	PlanPeak         ir.Bytes             `json:"plan_peak_bytes"`
	Gap              float64              `json:"gap"`
	StreamsApart     ir.Bytes             `json:"streams_apart_cost_bytes"` // bound minus what it would be if streams shared
	Sharing          string               `json:"streams_mode"`             // apart, or shared:AGE
	Shared           *SharedSummary       `json:"shared,omitempty"`         // where streams share
	OutsidePlan      ir.Bytes             `json:"outside_plan_bytes"`       // resident before recording began: the heap has it
	Method           string               `json:"method"`
	Proved           bool                 `json:"proved"` // plan peak equals the bound
	Reserved         *ir.Bytes            `json:"recorded_reserved_bytes"`
	Allocator        string               `json:"recorded_allocator"`
	RecordedE        *float64             `json:"recorded_efficiency"` // live peak / reserved of the recording
	PlanFile         int                  `json:"plan_file_bytes"`
	BytesPerRequest  float64              `json:"bytes_per_request"` // of the step
	VerifiedBuffers  int                  `json:"verified_buffers"`
	VerifiedRequests int                  `json:"verified_requests"` // placed while executing the recorded events
	Seconds          float64              `json:"seconds"`
	Passes           []PassSummary        `json:"passes"`
	Repeats          []*Repeats           `json:"repeats,omitempty"` // by stream, where packing needed them
	Notes            []string             `json:"notes"`
	Rehearsal        *Rehearsal           `json:"rehearsal,omitempty"`    // absent where the plan cannot lose
	Proofs           []Proof              `json:"proofs,omitempty"`       // where they were asked for
	Room             *Reserved            `json:"reserve,omitempty"`      // where the rules ask for it; part of the plan peak
	Obeyed           *Obeyed              `json:"rules_obeyed,omitempty"` // where rules ask something of the layout
	Explain          *Explanation         `json:"explain,omitempty"`
	Rules            *RuleReport          `json:"rules,omitempty"` // those that the plan obeys
}

// SharedSummary is what sharing between streams gives and costs.
type SharedSummary struct {
	Apart ir.Bytes `json:"apart_bound_bytes"` // what the whole profile needs where streams stay apart and deferred frees stay deferred
	Held  ir.Bytes `json:"held_bytes"`        // what deferred frees, held for their own stream, add to the bound; 0 where it is not known
	Waits
	Program string       `json:"program_waits,omitempty"` // what is known of the program's own waits
	Curve   []CurvePoint `json:"curve,omitempty"`         // where it was asked for
}

// PassSummary is one pass and its wall time.
type PassSummary struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// warnings are the notes of a profile that cost plan quality or trust.
func warnings(t *ir.Trace) (texts []string) {
	for _, n := range t.Notes {
		if n.Level >= ir.Warn {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// Summary reports on a finished compile whose plan takes planFile bytes. read is the time
// that reading the profile took, encoded that of writing the plan's bytes, in seconds.
func (c *Compiled) Summary(planFile int, read, encoded float64) *Summary {
	peak, _ := c.Trace.LivePeak()
	s := &Summary{
		Requests: len(c.Trace.Requests), Steps: c.Steps.N(), StepsUsed: [2]int{c.Problem.FirstStep, c.Problem.LastStep},
		StepsSource: c.Steps.Source, Streams: len(c.Trace.Streams), Kinds: make(map[string]KindCount),
		PrologueRequests: int(c.Problem.L0), StepRequests: int(c.Problem.L1-c.Problem.L0) / max(c.Problem.Unroll, 1), Unroll: c.Problem.Unroll,
		LivePeak: peak, Bound: c.Bound(), BoundKind: "live peak", PlanPeak: c.Arena(),
		Proved: c.Arena() == c.Bound(), Method: c.Plan.Get("method"), Allocator: c.Trace.Allocator, PlanFile: planFile,
		VerifiedBuffers: c.Verified.Buffers, VerifiedRequests: c.Verified.Replayed, Notes: append([]string{}, slices.Concat(warnings(c.Trace), c.Notes)...), Rehearsal: c.Rehearsal, Room: c.Reserved, Obeyed: c.Obeyed, Rules: ReportRules(&c.options.Rules), Sharing: SharingText(c.options.Sharing),
	}
	for _, p := range c.Packs {
		if p.Repeats != nil {
			s.Repeats = append(s.Repeats, p.Repeats)
		}
		if p.Kind != solver.LivePeak {
			s.BoundKind = p.Kind
		}
	}
	if len(c.Packs) > 1 {
		s.BoundKind = "sum of the streams' live peaks"
		if kinds := c.boundKinds(); len(kinds) > 1 || kinds[0] != solver.LivePeak {
			s.BoundKind = "sum of the streams' bounds: " + strings.Join(kinds, ", ")
		}
		together, _ := c.Problem.LivePeak()
		s.StreamsApart = s.Bound - together
	}
	if c.options.Sharing.On {
		s.Shared = &SharedSummary{Waits: waitsOf(c.Problem, c.Layout), Program: c.programWaits(), Curve: c.Curve, Apart: c.apartLive}
		if live, _ := c.Problem.LivePeak(); len(c.Packs) == 1 && c.Packs[0].Kind == boundHeld {
			s.Shared.Held = c.Packs[0].Bound - live
		}
	}
	if s.Bound > 0 {
		s.Gap = float64(s.PlanPeak)/float64(s.Bound) - 1
	}
	for _, k := range ir.Kinds {
		s.Kinds[k.String()] = KindCount{}
	}
	for i := range c.Problem.Entries {
		e := &c.Problem.Entries[i]
		n := s.Kinds[e.Kind.String()]
		n.Requests++
		n.Bytes += e.MaxSize
		s.Kinds[e.Kind.String()] = n
	}
	var before ir.Bytes
	for i := range c.Trace.Requests {
		if r := &c.Trace.Requests[i]; r.Alloc == ir.Before {
			before += r.Rounded()
		}
	}
	s.OutsidePlan = before
	if c.Trace.Reserved >= 0 {
		reserved := c.Trace.Reserved
		s.Reserved = &reserved
		if reserved > 0 {
			e := float64(peak) / float64(reserved)
			s.RecordedE = &e
		}
	}
	bytes, requests := c.Plan.StepBytes()
	if requests > 0 {
		s.BytesPerRequest = float64(bytes) / float64(requests)
	}
	s.Passes = append(s.Passes, PassSummary{"read", read})
	s.Seconds = read + encoded
	for _, p := range c.Passes {
		s.Passes = append(s.Passes, PassSummary(p))
		s.Seconds += p.Seconds
	}
	s.Passes = append(s.Passes, PassSummary{"encode", encoded})
	return s
}

// boundKinds lists the kinds of the streams' bounds, each once.
func (c *Compiled) boundKinds() []string {
	var kinds []string
	for _, p := range c.Packs {
		if !slices.Contains(kinds, p.Kind) {
			kinds = append(kinds, p.Kind)
		}
	}
	return kinds
}

// Size prints bytes in binary units, for people.
func Size(n ir.Bytes) string {
	v, unit := float64(n), 0
	for v >= 1024 && unit < 5 {
		v, unit = v/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.2f %s", v, [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}
