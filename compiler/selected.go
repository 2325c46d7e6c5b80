package compiler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stweaver/ir"
)

// What selections took, for people.

// RuleReport says which rules a plan obeys.
type RuleReport struct {
	Digest     string   `json:"digest"`     // SHA-256 of the statements, in hexadecimal
	Statements []string `json:"statements"` // "file:line:column: text", in order
}

// ReportRules is the report of r; nil where it has no statements.
func ReportRules(r *ir.Rules) *RuleReport {
	if len(r.Statements) == 0 {
		return nil
	}
	out := &RuleReport{Digest: fmt.Sprintf("%x", r.Digest())}
	for _, s := range r.Statements {
		out.Statements = append(out.Statements, fmt.Sprintf("%v: %s", s.At, s.Text))
	}
	return out
}

// Taken is what a selection took of a profile.
type Taken struct {
	Name     string   `json:"name"` // "" where it is written inside a rule
	At       string   `json:"at"`   // file:line:column
	Requests int      `json:"requests"`
	Bytes    ir.Bytes `json:"bytes"`         // sum of rounded sizes of the requests
	Buffers  int      `json:"buffers"`       // of the plan
	Planned  ir.Bytes `json:"planned_bytes"` // sum of their sizes
	Groups   []Group  `json:"groups"`        // by bytes, largest first
	// Parts are the conditions that are joined by and, each with what it takes alone, where the whole
	// takes nothing.
	Parts []Part `json:"parts,omitempty"`
}

// Group is requests of one size, kind and stream.
type Group struct {
	Size     ir.Bytes    `json:"size"`
	Kind     string      `json:"kind"`
	Stream   ir.StreamID `json:"stream"`
	Requests int         `json:"requests"`
	First    []int       `json:"first"` // the first requests, by ordinal in the profile
}

// Part is one condition with how many requests it takes.
type Part struct {
	Text     string `json:"text"`
	Requests int    `json:"requests"`
}

// firstRequests is how many requests of a group are named.
const firstRequests = 6

// Taken says what each selection of the rules took.
func (c *Compiled) Taken() []Taken {
	rules := &c.options.Rules
	var out []Taken
	for i := range rules.Selections {
		s := &rules.Selections[i]
		t := Taken{Name: s.Name, At: rules.StatementOf(s.Statement).At.String(), Groups: []Group{}}
		type key struct {
			size   ir.Bytes
			kind   ir.Kind
			stream ir.StreamID
		}
		v := c.evaluator()
		at := make(map[key]int)
		for r := range c.Trace.Requests {
			if !c.selected[i].has(r) {
				continue
			}
			q := &c.Trace.Requests[r]
			t.Requests++
			t.Bytes += q.Rounded()
			k := key{q.Rounded(), v.kind(r), q.Stream}
			g, ok := at[k]
			if !ok {
				g = len(t.Groups)
				at[k] = g
				t.Groups = append(t.Groups, Group{Size: k.size, Kind: k.kind.String(), Stream: k.stream})
			}
			if t.Groups[g].Requests++; len(t.Groups[g].First) < firstRequests {
				t.Groups[g].First = append(t.Groups[g].First, r)
			}
		}
		slices.SortStableFunc(t.Groups, func(a, b Group) int {
			return cmp.Compare(b.Size*ir.Bytes(b.Requests), a.Size*ir.Bytes(a.Requests))
		})
		for _, b := range c.buffersOf(i) {
			t.Buffers++
			t.Planned += c.Problem.Buffers[b].Size
		}
		if t.Requests == 0 {
			t.Parts = c.parts(v, &s.Where)
		}
		out = append(out, t)
	}
	return out
}

func (c *Compiled) evaluator() *evaluator {
	return &evaluator{t: c.Trace, steps: c.Steps, problem: c.Problem, mapping: c.mapping, rules: &c.options.Rules, sets: c.selected}
}

// parts counts what the conditions of e take, one by one.
func (c *Compiled) parts(v *evaluator, e *ir.Expr) []Part {
	list := e.Args
	if e.Op != ir.OpAnd && e.Op != ir.OpOr {
		list = []ir.Expr{*e}
	}
	var out []Part
	for i := range list {
		out = append(out, Part{exprText(&c.options.Rules, &list[i]), v.expr(&list[i]).count()})
	}
	return out
}

// emptySelections notes selections that take nothing, with what their conditions take alone, and properties
// that the profile does not have.
func (c *Compiled) emptySelections() {
	rules := &c.options.Rules
	v := c.evaluator()
	for i := range rules.Selections {
		if c.selected[i].count() > 0 {
			continue
		}
		var parts []string
		for _, p := range c.parts(v, &rules.Selections[i].Where) {
			parts = append(parts, fmt.Sprintf("%s takes %d", p.Text, p.Requests))
		}
		name := rules.Selections[i].Name
		if name == "" {
			name = "the condition"
		}
		c.ruleNote(fmt.Sprintf("%v: R050: %s takes none of %d requests: %s",
			rules.StatementOf(rules.Selections[i].Statement).At, name, len(c.Trace.Requests), strings.Join(parts, "; ")))
	}
	for _, m := range []struct {
		field ir.Field
		has   bool
		what  string
	}{
		{ir.FieldFrame, c.Trace.Stacks != nil && len(c.Trace.Stacks.Names) > 0 || slices.ContainsFunc(c.Trace.Requests, func(r ir.Request) bool { return r.Site != 0 }), "no source frames: record with stacks"},
		{ir.FieldModule, c.has(ir.MarkEnter), "no modules or annotated spans"},
		{ir.FieldPhase, c.has(ir.MarkPhase), "no phases"},
		{ir.FieldPhases, c.has(ir.MarkPhase), "no phases: iterations alone are counted"},
	} {
		if rules.Asks(m.field) && !m.has {
			c.ruleNote("R051: the rules ask for what the profile does not have: " + m.what)
		}
	}
}

