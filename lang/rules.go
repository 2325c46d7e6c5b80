package lang

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"stweaver/ir"
)

// Rules about selections, streams and results; and what can only be told when all statements are there.

// rule takes in a statement that is one rule.
func (l *loader) rule(n *statement, text string) {
	// The statement is there before the rule, for selections inside it belong to it.
	id := l.state(n.Pos, text)
	r := ir.Rule{Statement: id, To: ir.NoOffset}
	ok := true
	switch {
	case n.Pin != nil:
		r.Kind = ir.RulePin
		r.Of, ok = l.targets([]*target{n.Pin.Of}, id)
		ok = l.pin(n.Pin, &r) && ok
	case n.Arena != nil:
		r.Kind = ir.RuleArena
		r.Of, ok = l.targets([]*target{n.Arena.Of}, id)
		ok = l.arena(n.Arena, &r) && ok
	case n.Together != nil:
		r.Kind = ir.RuleTogether
		r.Of, ok = l.targets([]*target{n.Together.Of}, id)
	case n.Apart != nil:
		r.Kind = ir.RuleApart
		r.Of, ok = l.targets(n.Apart.Of, id)
	case n.Keep != nil:
		r.Kind = ir.RuleKeep
		r.Of, ok = l.targets(n.Keep.Of, id)
	case n.Share != nil:
		r.Kind = ir.RuleShare
		r.Streams, ok = l.streams(n.Share.Streams)
		r.Age = -1
		if n.Share.Age != nil {
			v, good := l.count(n.Share.Age, "the age", 0, int64(ir.MaxAge))
			r.Age, ok = ir.Tick(v), ok && good
		}
	case n.Separate != nil:
		r.Kind = ir.RuleSeparate
		r.Streams, ok = l.streams(n.Separate.Streams)
	case n.Treat != nil:
		r.Kind = ir.RuleTreat
		r.Of, ok = l.targets(n.Treat.Of, id)
		ok = l.treatment(n.Treat.As, &r) && ok
	case n.Guard != nil:
		r.Kind = ir.RuleGuard
		of := n.Guard.Of
		if len(of) == 0 {
			of = []*target{{Name: &word{Text: "all"}}}
		}
		r.Of, ok = l.targets(of, id)
		ok = l.guard(n.Guard, &r) && ok
	case n.Expect != nil:
		r.Kind = ir.RuleExpect
		ok = l.expect(n.Expect, &r)
	default:
		panic(fmt.Sprintf("BUG: lang: statement %q is none that is known", text))
	}
	if ok {
		l.rules.List = append(l.rules.List, r)
	}
}

func (l *loader) address(n *number) (ir.Offset, bool) {
	v, ok := l.size(n)
	if ok && v%int64(ir.Align) != 0 {
		l.numberError(n, codeUnaligned, fmt.Sprintf("write %dB", int64(ir.RoundUp(ir.Bytes(v)))), "addresses of a plan are multiples of %d", ir.Align)
		return 0, false
	}
	return ir.Offset(v), ok
}

func (l *loader) pin(n *pinStmt, r *ir.Rule) bool {
	if n.At != nil {
		var ok bool
		r.From, ok = l.address(n.At)
		return ok
	}
	from, ok := l.address(n.From)
	to, good := l.address(n.To)
	r.From, r.To = from, to
	if ok && good && to <= from {
		l.numberError(n.To, codeUpsideDown, "write "+n.To.Text+".."+n.From.Text, "the window ends before it begins")
		return false
	}
	return ok && good
}

func (l *loader) arena(n *arenaStmt, r *ir.Rule) bool {
	seen, ok := make(map[string]bool), true
	for _, o := range n.Limits {
		good := l.option(o, seen, "max", "piece")
		if good {
			var v ir.Offset
			v, good = l.address(o.Value)
			if good && v == 0 {
				l.numberError(o.Value, codeRange, "leave it out for no limit", "a limit of nothing holds nothing")
				good = false
			}
			if o.Name.Text == "max" {
				r.Max = ir.Bytes(v)
			} else {
				r.Piece = ir.Bytes(v)
			}
		}
		ok = ok && good
	}
	return ok
}

func (l *loader) streams(list []*number) ([]ir.StreamID, bool) {
	var out []ir.StreamID
	for _, n := range list {
		v, ok := l.count(n, "a stream", 0, ir.MaxStreams-1)
		if !ok {
			return nil, false
		}
		if slices.Contains(out, ir.StreamID(v)) {
			l.numberError(n, codeSetTwice, "leave out one of the two", "stream %d stands here twice", v)
			return nil, false
		}
		out = append(out, ir.StreamID(v))
	}
	return out, true
}

