package compiler

import (
	"errors"
	"fmt"
	"slices"

	"stweaver/ir"
)

// Where the iterations of a trace lie, by the best evidence there is:
//
//  1. marks the program made: "iteration 7 begins", ProfilerStep#7
//  2. labels and spans that count: "iter 7", "step=7"
//  3. the spans of Optimizer.step, which PyTorch makes by itself: the end of one (or of every
//     p-th, where an iteration makes several) is the end of an iteration
//  4. the requests alone (infer.go)
//
// A recording that began or stopped in the middle of an iteration shows a part of it:
//
//	…7|        8        |        9        |  10…
//	  ^ cuts            ^                 ^          iterations 8 and 9 are whole
//
// Windows that a mark closes on both sides are taken at their word; a window whose end is
// merely the end of the recording must look like its neighbour. Where nothing repeats in a
// recording that saw everything, the whole is one pass. Where the recording did not see
// everything, or what repeats does not do so for certain, the answer is a StepsError.

// Sources of Steps that are not made up from names in the trace.
const (
	SourceMarks    = "iteration marks"
	SourceProfiler = "ProfilerStep marks"
	SourceOptim    = "annotations: Optimizer.step"
	SourceInferred = "inferred period"
	SourceOnePass  = "one pass"
)

// Steps says where the iterations of a trace lie: iteration i is the trace ticks
// [Cuts[i], Cuts[i+1]). What precedes Cuts[0] is initialisation or an iteration that was not
// seen whole; what follows the last cut is the process going away, or a part of an iteration.
// It is immutable once returned.
type Steps struct {
	Cuts   []ir.Tick // ascending; none, or at least two
	First  int64     // number of iteration 0 as the profile writes it, 0 where it writes none
	Source string    // the evidence, for the report
	// Cold: iteration 0 is the first one of the process. It makes what later ones only use.
	Cold bool
	// Anchors is, for an inferred period, one request (index in Trace.Requests) for each
	// time round, before the cut was moved.
	Anchors []uint32
	Notes   []string // findings, a sentence each, in the order found
}

// N is the number of iterations; 0 where the trace is one pass.
func (s *Steps) N() int { return max(len(s.Cuts)-1, 0) }

