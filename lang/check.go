package lang

import (
	"fmt"
	"math"
	"slices"

	"github.com/alecthomas/participle/v2/lexer"

	"stweaver/ir"
)

// Checking: from the tree of a statement to ir.Rules. Everything wrong is reported; nothing stops a check.

// checker is what the statements so far have said.
type checker struct {
	rules    ir.Rules
	names    map[string]*named
	unknown  []*word // names used before any selection of that name was there
	set      map[string]settingAt
	isEarly  []bool           // by selection: it can be told before the iterations are known
	places   []lexer.Position // of each statement of rules
	gross    int64            // the device's capacity
	capacity ir.StatementID   // that sets it
	headroom map[string]int64 // by what it is for
}

// settingAt is where something that can be set once was set.
type settingAt struct {
	at        lexer.Position
	depth     int
	statement ir.StatementID
}

// check takes one statement in; text is its canonical form.
func (l *loader) check(f *file, n *statement, text string) {
	switch {
	case n.Device != nil:
		l.settings(f, "device", n.Device.Settings, deviceSettings)
	case n.Solver != nil:
		l.settings(f, "solver", n.Solver.Settings, solverSettings)
	case n.Select != nil:
		l.selection(f, n, text)
	case n.Reserve != nil:
		l.reserve(f, n, text)
	case n.Step != nil:
		l.step(f, n, text)
	default:
		l.rule(n, text)
	}
}

// state appends a statement.
func (l *loader) state(pos lexer.Position, text string) ir.StatementID {
	l.rules.Statements = append(l.rules.Statements, ir.Statement{At: placeOf(pos), Text: text})
	l.places = append(l.places, pos)
	return ir.StatementID(len(l.rules.Statements))
}

// once makes key be set by a statement at w. The file that includes has the last word over what it
// includes; within one file, or between files that do not include each other, twice is a mistake.
func (l *loader) once(f *file, key string, at lexer.Position, width int, text string) (ir.StatementID, bool) {
	old, found := l.set[key]
	if found {
		switch {
		case f.depth > old.depth:
			return 0, false
		case f.depth == old.depth:
			l.errorf(at, width, codeSetTwice, "leave out one of the two", "%s is set already, at %v", key, placeOf(old.at))
			return 0, false
		}
		l.rules.Statements[old.statement-1].Text = "" // dropped when the load is closed
		l.rules.List = slices.DeleteFunc(l.rules.List, func(r ir.Rule) bool { return r.Statement == old.statement })
	}
	id := l.state(at, text)
	l.set[key] = settingAt{at, f.depth, id}
	return id, true
}

// settingKind is one word of a device or solver block.
type settingKind struct {
	name    string
	labels  bool // takes "for NAME", and may stand several times
	value   string
	example string
	set     func(l *loader, s *setting, id ir.StatementID)
}

var deviceSettings = []settingKind{
	{"capacity", false, "size", "capacity 80GiB", func(l *loader, s *setting, id ir.StatementID) {
		var ok bool
		l.gross, ok = l.size(s.Value.Number)
		l.capacity = id
		if ok && l.gross == 0 {
			l.numberError(s.Value.Number, codeRange, "leave it out for no limit", "a capacity is above 0")
		}
	}},
	{"headroom", true, "size", "headroom 2GiB for nccl", func(l *loader, s *setting, _ ir.StatementID) {
		v, _ := l.size(s.Value.Number)
		l.headroom[s.label()] = v
	}},
	{"granularity", false, "size", "granularity 2MiB", func(l *loader, s *setting, _ ir.StatementID) {
		v, _ := l.power(s.Value.Number, "the granularity", int64(ir.Align))
		l.rules.Granularity = ir.Bytes(v)
	}},
	{"alignment", false, "size", "alignment 512B", func(l *loader, s *setting, id ir.StatementID) {

		v, _ := l.power(s.Value.Number, "the alignment", int64(ir.Align))
		l.rules.List = append(l.rules.List, ir.Rule{Kind: ir.RuleAlign, Statement: id, Max: ir.Bytes(v)})
	}},
}