var treatments = []struct {
	name string
	as   ir.Treatment
}{{"dynamic", ir.AsDynamic}, {"static", ir.AsStatic}, {"persistent", ir.AsPersistent}, {"ignore", ir.AsIgnored}}

func (l *loader) treatment(w *word, r *ir.Rule) bool {
	var words []string
	for _, t := range treatments {
		if words = append(words, t.name); t.name == w.Text {
			r.As = t.as
			return true
		}
	}
	l.wordError(w, codeWord, didYouMean(w.Text, words), "%s is no treatment", quote(w.Text))
	return false
}

func (l *loader) guard(n *guardStmt, r *ir.Rule) bool {
	if n.Unit.Text != "ticks" && n.Unit.Text != "tick" {
		l.wordError(n.Unit, codeUnit, "write "+n.Ticks.Text+" ticks, which are requests", "%s is no unit of a guard", quote(n.Unit.Text))
		return false
	}
	v, ok := l.count(n.Ticks, "a guard", 1, 1_000_000)
	r.Ticks = ir.Tick(v)
	return ok
}

var measures = []struct {
	name    string
	measure ir.Measure
	atLeast bool
	most    float64 // of a rate; 0: a size
	example string
}{
	{"peak", ir.MeasurePeak, false, 0, "expect peak <= 70GiB"},
	{"gap", ir.MeasureGap, false, 100, "expect gap <= 1%"},
	{"dynamic", ir.MeasureDynamic, false, 1, "expect dynamic <= 5%"},
	{"hits", ir.MeasureHits, true, 1, "expect hits >= 99%"},
}

func (l *loader) expect(n *expectStmt, r *ir.Rule) bool {
	var words []string
	for _, m := range measures {
		words = append(words, m.name)
		if m.name != n.Measure.Text {
			continue
		}
		op := "<="
		if m.atLeast {
			op = ">="
		}
		if n.Op != op {
			l.wordError(n.Measure, codeOperator, "e.g. "+m.example, "%s is expected by %s, not by %s", quote(m.name), op, n.Op)
			return false
		}
		r.Measure, r.AtLeast = m.measure, m.atLeast
		if m.most > 0 {
			v, ok := l.rate(n.Limit, quote(m.name), m.most)
			r.Limit = v
			return ok
		}
		v, ok := l.size(n.Limit)
		r.Limit = float64(v)
		return ok
	}
	l.wordError(n.Measure, codeWord, didYouMean(n.Measure.Text, words), "%s is nothing that can be expected", quote(n.Measure.Text))
	return false
}

// closing checks what needs all statements.
func (l *loader) closing() {
	l.unknownNames()
	for _, name := range slices.Sorted(maps.Keys(l.names)) {
		if n := l.names[name]; !n.used && n.inMain && n.index >= 0 {
			l.warnf(n.at, n.width, codeUnused, "leave it out, or write a rule about it", "%s is used by no rule", quote(name))
		}
	}
	l.device()
	l.contradictions()
	l.compact()
}

func (l *loader) unknownNames() {
	known := slices.Sorted(maps.Keys(l.names))
	for i, w := range l.unknown {
		if len(l.out.List) == maxDiagnostics { // nobody will see what it may have meant
			l.out.More += len(l.unknown) - i
			break
		}
		if n := l.names[w.Text]; n != nil {
			n.used = true
			l.wordError(w, codeNotYet, "move its select up", "%s is defined further down, at %v", quote(w.Text), placeOf(n.at))
			continue
		}
		words := append(slices.Clone(known), builtinNames...)
		help := didYouMean(w.Text, words)
		if slices.Contains(propertyNames(), w.Text) {
			help = "it is a property: write a condition in brackets"
		} else if nearest(w.Text, words) == "" {
			help = fmt.Sprintf("write: select %s where CONDITION, above", w.Text)
		}
		l.wordError(w, codeUnknownName, help, "no selection is named %s", quote(w.Text))
	}
}

// device closes capacity and headroom.
func (l *loader) device() {
	var sum int64
	for _, v := range l.headroom {
		sum += min(v, math.MaxInt64/2-sum)
	}
	l.rules.Headroom, l.rules.Capacity = ir.Bytes(sum), ir.Bytes(max(l.gross-sum, 0))
	if l.rules.Capacity > 0 {
		l.rules.List = append(l.rules.List, ir.Rule{Kind: ir.RuleCapacity, Statement: l.capacity, Max: l.rules.Capacity})
	}
	switch {
	case l.gross > 0 && sum >= l.gross:
		at := l.set["device capacity"]
		l.errorf(at.at, len("capacity"), codeHeadroom, "", "headroom of %s in all leaves nothing of the capacity of %s", binary(float64(sum)), binary(float64(l.gross)))
	case l.gross == 0 && sum > 0:
		for _, key := range slices.Sorted(maps.Keys(l.set)) {
			if strings.HasPrefix(key, "device headroom") {
				l.warnf(l.set[key].at, len("headroom"), codeMissing, "write device { capacity 80GiB } too, or give --capacity", "a headroom is taken off the capacity, which is not set")
			}
		}
	}
}

