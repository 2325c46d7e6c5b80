package lang

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"

	"stweaver/ir"
)

// Conditions: from syntax to ir.Expr.

// properties are what a condition can ask of a request.
var properties = []struct {
	name  string
	field ir.Field
	test  func(l *loader, t *test, field ir.Field) (ir.Expr, bool)
}{
	{"size", ir.FieldSize, (*loader).sizeTest},
	{"life", ir.FieldLife, (*loader).lifeTest},
	{"kind", ir.FieldKind, (*loader).kindTest},
	{"phase", ir.FieldPhase, (*loader).nameTest},
	{"iteration", ir.FieldIteration, (*loader).countTest},
	{"module", ir.FieldModule, (*loader).nameTest},
	{"frame", ir.FieldFrame, (*loader).nameTest},
	{"stream", ir.FieldStream, (*loader).countTest},
	{"request", ir.FieldRequest, (*loader).countTest},
}

// builtins are selections that need no definition.
var builtins = map[string]ir.Expr{
	"all":      {Op: ir.OpTrue},
	"prologue": {Op: ir.OpTest, Field: ir.FieldPart, Lo: 0, Hi: 0},
	"loop":     {Op: ir.OpTest, Field: ir.FieldPart, Lo: 1, Hi: 1},
}

var builtinNames = []string{"all", "prologue", "loop"}

func propertyNames() []string {
	var names []string
	for _, p := range properties {
		names = append(names, p.name)
	}
	return names
}

// condition checks all of c, and reports false where any of it is wrong.
func (l *loader) condition(c *condition) (ir.Expr, bool) {
	or, good := ir.Expr{Op: ir.OpOr}, true
	for _, and := range c.Terms {
		e, ok := l.conjunction(and)
		or.Args, good = append(or.Args, e), good && ok
	}
	return single(or), good
}

func (l *loader) conjunction(c *conjunction) (ir.Expr, bool) {
	and, good := ir.Expr{Op: ir.OpAnd}, true
	for _, t := range c.Terms {
		e, ok := l.term(t)
		and.Args, good = append(and.Args, e), good && ok
	}
	return single(and), good
}

// single is e, or its only argument.
func single(e ir.Expr) ir.Expr {
	if len(e.Args) == 1 {
		return e.Args[0]
	}
	return e
}

func negate(e ir.Expr) ir.Expr { return ir.Expr{Op: ir.OpNot, Args: []ir.Expr{e}} }

func (l *loader) term(t *term) (e ir.Expr, ok bool) {
	if t.Group != nil {
		e, ok = l.condition(t.Group)
	} else {
		e, ok = l.test(t.Test)
	}
	if len(t.Nots)%2 == 1 {
		e = negate(e)
	}
	return e, ok
}

func (l *loader) test(t *test) (ir.Expr, bool) {
	name := t.Name.Text
	for _, p := range properties {
		if p.name != name {
			continue
		}
		if t.Op == nil {
			l.wordError(t.Name, codeMissing, "write "+name+" followed by a comparison, e.g. "+examples[p.field], "%s is a property, and compared with nothing", quote(name))
			return ir.Expr{}, false
		}
		return p.test(l, t, p.field)
	}
	if t.Op != nil {
		help := didYouMean(name, propertyNames())
		if l.names[name] != nil || builtins[name].Op != 0 {
			help = "a selection stands alone: write " + name
		}
		l.wordError(t.Name, codeField, help, "%s is no property of a request", quote(name))
		return ir.Expr{}, false
	}
	if e, ok := builtins[name]; ok {
		return e, true
	}
	i, ok := l.use(t.Name)
	return ir.Expr{Op: ir.OpRef, Sel: i}, ok
}

// examples show how a property is used.
var examples = map[ir.Field]string{
	ir.FieldSize: "size >= 64MiB", ir.FieldLife: "life >= 2 phases", ir.FieldKind: "kind in carried, persistent", ir.FieldPhase: `phase = "F"`,
	ir.FieldIteration: "iteration in 1..3", ir.FieldModule: `module ~ "layers.*.mlp*"`, ir.FieldFrame: `frame ~ "*/attention.py:*"`,
	ir.FieldStream: "stream = 1", ir.FieldRequest: "request in 100..200",
}

