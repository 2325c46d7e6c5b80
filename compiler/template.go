package compiler

import (
	"fmt"
	"math"
	"slices"

	"stweaver/ir"
)

// The template: what the steady iterations have in common.
//
//	iteration 1    a b c d d' e      f
//	iteration 2    a b c      e x    f
//	iteration 3    a b c d    e      f
//	template       a b c d d' e x    f
//	                     ' '    '         optional: some iterations lack them
//
// Iterations are merged one after the other (merge.go). An entry is static if every window has
// it, with one size, and if an instance is dead when the next one is made; then it can have an
// address of its own. All else is dynamic, and keeps its place and its usual death.

// NoRequest marks a template entry that a window lacks.
const NoRequest uint32 = math.MaxUint32

// Template is the common form of the steady iterations. Immutable once built.
type Template struct {
	Windows             [][2]ir.Tick    // the steady iterations used: trace ticks, half-open, adjacent
	Entries             []TemplateEntry // in request order
	Member              [][]uint32      // Member[w][entry]: index in Trace.Requests, or NoRequest
	FirstStep, LastStep int             // the iterations [FirstStep, LastStep) of Steps
	Notes               []string        // findings, a sentence each
}

// TemplateEntry is one position of the template.
type TemplateEntry struct {
	MinSize, MaxSize ir.Bytes // rounded sizes seen
	// Life is the usual death: the largest number of entries from this one to the first that
	// is requested after the free. Own index + Life may pass the number of entries: freed in
	// a later iteration. ir.MaxLife: never freed.
	Life         uint32
	Stream       ir.StreamID
	NfMin, NfMax uint8  // frees since the request before, clamped to 3
	Firm         bool   // Life was the same in every window that shows it
	Optional     bool   // some window lacks it
	Lag          uint16 // the longest that marked streams held on to it after its free, in requests
	Kind         ir.Kind
}

// BuildTemplate aligns the iterations [from, to) of t into a template; with from and to both
// -1 it chooses the steady ones. s must be what FindSteps found in t. Safe for concurrent use.
func BuildTemplate(t *ir.Trace, s *Steps, from, to int) (*Template, error) {
	if s.N() == 0 {
		return nil, errNoSteps
	}
	seq := newSequence(t)
	tm := &Template{}
	if from == -1 && to == -1 {
		from, to = tm.chooseSteady(seq, s)
	}
	if from < 0 || to <= from || to > s.N() {
		return nil, fmt.Errorf("compiler: template: iterations %d:%d of a profile that has %d", from, to, s.N())
	}
	tm.FirstStep, tm.LastStep = from, to
	for i := from; i < to; i++ {
		tm.Windows = append(tm.Windows, [2]ir.Tick{s.Cuts[i], s.Cuts[i+1]})
	}
	m := newMerger(seq, tm.Windows)
	for w := range tm.Windows {
		m.add(w)
	}
	m.finish(tm)
	if len(tm.Entries) == 0 {
		return nil, &StepsError{fmt.Sprintf("iterations %d:%d make no requests", from, to), "choose others with --steps, or let rules ignore less"}
	}
	tm.setLives(seq, m)
	tm.setKinds(seq)
	return tm, nil
}

// alikeSteady is the similarity of neighbours below which a user should know that the
// iterations differ.
const alikeSteady = perfect * 90 / 100

// chooseSteady returns the iterations to plan from: all but the cold one and those that warm
// up. Warming up shows in a suffix, of more than half of the iterations, that none of the
// earlier ones resembles as its members resemble each other. Where an earlier one does, or
// the suffix is shorter, it is the program that varies, and all of it is wanted.
func (tm *Template) chooseSteady(seq *sequence, s *Steps) (from, to int) {
	n := s.N()
	if n > 1 && s.Cold || n > 2 && s.Source == SourceInferred {
		from = 1
	}
	if n-from == 1 {
		tm.notef("one steady iteration: everything in it looks static; record two or more")
		return from, n
	}
	shapes := make([]*shape, n)
	for i := range shapes {
		shapes[i] = seq.shape(seq.at(s.Cuts[i]), seq.at(s.Cuts[i+1]))
	}
	worst, warm := perfect, n-1
	for ; warm > from; warm-- {
		sim := similarity(shapes[warm-1], shapes[warm])
		if warm < n-1 && sim < worst-slackSimilar {
			break
		}
		worst = min(worst, sim)
	}
	warming := (n-warm)*2 > n-from
	for i := from; i < warm; i++ {
		warming = warming && similarity(shapes[i], shapes[warm]) < worst-slackSimilar
	}
	switch {
	case warm > from && warming:
		if warm == from+1 {
			tm.notef("iteration %d is still warming up: not used", from)
		} else {
			tm.notef("iterations %d to %d are still warming up: not used", from, warm-1)
		}
		from = warm
	default:
		if least := slices.Min(apart(shapes[from:], 1)); least < alikeSteady {
			tm.notef("iterations are unlike each other (down to %d %% alike): what only some of them ask for is optional", least/(perfect/100))
		}
	}
	return from, n
}

func (tm *Template) notef(format string, args ...any) {
	tm.Notes = append(tm.Notes, fmt.Sprintf(format, args...))
}