// contradictions reports rules that exclude each other whatever the profile.
func (l *loader) contradictions() {
	type treated struct {
		as ir.Treatment
		by int
	}
	treats := make(map[int]treated) // by selection
	pins := make(map[int]int)
	streams := make(map[ir.StreamID]int) // 1 + the rule that shares or separates
	clash := func(a, b int, format string, args ...any) {
		first, second := l.rules.List[a], l.rules.List[b]
		pos := l.places[second.Statement-1]
		text := l.rules.StatementOf(second.Statement).Text
		l.errorf(pos, min(utf8.RuneCountInString(text), maxExcerpt), codeContradiction, "leave out one of the two", "%s; %v says: %s", fmt.Sprintf(format, args...),
			l.rules.StatementOf(first.Statement).At, l.rules.StatementOf(first.Statement).Text)
	}
	for i, r := range l.rules.List {
		switch r.Kind {
		case ir.RuleTreat:
			for _, s := range r.Of {
				if old, ok := treats[s]; ok && old.as != r.As {
					clash(old.by, i, "%s is treated in two ways", l.nameOf(s))
				}
				treats[s] = treated{r.As, i}
			}
		case ir.RulePin:
			for _, s := range r.Of {
				if old, ok := pins[s]; ok && disjoint(&l.rules.List[old], &r) {
					clash(old, i, "%s is pinned to two places", l.nameOf(s))
				}
				pins[s] = i
			}
			if c := l.rules.Capacity; c > 0 && r.From >= ir.Offset(c) {
				pos := l.places[r.Statement-1]
				l.errorf(pos, len("pin"), codeContradiction, "pin it lower", "the place lies outside the capacity, of which %s are left for the plan", binary(float64(c)))
			}
		case ir.RuleShare, ir.RuleSeparate:
			list := r.Streams
			if len(list) == 0 {
				list = []ir.StreamID{math.MaxUint32} // all
			}
			for _, s := range list {
				if by := streams[s]; by > 0 && (l.rules.List[by-1].Kind != r.Kind || l.rules.List[by-1].Age != r.Age) {
					clash(by-1, i, "the same streams are shared and separated, or shared by two ages")
				}
				streams[s] = i + 1
			}
		}
	}
	for i, r := range l.rules.List {
		if !slices.Contains([]ir.RuleKind{ir.RulePin, ir.RuleArena, ir.RuleTogether, ir.RuleApart, ir.RuleKeep, ir.RuleGuard}, r.Kind) {
			continue
		}
		for _, s := range r.Of {
			if t, ok := treats[s]; ok && (t.as == ir.AsDynamic || t.as == ir.AsIgnored) {
				clash(min(t.by, i), max(t.by, i), "%s has no planned address that a rule could be about", l.nameOf(s))
			}
		}
	}
}

func (l *loader) nameOf(selection int) string {
	if name := l.rules.Selections[selection].Name; name != "" {
		return quote(name)
	}
	return "the selection"
}

// disjoint reports whether nothing can satisfy both pins.
func disjoint(a, b *ir.Rule) bool {
	end := func(r *ir.Rule) ir.Offset {
		if r.To == ir.NoOffset {
			return r.From + 1
		}
		return r.To
	}
	return a.From >= end(b) || b.From >= end(a) || a.To == ir.NoOffset && b.To == ir.NoOffset && a.From != b.From
}

// compact drops statements that others took the place of.
func (l *loader) compact() {
	number := make([]ir.StatementID, len(l.rules.Statements)+1)
	var kept []ir.Statement
	for i, s := range l.rules.Statements {
		if s.Text != "" {
			kept = append(kept, s)
			number[i+1] = ir.StatementID(len(kept))
		}
	}
	r := &l.rules
	r.Statements = kept
	r.Reserve.Statement, r.Step.Statement, r.EffortFrom = number[r.Reserve.Statement], number[r.Step.Statement], number[r.EffortFrom]
	for i := range r.List {
		r.List[i].Statement = number[r.List[i].Statement]
	}
	for i := range r.Selections {
		r.Selections[i].Statement = number[r.Selections[i].Statement]
	}
}