// operator reports an operator that is not among those allowed, and ranges where none can be.
func (l *loader) operator(t *test, field ir.Field, allowed ...string) bool {
	op := t.Op.Op
	if !slices.Contains(allowed, op) {
		l.errorf(t.Op.Pos, len(op), codeOperator, "e.g. "+examples[field], "%s is not compared by %s", quote(t.Name.Text), op)
		return false
	}
	for i, v := range t.Values {
		if v.High != nil && op != "in" {
			l.errorf(v.Pos, l.valueWidth(v), codeOperator, "write "+t.Name.Text+" in "+l.valueText(v), "a range is compared by in, not by %s", op)
			return false
		}
		if i > 0 && op != "in" && op != "~" && op != "!~" {
			l.errorf(v.Pos, l.valueWidth(v), codeOperator, "write "+t.Name.Text+" in "+l.valueText(t.Values[0])+", "+l.valueText(v), "several values are compared by in, not by %s", op)
			return false
		}
	}
	return true
}

func (l *loader) valueText(v *value) string {
	switch {
	case v.Word != nil:
		return v.Word.Text
	case v.Text != nil:
		return v.Text.Text
	}
	s := v.Low.Text
	if v.High != nil {
		s += ".." + v.High.Text
	}
	if v.Unit != nil {
		s += " " + v.Unit.Text
	}
	return s
}

func (l *loader) valueWidth(v *value) int { return utf8.RuneCountInString(l.valueText(v)) }

func (l *loader) wrongValue(v *value, field ir.Field, want string) {
	l.errorf(v.Pos, l.valueWidth(v), codeValue, "e.g. "+examples[field], "%s where %s is wanted", quote(l.valueText(v)), want)
}

// ranges makes a numeric test of all values; each is read by number.
func (l *loader) ranges(t *test, field ir.Field, want string, number func(v *value, n *number) (int64, bool)) (ir.Expr, bool) {
	or := ir.Expr{Op: ir.OpOr}
	for _, v := range t.Values {
		if v.Low == nil {
			l.wrongValue(v, field, want)
			return or, false
		}
		lo, ok := number(v, v.Low)
		hi := lo
		if ok && v.High != nil {
			if hi, ok = number(v, v.High); ok && hi < lo {
				l.errorf(v.Pos, l.valueWidth(v), codeUpsideDown, "write "+v.High.Text+".."+v.Low.Text, "the range ends before it begins")
				return or, false
			}
		}
		if !ok {
			return or, false
		}
		e := ir.Expr{Op: ir.OpTest, Field: field, Lo: lo, Hi: hi}
		switch t.Op.Op {
		case "<":
			e.Lo, e.Hi = math.MinInt64, lo-1
		case "<=":
			e.Lo = math.MinInt64
		case ">":
			e.Lo, e.Hi = lo+1, math.MaxInt64
		case ">=":
			e.Hi = math.MaxInt64
		case "!=":
			e = negate(e)
		}
		or.Args = append(or.Args, e)
	}
	return single(or), true
}

var numberOps = []string{"=", "!=", "<", "<=", ">", ">=", "in"}

func (l *loader) sizeTest(t *test, field ir.Field) (ir.Expr, bool) {
	if !l.operator(t, field, numberOps...) {
		return ir.Expr{}, false
	}
	return l.ranges(t, field, "a size", func(v *value, n *number) (int64, bool) {
		if v.Unit != nil {
			l.wordError(v.Unit, codeUnit, "write "+n.Text, "a size takes no further unit")
			return 0, false
		}
		bytes, ok := l.size(n)
		if ok && v.High == nil && (t.Op.Op == "=" || t.Op.Op == "!=" || t.Op.Op == "in") && bytes%int64(ir.Align) != 0 {
			l.numberError(n, codeUnaligned, "write "+binary(float64(ir.RoundUp(ir.Bytes(bytes)))), "sizes are compared as the planner rounds them, to multiples of %d: none is %s", ir.Align, quote(n.Text))
			return 0, false
		}
		return bytes, ok
	})
}