var solverSettings = []settingKind{
	{"effort", false, "word", "effort max", func(l *loader, s *setting, id ir.StatementID) {
		efforts := []string{"fast", "default", "max"}
		w := s.Value.Word
		if !slices.Contains(efforts, w.Text) {
			l.wordError(w, codeWord, didYouMean(w.Text, efforts), "%s is no effort", quote(w.Text))
			return
		}
		l.rules.Effort, l.rules.EffortFrom = w.Text, id
	}},
	{"exact", false, "count", "exact 200000", func(l *loader, s *setting, _ ir.StatementID) {
		v, ok := l.count(s.Value.Number, "the limit of exact search, in nodes,", 0, 1_000_000_000)
		l.rules.Exact, l.rules.ExactSet = v, ok
	}},
	{"seed", false, "count", "seed 7", func(l *loader, s *setting, _ ir.StatementID) {
		v, _ := l.count(s.Value.Number, "the seed", 0, math.MaxInt64)
		l.rules.Seed = uint64(v)
	}},
}

// settings takes in a block. Each setting is a statement of its own.
func (l *loader) settings(f *file, block string, list []*setting, kinds []settingKind) {
	var words []string
	for _, k := range kinds {
		words = append(words, k.name)
	}
	for _, s := range list {
		i := slices.Index(words, s.Name.Text)
		if i < 0 {
			l.wordError(s.Name, codeWord, didYouMean(s.Name.Text, words), "%s is no setting of the %s", quote(s.Name.Text), block)
			continue
		}
		k := &kinds[i]
		if (s.Value.Word != nil) != (k.value == "word") {
			pos, got := s.Value.text()
			l.errorf(pos, len(got), codeValue, "e.g. "+k.example, "%s where a %s is wanted", quote(got), k.value)
			continue
		}
		if s.For != nil && !k.labels {
			l.wordError(s.For, codeValue, "e.g. "+k.example, "%s is for nothing in particular", quote(k.name))
			continue
		}
		key := block + " " + k.name
		_, value := s.Value.text()
		text := fmt.Sprintf("%s { %s %s", block, k.name, value)
		if s.For != nil {
			text += " for " + s.For.Text
			key += " for " + s.label()
		}
		if id, ok := l.once(f, key, s.Name.Pos, len(s.Name.Text), text+" }"); ok {
			k.set(l, s, id)
		}
	}
}

// text is a value as it is written, and where.
func (v *settingValue) text() (lexer.Position, string) {
	if v.Word != nil {
		return v.Word.Pos, v.Word.Text
	}
	return v.Number.Pos, v.Number.Text
}

// label is what a setting is for.
func (s *setting) label() string {
	if s.For == nil {
		return ""
	}
	return s.For.Text
}

// selection takes in select NAME where CONDITION.
func (l *loader) selection(f *file, n *statement, text string) {
	w := n.Select.Name
	where, ok := l.condition(n.Select.Where)
	if !l.define(f, w) {
		return
	}
	if !ok {
		l.names[w.Text].index = -1
		return
	}
	l.names[w.Text].index = l.add(ir.Selection{Name: w.Text, Statement: l.state(n.Pos, text), Where: where})
}

// add appends a selection and returns its number.
func (l *loader) add(s ir.Selection) int {
	l.isEarly = append(l.isEarly, l.early(s.Where))
	l.rules.Selections = append(l.rules.Selections, s)
	return len(l.rules.Selections) - 1
}

// define makes a name known; false where it cannot be.
func (l *loader) define(f *file, w *word) bool {
	isProperty := slices.Contains(propertyNames(), w.Text)
	if isProperty || builtins[w.Text].Op != 0 {
		what := "a selection of the language"
		if isProperty {
			what = "a property of requests"
		}
		l.wordError(w, codeReserved, "write another name", "%s is %s", quote(w.Text), what)
		return false
	}
	if old := l.names[w.Text]; old != nil {
		l.wordError(w, codeTwice, "write another name", "%s is defined already, at %v", quote(w.Text), placeOf(old.at))
		return false
	}
	l.names[w.Text] = &named{index: -1, at: w.Pos, width: len(w.Text), inMain: f.depth == 0}
	return true
}

// broken keeps a statement that did not parse from causing more messages: what it would have defined is
// known.
func (l *loader) broken(tokens []lexer.Token) {
	if len(tokens) < 2 || tokens[0].Value != "select" || tokens[1].Type != tokenIdent || l.names[tokens[1].Value] != nil {
		return
	}
	l.names[tokens[1].Value] = &named{index: -1, at: tokens[1].Pos, used: true}
}