func (s *Steps) notef(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// StepsError says that a trace holds no iteration to plan for.
type StepsError struct {
	Reason string // what was found
	Hint   string // what to do about it
}

func (e *StepsError) Error() string { return "compiler: steps: " + e.Reason + "; " + e.Hint }

// FindSteps finds the iterations of t. The error is a *StepsError: the trace should have
// steps, and has none that are whole and certain. Safe for concurrent use.
func FindSteps(t *ir.Trace) (*Steps, error) {
	if t.OnePass {
		return &Steps{Source: SourceOnePass}, nil
	}
	s := newSequence(t)
	for _, find := range []func(*sequence) *Steps{iterationMarks, countingLabels, optimizerSpans} {
		if st := find(s); st != nil {
			return st, nil
		}
	}
	st, err := inferSteps(s)
	if err != nil {
		return nil, err
	}
	if st != nil {
		return st, nil
	}
	switch hint := "record at least three whole iterations, or mark them (torch.profiler.record_function(f\"iter {i}\"))"; {
	case t.Wrapped:
		return nil, &StepsError{fmt.Sprintf("the recorder's ring buffer wrapped, and the %d requests that are left hold no whole iteration that is certain", s.len()),
			"record fewer iterations or raise max_entries; " + hint}
	case t.Late:
		return nil, &StepsError{fmt.Sprintf("recording began late, and its %d requests hold no whole iteration that is certain", s.len()), hint}
	}
	st = &Steps{Source: SourceOnePass}
	st.notef("nothing repeats in %d requests: taken as one pass, planned without a loop", s.len())
	return st, nil
}

// window bounds found by some evidence, in ticks, before their ends are judged.
type bounds struct {
	cuts               []ir.Tick
	numbers            []int64 // of the windows, where they have one
	openFirst, openEnd bool    // the first or last cut is the edge of the recording
}

// settle drops windows that are empty or were cut off, and returns what is left as Steps;
// nil where nothing is left.
func (b *bounds) settle(s *sequence, source string) *Steps {
	st := &Steps{Source: source, Cuts: b.cuts}
	if len(b.numbers) > 0 {
		st.First = b.numbers[0]
	}
	dropFirst := func() {
		st.Cuts = st.Cuts[1:]
		st.First++
		if len(b.numbers) > 1 {
			b.numbers = b.numbers[1:]
			st.First = b.numbers[0]
		}
		b.openFirst = false
	}
	dropLast := func() { st.Cuts, b.openEnd = st.Cuts[:len(st.Cuts)-1], false }
	clocks := func(i int) int { return s.at(st.Cuts[i]) }
	dropEmpty := func() {
		for st.N() > 0 && clocks(0) == clocks(1) {
			dropFirst()
		}
		for st.N() > 0 && clocks(st.N()) == clocks(st.N()-1) {
			dropLast()
		}
	}
	dropEmpty()
	whole := func() []int {
		c := make([]int, len(st.Cuts))
		for i := range c {
			c[i] = clocks(i)
		}
		return c
	}
	if st.N() > 0 && b.openEnd && cutShort(s, whole(), b.openFirst, false) {
		dropLast()
		st.notef("the recording stops in the middle of an iteration: that part is not used")
	}
	if st.N() > 0 && b.openFirst && cutShort(s, whole(), false, true) {
		dropFirst()
		st.notef("the recording begins in the middle of an iteration: that part is not used")
	}
	dropEmpty() // which may have lain beside one that was cut off
	if st.N() <= 0 {
		return nil
	}
	st.Cold = !s.sawPart() && s.t.Requests[0].Alloc != ir.Before
	if s.sawPart() {
		what := "recording began late"
		if s.t.Wrapped {
			what = "the recorder's ring buffer wrapped"
		}
		st.notef("%s: iterations %d to %d are whole", what, st.First, st.First+int64(st.N())-1)
	}
	return st
}

// sawPart reports whether the recording did not see the program from its start.
func (s *sequence) sawPart() bool { return s.t.Late || s.t.Wrapped }

// Limits of what a whole window at the edge of the recording may look like.
const (
	slackSimilar  = perfect * 2 / 100  // below the worst pair of the others
	loneSimilar   = perfect * 90 / 100 // where there are no others
	slackLiveOver = 20                 // 1/20 of the swing: bytes alive that the other side has not
)

// cutShort judges the last window (or the first) of cuts, clocks, whose outer cut is only
// the edge of the recording. It is cut short if it is less like its neighbour than the other
// neighbours are like each other, or if more is alive at the edge than at the inner cut: an
// iteration ends with what it began with. doubtful says that the first window is no measure.
func cutShort(s *sequence, cuts []int, doubtful, first bool) bool {
	n := len(cuts) - 1
	if n < 2 {
		return s.sawPart()
	}
	inner, edge := cuts[n-1], cuts[n]
	sim := s.similarities(cuts)
	own, others := sim[n-2], sim[:n-2]
	if first {
		inner, edge = cuts[1], cuts[0]
		own, others = sim[0], sim[1:]
	} else if len(others) > 1 || len(others) == 1 && doubtful {
		others = others[1:] // the first window may be the cold one
	}
	need := loneSimilar
	if len(others) > 0 {
		need = slices.Min(others) - slackSimilar
	}
	if own < need {
		return true
	}
	more := s.live[edge] - s.live[inner]
	if !first {
		// Compared just after a request as well: at the end of the recording the frees are
		// missing that the program would have made before its next one.
		after := func(cut int) ir.Bytes { return s.live[cut-1] + s.tok[cut-1].size }
		more = min(more, after(edge)-after(inner))
	}
	lo, hi := slices.Min(s.live[cuts[0]:cuts[n]+1]), slices.Max(s.live[cuts[0]:cuts[n]+1])
	return more*slackLiveOver > hi-lo
}

// inferSteps turns an inferred period into Steps: nil where nothing repeats, an error where
// something does, but not for certain.
func inferSteps(s *sequence) (*Steps, error) {
	p := findPeriod(s)
	if p == nil {
		return nil, nil
	}
	if !p.certain {
		return nil, &StepsError{
			fmt.Sprintf("something repeats about every %d requests, but not regularly enough to be the iteration for certain", p.mean/256),
			"mark the iterations (torch.profiler.record_function(f\"iter {i}\") with global_record_annotations=True)"}
	}
	b := bounds{}
	for _, c := range rotate(s, p.anchors) {
		b.cuts = append(b.cuts, s.tickOf(c))
	}
	// The last cut may be the end of what was seen, found where the period says.
	b.openEnd = s.at(b.cuts[len(b.cuts)-1]) == s.len()
	st := b.settle(s, SourceInferred)
	if st == nil {
		return nil, nil
	}
	st.Cold = false
	for _, a := range p.anchors {
		st.Anchors = append(st.Anchors, s.req[a])
	}
	st.notef("period of %d requests, seen %d times, windows alike by %.1f %%", p.mean/256, len(p.anchors), float64(p.similar)/(perfect/100))
	return st, nil
}

// errNoSteps is what a template is not made from.
var errNoSteps = errors.New("compiler: template: the trace has no iterations")