func (l *loader) lifeTest(t *test, field ir.Field) (ir.Expr, bool) {
	if !l.operator(t, field, numberOps...) {
		return ir.Expr{}, false
	}
	for i, v := range t.Values {
		if v.Low == nil {
			continue
		}
		unit := v.Unit
		if unit == nil {
			l.errorf(v.Pos, l.valueWidth(v), codeUnit, "write "+l.valueText(v)+" ticks, which are requests, or phases", "a life needs a unit")
			return ir.Expr{}, false
		}
		own, ok := lifeUnits[unit.Text]
		if !ok {
			l.wordError(unit, codeUnit, didYouMean(unit.Text, []string{"ticks", "phases"}), "%s is no unit of a life", quote(unit.Text))
			return ir.Expr{}, false
		}
		if i > 0 && own != field {
			l.wordError(unit, codeUnit, "write life in … or life in …", "one list has one unit")
			return ir.Expr{}, false
		}
		field = own
	}
	return l.ranges(t, field, "a life", func(_ *value, n *number) (int64, bool) { return l.count(n, "a life", 0, math.MaxInt32) })
}

var lifeUnits = map[string]ir.Field{"tick": ir.FieldLife, "ticks": ir.FieldLife, "phase": ir.FieldPhases, "phases": ir.FieldPhases}

func (l *loader) countTest(t *test, field ir.Field) (ir.Expr, bool) {
	if !l.operator(t, field, numberOps...) {
		return ir.Expr{}, false
	}
	return l.ranges(t, field, "a number", func(v *value, n *number) (int64, bool) {
		if v.Unit != nil {
			l.wordError(v.Unit, codeUnit, "write "+n.Text, "%s takes no unit", quote(t.Name.Text))
			return 0, false
		}
		return l.count(n, t.Name.Text, 0, math.MaxInt32)
	})
}

func (l *loader) kindTest(t *test, field ir.Field) (ir.Expr, bool) {
	if !l.operator(t, field, "=", "!=", "in") {
		return ir.Expr{}, false
	}
	e := ir.Expr{Op: ir.OpTest, Field: field}
	var names []string
	for _, k := range ir.Kinds {
		names = append(names, k.String())
	}
	for _, v := range t.Values {
		if v.Word == nil {
			l.wrongValue(v, field, "a kind")
			return e, false
		}
		i := slices.Index(names, v.Word.Text)
		if i < 0 {
			l.wordError(v.Word, codeWord, didYouMean(v.Word.Text, names), "%s is no kind", quote(v.Word.Text))
			return e, false
		}
		e.Kinds = append(e.Kinds, ir.Kinds[i])
	}
	if t.Op.Op == "!=" {
		return negate(e), true
	}
	return e, true
}

// nameTest compares names: phase, module, frame. A word stands for itself.
func (l *loader) nameTest(t *test, field ir.Field) (ir.Expr, bool) {
	if !l.operator(t, field, "=", "!=", "in", "~", "!~") {
		return ir.Expr{}, false
	}
	e, op := ir.Expr{Op: ir.OpTest, Field: field}, t.Op.Op
	for _, v := range t.Values {
		var p ir.Pattern
		switch {
		case v.Text != nil:
			var ok bool
			if p, ok = l.pattern(v.Text, op); !ok {
				return e, false
			}
		case v.Word != nil && op != "~" && op != "!~":
			p = ir.Pattern{Text: v.Word.Text, How: ir.Exact}
		default:
			l.wrongValue(v, field, `a text in "…" or an expression in /…/`)
			return e, false
		}
		e.Patterns = append(e.Patterns, p)
	}
	if op == "!=" || op == "!~" {
		return negate(e), true
	}
	return e, true
}

func (l *loader) wordError(w *word, code, help, format string, args ...any) {
	l.errorf(w.Pos, utf8.RuneCountInString(w.Text), code, help, format, args...)
}

// named is a selection that was defined.
type named struct {
	index  int // -1: its definition has mistakes, which were reported
	at     lexer.Position
	width  int
	used   bool
	inMain bool // not in an included file: those may define more than is used
}

// use looks up a selection; false where there is none, or none that is whole.
func (l *loader) use(w *word) (int, bool) {
	n := l.names[w.Text]
	if n == nil {
		l.unknown = append(l.unknown, w)
		return 0, false
	}
	n.used = true
	return n.index, n.index >= 0
}