// targets are the selections that a rule is about; false where one is not known or wrong.
func (l *loader) targets(list []*target, statement ir.StatementID) (of []int, ok bool) {
	ok = true
	for _, t := range list {
		where, good := ir.Expr{}, true
		switch {
		case t.Where != nil:
			where, good = l.condition(t.Where)
		case builtins[t.Name.Text].Op != 0:
			where = builtins[t.Name.Text]
		default:
			var i int
			if i, good = l.use(t.Name); good {
				of = append(of, i)
			}
		}
		ok = ok && good
		if where.Op != 0 && good {
			of = append(of, l.add(ir.Selection{Statement: statement, Where: where}))
		}
	}
	return of, ok
}

// reserve takes in reserve dynamic ….
func (l *loader) reserve(f *file, n *statement, text string) {
	r, ok := ir.Reserve{Headroom: 1}, true
	seen := make(map[string]bool)
	for _, o := range n.Reserve.Options {
		good := l.option(o, seen, "quantile", "headroom", "cap")
		if good {
			switch o.Name.Text {
			case "quantile":
				r.Quantile, good = l.rate(o.Value, "a quantile", 1)
			case "headroom":
				r.Headroom, good = l.factor(o.Value, "the headroom")
			case "cap":
				var v int64
				v, good = l.size(o.Value)
				r.Cap = ir.Bytes(v)
			}
		}
		ok = ok && good
	}
	if ok && !seen["quantile"] {
		l.errorf(n.Pos, len("reserve"), codeMissing, "write: "+forms["reserve"], "the quantile is missing")
		return
	}
	if id, first := l.once(f, "reserve dynamic", n.Pos, len("reserve"), text); first && ok {
		r.Statement = id
		l.rules.Reserve = r
	}
}

// option checks the word of an option, and that it stands once.
func (l *loader) option(o *option, seen map[string]bool, words ...string) bool {
	if !slices.Contains(words, o.Name.Text) {
		l.wordError(o.Name, codeWord, didYouMean(o.Name.Text, words), "%s means nothing here", quote(o.Name.Text))
		return false
	}
	if seen[o.Name.Text] {
		l.wordError(o.Name, codeSetTwice, "leave out one of the two", "%s stands here twice", quote(o.Name.Text))
		return false
	}
	seen[o.Name.Text] = true
	return true
}

// step takes in where iterations begin.
func (l *loader) step(f *file, n *statement, text string) {
	s, ok := ir.StepRule{}, true
	good := func(v int64, fine bool) int64 { ok = ok && fine; return v }
	for i, at := range n.Step.At {
		s.At = append(s.At, good(l.count(at, "a request", 0, math.MaxInt32)))
		if ok && i > 0 && s.At[i] <= s.At[i-1] {
			l.numberError(at, codeUpsideDown, "put them in rising order", "iterations begin one after the other")
			ok = false
		}
	}
	if len(s.At) == 1 {
		l.numberError(n.Step.At[0], codeMissing, "the last request ends the last iteration: write: "+forms["step"], "an iteration needs a beginning and an end")
		ok = false
	}
	if n.Step.Every != nil {
		s.Every = good(l.count(n.Step.Every, "the length of an iteration", 1, math.MaxInt32))
		if n.Step.From != nil {
			s.From = good(l.count(n.Step.From, "a request", 0, math.MaxInt32))
		}
	}
	if n.Step.Where != nil {
		e, fine := l.condition(n.Step.Where)
		if fine && !l.early(e) {
			l.errorf(n.Step.Pos, len("step"), codeContradiction, "use size, phase, module, frame, stream or request", "kinds, parts, lives and iterations are known only once the iterations are")
			fine = false
		}
		ok = ok && fine
		s.Where = &e
	}
	if id, first := l.once(f, "step", n.Pos, len("step"), text); first && ok {
		s.Statement = id
		l.rules.Step = s
	}
}

// early reports whether e can be told before the iterations are known.
func (l *loader) early(e ir.Expr) bool {
	if e.Op == ir.OpRef {
		return l.isEarly[e.Sel]
	}
	if e.Op == ir.OpTest && slices.Contains([]ir.Field{ir.FieldKind, ir.FieldPart, ir.FieldIteration, ir.FieldLife, ir.FieldPhases}, e.Field) {
		return false
	}
	return !slices.ContainsFunc(e.Args, func(x ir.Expr) bool { return !l.early(x) })
}
