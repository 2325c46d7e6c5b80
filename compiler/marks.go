package compiler

import (
	"slices"
	"strconv"
	"strings"

	"stweaver/ir"
)

// iterationMarks takes MarkIteration at its word. A mark -1 ends an iteration without
// beginning another; where there are several runs, the one with most iterations counts.
func iterationMarks(s *sequence) *Steps {
	var best, run bounds
	runs := 0
	flush := func() {
		if len(run.cuts) > 1 {
			runs++
			if len(run.cuts) >= len(best.cuts) {
				best = run
			}
		}
		run = bounds{}
	}
	for _, m := range s.t.Marks {
		if m.Kind != ir.MarkIteration {
			continue
		}
		switch {
		case m.Value >= 0:
			if len(run.cuts) == 0 {
				run.openFirst = s.at(m.Tick) == 0
			}
			run.cuts = append(run.cuts, m.Tick)
			run.numbers = append(run.numbers, m.Value)
		case len(run.cuts) > 0:
			run.cuts = append(run.cuts, m.Tick)
			flush()
		}
	}
	if len(run.cuts) > 0 {
		run.cuts = append(run.cuts, s.lastTick())
		run.openEnd = true
		flush()
	}
	if len(best.cuts) < 2 {
		return nil
	}
	best.openFirst = best.openFirst && s.sawPart()
	source := SourceMarks
	if s.t.Format == "chrome-trace" { // that is what its marks are made from
		source = SourceProfiler
	}
	numbers := best.numbers
	st := best.settle(s, source)
	if st != nil {
		if runs > 1 {
			st.notef("%d runs of iterations were recorded: planned from the one with most, the last of these; record anew into an empty file if it was appended to", runs)
		}
		for i := 1; i < len(numbers); i++ {
			if numbers[i] != numbers[i-1]+1 {
				st.notef("iteration numbers are not consecutive: %d is followed by %d", numbers[i-1], numbers[i])
				break
			}
		}
	}
	return st
}

// labelWords are the words that count iterations, the surest first.
var labelWords = [...]string{"profilerstep", "iteration", "iter", "step"}

// parseLabel splits "Iter #7" into its word (index in labelWords) and number.
func parseLabel(name string) (word int, number int64, ok bool) {
	low := strings.ToLower(name)
	for w, word := range labelWords {
		rest, found := strings.CutPrefix(low, word)
		if !found {
			continue
		}
		rest = strings.TrimLeft(rest, " _#:=-")
		if rest == "" || strings.Trim(rest, "0123456789") != "" {
			continue
		}
		n, err := strconv.ParseInt(rest, 10, 64)
		return w, n, err == nil
	}
	return 0, 0, false
}

// countingLabels cuts at the labels and spans whose names count iterations upwards.
func countingLabels(s *sequence) *Steps {
	type stretch struct {
		number       int64
		enter, leave ir.Tick // leave -1: not seen
	}
	parsed := make([]struct {
		word   int
		number int64
		ok     bool
	}, len(s.t.Names))
	for i, name := range s.t.Names {
		p := &parsed[i]
		p.word, p.number, p.ok = parseLabel(name)
	}
	var found [len(labelWords)][]stretch
	var bad [len(labelWords)]bool
	for _, m := range s.t.Marks {
		if m.Kind != ir.MarkEnter && m.Kind != ir.MarkLeave {
			continue
		}
		p := parsed[m.Name]
		if !p.ok {
			continue
		}
		f := &found[p.word]
		last := len(*f) - 1
		switch {
		case m.Kind == ir.MarkEnter && (last < 0 || (*f)[last].number < p.number):
			*f = append(*f, stretch{p.number, m.Tick, -1})
		case m.Kind == ir.MarkEnter && (*f)[last].number > p.number:
			bad[p.word] = true // these count something inside the iteration
		case m.Kind == ir.MarkLeave && last >= 0 && (*f)[last].number == p.number:
			(*f)[last].leave = m.Tick
		}
	}
	for w, f := range found {
		if bad[w] || len(f) == 0 {
			continue
		}
		b := bounds{openFirst: s.at(f[0].enter) == 0 && s.sawPart()}
		// Where requests are made between the spans they belong to some iteration: then
		// the leave of one is the border, which leaves the last one as whole as the others.
		between := true
		outside := 0
		for i, x := range f {
			between = between && x.leave >= 0
			if i > 0 && between {
				outside += s.at(x.enter) - s.at(f[i-1].leave)
			}
		}
		for i, x := range f {
			b.numbers = append(b.numbers, x.number)
			if between && outside > 0 && i > 0 {
				b.cuts = append(b.cuts, f[i-1].leave)
			} else {
				b.cuts = append(b.cuts, x.enter)
			}
		}
		if last := f[len(f)-1].leave; last >= 0 {
			b.cuts = append(b.cuts, last)
		} else {
			b.cuts, b.openEnd = append(b.cuts, s.lastTick()), true
		}
		source := "labels: " + labelWords[w] + " N"
		if labelWords[w] == "profilerstep" {
			source = SourceProfiler
		}
		if st := b.settle(s, source); st != nil {
			return st
		}
	}
	return nil
}