// ruleNote keeps a finding about the rules, which is a note of the compile, too.
func (c *Compiled) ruleNote(text string) {
	if slices.Contains(c.RuleNotes, text) {
		return // said before the plan was made again
	}
	c.RuleNotes = append(c.RuleNotes, text)
	c.Notes = append(c.Notes, text)
}

// RuleTaken is a rule with the selections that it is about.
type RuleTaken struct {
	Rule string `json:"rule"` // "file:line:column: text"
	What string `json:"what"`
	Of   []int  `json:"of"` // numbers of selections
}

// RulesTaken lists the rules and what each comes down to on the profile.
func (c *Compiled) RulesTaken() []RuleTaken {
	out := []RuleTaken{}
	for i := range c.options.Rules.List {
		r := &c.options.Rules.List[i]
		t := RuleTaken{Rule: c.options.Rules.Origin(i), Of: append([]int{}, r.Of...)}
		buffers := c.buffersOf(r.Of...)
		var bytes ir.Bytes
		for _, b := range buffers {
			bytes += c.Problem.Buffers[b].Size
		}
		switch r.Kind {
		case ir.RuleExpect:
			t.What = "judged when the plan is there"
			if r.Measure == ir.MeasureHits {
				t.What = "judged by replay"
			}
		case ir.RuleCapacity:
			t.What = fmt.Sprintf("the plan takes %s at most, in whole pages", Size(c.wholePages(r.Max)))
		case ir.RuleAlign:
			t.What = fmt.Sprintf("all %d buffers", len(c.Problem.Buffers))
		case ir.RuleShare, ir.RuleSeparate:
			t.What = fmt.Sprintf("of %d streams", len(c.Trace.Streams))
		case ir.RuleTreat:
			entries := 0
			for _, s := range r.Of {
				entries += len(c.entriesOf(s))
			}
			t.What = fmt.Sprintf("%d entries of the plan", entries)
		default:
			t.What = fmt.Sprintf("%d buffers, %s if no two shared memory, %s at once", len(buffers), Size(bytes), Size(c.atOnce(buffers)))
		}
		out = append(out, t)
	}
	return out
}

// atOnce is the most bytes of the buffers that are alive together.
func (c *Compiled) atOnce(buffers []ir.BufferID) ir.Bytes {
	p := &ir.Problem{L0: c.Problem.L0, L1: c.Problem.L1}
	for _, b := range buffers {
		p.Buffers = append(p.Buffers, c.Problem.Buffers[b])
	}
	peak, _ := p.LivePeak()
	return peak
}

func (c *Compiled) has(kind ir.MarkKind) bool {
	return slices.ContainsFunc(c.Trace.Marks, func(m ir.Mark) bool { return m.Kind == kind })
}

// fieldNames are the properties as the language writes them.
var fieldNames = map[ir.Field]string{
	ir.FieldSize: "size", ir.FieldLife: "life", ir.FieldPhases: "life", ir.FieldStream: "stream", ir.FieldRequest: "request",
	ir.FieldIteration: "iteration", ir.FieldKind: "kind", ir.FieldPhase: "phase", ir.FieldModule: "module", ir.FieldFrame: "frame",
}

// exprText writes a condition as the language does, but for how its author wrote it.
func exprText(rules *ir.Rules, e *ir.Expr) string {
	join := func(word string) string {
		var parts []string
		for i := range e.Args {
			parts = append(parts, exprText(rules, &e.Args[i]))
		}
		return "(" + strings.Join(parts, word) + ")"
	}
	switch e.Op {
	case ir.OpTrue:
		return "all"
	case ir.OpAnd:
		return join(" and ")
	case ir.OpOr:
		return join(" or ")
	case ir.OpNot:
		return "not " + exprText(rules, &e.Args[0])
	case ir.OpRef:
		return rules.Selections[e.Sel].Name
	}
	name := fieldNames[e.Field]
	switch e.Field {
	case ir.FieldPart:
		return [...]string{"prologue", "loop"}[e.Lo]
	case ir.FieldKind:
		var kinds []string
		for _, k := range e.Kinds {
			kinds = append(kinds, k.String())
		}
		return name + " in " + strings.Join(kinds, ", ")
	case ir.FieldPhase, ir.FieldModule, ir.FieldFrame:
		var texts []string
		for _, p := range e.Patterns {
			if p.How == ir.Regexp {
				texts = append(texts, "/"+p.Text+"/")
			} else {
				texts = append(texts, strconv.Quote(p.Text))
			}
		}
		if e.Patterns[0].How == ir.Exact {
			return name + " in " + strings.Join(texts, ", ")
		}
		return name + " ~ " + strings.Join(texts, ", ")
	}
	return name + rangeText(e)
}

func rangeText(e *ir.Expr) string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	unit := ""
	switch e.Field {
	case ir.FieldSize:
		number = func(n int64) string { return strings.ReplaceAll(Size(ir.Bytes(n)), " ", "") }
	case ir.FieldLife:
		unit = " ticks"
	case ir.FieldPhases:
		unit = " phases"
	}
	switch {
	case e.Lo == e.Hi:
		return " = " + number(e.Lo) + unit
	case e.Lo < 0:
		return " <= " + number(e.Hi) + unit
	case e.Hi > forEver<<20:
		return " >= " + number(e.Lo) + unit
	}
	return " in " + number(e.Lo) + ".." + number(e.Hi) + unit
}