// optimizerEnds are the ends of the outermost spans of Optimizer.step. A span that an exception left is never
// closed: it is no span, or all later ones would seem to lie within it.
func optimizerEnds(s *sequence) []ir.Tick {
	var ends []ir.Tick
	var open []int // how many ends there were when it was entered
	for _, m := range s.t.Marks {
		if m.Kind != ir.MarkEnter && m.Kind != ir.MarkLeave || !strings.HasPrefix(s.t.Name(m.Name), "Optimizer.step") {
			continue
		}
		if m.Kind == ir.MarkEnter {
			open = append(open, len(ends))
			continue
		}
		if n := len(open); n > 0 { // those within it are not outermost
			ends, open = ends[:open[n-1]], open[:n-1]
		}
		if n := len(ends); n == 0 || s.at(ends[n-1]) < s.at(m.Tick) {
			ends = append(ends, m.Tick)
		}
	}
	return ends
}

// optimizerSpans cuts where Optimizer.step is left. An iteration may make several: every
// p-th is taken, with the smallest p for which neighbouring windows are alike.
func optimizerSpans(s *sequence) *Steps {
	ends := optimizerEnds(s)
	if len(ends) < 2 {
		return nil
	}
	clocks := make([]int, len(ends))
	for i, e := range ends {
		clocks[i] = s.at(e)
	}
	p, alike := strideOf(s, clocks)
	from := strideStart(clocks, p)
	b := bounds{openFirst: clocks[from] == 0 && s.sawPart()}
	for i := from; i < len(ends); i += p {
		b.cuts = append(b.cuts, ends[i])
	}
	// What precedes the first cut is initialisation and the first iteration together.
	b.numbers = make([]int64, len(b.cuts)-1)
	for i := range b.numbers {
		b.numbers[i] = int64(i)
		if !s.sawPart() {
			b.numbers[i]++
		}
	}
	st := b.settle(s, SourceOptim)
	if st == nil {
		return nil
	}
	if st.Cold = false; !s.sawPart() {
		st.notef("iteration 0 ends with the first Optimizer.step; where it begins is not marked, so it is not used")
	}
	if p > 1 {
		st.notef("an iteration makes %d optimizer steps", p)
	}
	if !alike {
		st.notef("the iterations between the optimizer's steps are unlike each other")
	}
	return st
}

// maxStride is the largest number of optimizer steps in an iteration that is tried.
const maxStride = 64

// strideOf finds how many optimizer steps make an iteration; alike tells whether any
// number gave windows that resemble each other.
func strideOf(s *sequence, clocks []int) (stride int, alike bool) {
	var worst []int // for each p, from 1
	for p := 1; p <= maxStride && 2*p < len(clocks); p++ {
		var cuts []int
		for i := (len(clocks) - 1) % p; i < len(clocks); i += p {
			cuts = append(cuts, clocks[i])
		}
		sim := s.similarities(cuts)
		if len(sim) > 2 {
			sim = sim[1:]
		}
		worst = append(worst, slices.Min(sim))
	}
	if len(worst) == 0 {
		return 1, true // a single window: nothing to compare it with
	}
	best := slices.Max(worst)
	for i, w := range worst {
		if w >= goodWindows && w*1000 >= best*nearBest {
			return i + 1, true
		}
	}
	return 1, false
}

// strideStart chooses which of each p optimizer steps ends the iteration: the one that is
// followed by the most requests before the next, the forward and backward pass. Most whole
// windows come first.
func strideStart(clocks []int, p int) int {
	best, windows, room := 0, 0, 0
	for from := 0; from < p && from < len(clocks); from++ {
		n, r := (len(clocks)-1-from)/p, 0
		for i := from; i+1 < len(clocks); i += p {
			r = max(r, clocks[i+1]-clocks[i])
		}
		if n > windows || n == windows && r > room {
			best, windows, room = from, n, r
		}
	}
	return best
}

// lastTick is the end of the recording.
func (s *sequence) lastTick() ir.Tick { return ir.Tick(s.t.Events) }
