package compiler

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stweaver/ir"
	"stweaver/lang"
)

func parseRules(tb interface{ Fatalf(string, ...any) }, text string) ir.Rules {
	p := lang.Parse("x.rules", text, nil)
	if err := p.Err(); err != nil {
		tb.Fatalf("%s\n%s", text, p.Diagnostics.String())
	}
	return p.Rules
}

// openSpans is what spans are open before tick, by walking the marks alone: names that are never left are
// labels, of which the last one holds.
func openSpans(t *ir.Trace, tick ir.Tick) (open []string) {
	left := make(map[ir.NameID]bool)
	for _, m := range t.Marks {
		left[m.Name] = left[m.Name] || m.Kind == ir.MarkLeave
	}
	label := ""
	for i, m := range t.Marks {
		if m.Tick > tick {
			break
		}
		name := t.Name(m.Name)
		switch {
		case m.Kind == ir.MarkEnter && !left[m.Name]:
			label = name
		case m.Kind == ir.MarkEnter:
			open = slices.DeleteFunc(open, func(o string) bool { return o == name+" for ever" })
			if !isLeft(t, i) {
				name += " for ever"
			}
			open = append(open, name)
		case m.Kind == ir.MarkLeave:
			for k := len(open) - 1; k >= 0; k-- {
				if open[k] == name {
					open = append(open[:k:k], open[k+1:]...)
					break
				}
			}
		}
	}
	for k := range open {
		open[k] = strings.TrimSuffix(open[k], " for ever")
	}
	return append(open, label)
}

// isLeft tells whether the span that mark i enters is left.
func isLeft(t *ir.Trace, i int) bool {
	depth := 0
	for _, m := range t.Marks[i:] {
		switch {
		case m.Name != t.Marks[i].Name:
		case m.Kind == ir.MarkEnter:
			depth++
		case m.Kind == ir.MarkLeave:
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}

// slowly evaluates a condition for one request, from the trace alone.
func slowly(t *testing.T, c *Compiled, e *ir.Expr, i int) bool {
	tr, r := c.Trace, &c.Trace.Requests[i]
	matches := func(names ...string) bool {
		for _, p := range e.Patterns {
			for _, n := range names {
				ok := n == p.Text
				switch p.How {
				case ir.Glob:
					ok, _ = path.Match(strings.ReplaceAll(p.Text, "/", "\x00"), strings.ReplaceAll(n, "/", "\x00"))
				case ir.Regexp:
					ok, _ = regexp.MatchString(p.Text, n)
				}
				if ok && n != "" {
					return true
				}
			}
		}
		return false
	}
	in := func(n int) bool { return e.Lo <= int64(n) && int64(n) <= e.Hi }
	switch e.Op {
	case ir.OpTrue:
		return true
	case ir.OpAnd, ir.OpOr:
		for k := range e.Args {
			if slowly(t, c, &e.Args[k], i) != (e.Op == ir.OpAnd) {
				return e.Op == ir.OpOr
			}
		}
		return e.Op == ir.OpAnd
	case ir.OpNot:
		return !slowly(t, c, &e.Args[0], i)
	case ir.OpRef:
		return slowly(t, c, &c.options.Rules.Selections[e.Sel].Where, i)
	}
	crosses := func(at ir.Tick) bool { return r.Alloc < at && (r.Free == ir.Never || at < r.Free) }
	switch e.Field {
	case ir.FieldSize:
		return in(int(r.Rounded()))
	case ir.FieldStream:
		return in(int(r.Stream))
	case ir.FieldRequest:
		return in(i)
	case ir.FieldLife, ir.FieldPhases:
		if r.Free == ir.Never {
			return in(forEver)
		}
		n := 0
		for k := range tr.Requests {
			if e.Field == ir.FieldLife && tr.Requests[k].Alloc != ir.Before && crosses(tr.Requests[k].Alloc) {
				n++
			}
		}
		for _, m := range tr.Marks {
			if e.Field == ir.FieldPhases && (m.Kind == ir.MarkPhase || m.Kind == ir.MarkIteration) && r.Alloc < m.Tick && m.Tick <= r.Free {
				n++
			}
		}
		return in(n)
	case ir.FieldPhase:
		name := ""
		for _, m := range tr.Marks {
			if m.Kind == ir.MarkPhase && m.Tick <= r.Alloc {
				name = tr.Name(m.Name)
			}
		}
		return matches(name)
	case ir.FieldModule:
		return matches(openSpans(tr, r.Alloc)...)
	case ir.FieldFrame:
		return matches(tr.Name(r.Site))
	case ir.FieldIteration:
		n := -1
		for _, cut := range c.Steps.Cuts {
			if cut <= r.Alloc {
				n++
			}
		}
		return in(n)
	case ir.FieldPart:
		switch {
		case c.template != nil && r.Alloc >= c.template.Windows[0][0] && c.mapping.memberOf[i] != ir.NoEntry:
			return in(1)
		case c.mapping.entryOf[i] != ir.NoEntry:
			return in(0)
		}
		return in(2)
	case ir.FieldKind:
		for _, k := range e.Kinds {
			for n := range c.Problem.Entries {
				if entry := &c.Problem.Entries[n]; int(entry.Request) == i && entry.Kind == k {
					return true
				}
			}
		}
		return false
	}
	t.Fatalf("field %d", e.Field)
	return false
}

// conditions that ask for everything once and more.
var conditions = []string{
	"size >= 4KiB", "size in 512B..2KiB, 8KiB", "size < 3KiB", "stream = 1", "request in 3..40", "life > 3 ticks", "life = 0 ticks", "life >= 1 phases", "life in 0..1 phases",
	"phase = F", `phase ~ "B*"`, `phase !~ /^F$/`, `module ~ "iter*"`, `module ~ /^Step/`, `module = "step=4"`, "iteration = 1", "iteration in 0..2", "prologue", "loop", "all",
	`frame ~ "*"`,
}

// Sets of bits and one request at a time agree, on any trace and any condition.
func TestSelectionsAgainstOneByOne(t *testing.T) {
	taken := 0
	rapid.Check(t, func(rt *rapid.T) {
		tr := randomTrace(rt)
		for i := range tr.Names {
			if tr.Names[i] == "F" {
				tr.Requests[0].Site = ir.NameID(i)
			}
		}
		var text strings.Builder
		var draw func(depth int) string
		draw = func(depth int) string {
			s := rapid.SampledFrom(conditions).Draw(rt, "condition")
			if depth > 0 {
				s = fmt.Sprintf("%s%s %s %s", rapid.SampledFrom([]string{"", "not "}).Draw(rt, "not"), s, rapid.SampledFrom([]string{"and", "or"}).Draw(rt, "join"), draw(depth-1))
			}
			return "(" + s + ")"
		}
		for i := range 4 {
			fmt.Fprintf(&text, "select s%d where %s\n", i, draw(i))
			if i > 0 {
				fmt.Fprintf(&text, "select r%d where s%d or not s%d and size > 1KiB\n", i, i, i-1)
			}
		}
		c, err := Analyse(context.Background(), tr, Options{Rules: parseRules(rt, text.String())})
		if err != nil {
			return // no iterations: nothing to select from
		}
		for k := range c.options.Rules.Selections {
			for i := range tr.Requests {
				if got, want := c.selected[k].has(i), slowly(t, c, &c.options.Rules.Selections[k].Where, i); got != want {
					rt.Fatalf("request %d: %t, one by one %t\n%s", i, got, want, exprText(&c.options.Rules, &c.options.Rules.Selections[k].Where))
				}
			}
			taken += c.selected[k].count()
		}
	})
	if taken == 0 {
		t.Error("nothing was ever taken")
	}
}

// A module that an exception left, so that nobody said so, holds until it is entered again, not for ever.
func TestSelectionAfterAnException(t *testing.T) {
	p := newTape()
	var want []bool
	request := func(in bool) int {
		want = append(want, in)
		return p.alloc(ir.Bytes(1024 * (1 + len(want)%5)))
	}
	for i := range 6 {
		p.mark(ir.MarkIteration, int64(i), "")
		a := request(i == 3)
		p.mark(ir.MarkEnter, 0, "attn")
		b := request(true)
		if i != 2 {
			p.mark(ir.MarkLeave, 0, "attn")
		}
		c := request(i == 2)
		p.mark(ir.MarkEnter, 0, "mlp")
		d := request(i == 2)
		p.mark(ir.MarkLeave, 0, "mlp")
		p.free(d)
		p.free(c)
		p.free(b)
		p.free(a)
	}
	p.mark(ir.MarkIteration, -1, "")
	c, err := Analyse(context.Background(), p.trace(), Options{Rules: parseRules(t, `select a where module = "attn"`)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got := c.selected[0].has(i); got != want[i] || slices.Contains(openSpans(c.Trace, c.Trace.Requests[i].Alloc), "attn") != want[i] {
			t.Errorf("request %d: selected %t, want %t", i, got, want[i])
		}
	}
}

// Kinds are those of the entry that a request is an instance of, in every iteration.
func TestSelectionByKind(t *testing.T) {
	tr := load(t, "torchcpu/gpt2_dense.txt.gz")
	c, err := Analyse(context.Background(), tr, Options{Rules: parseRules(t, "select k where kind in carried, persistent\nselect d where kind = dynamic\nselect n where not (kind in carried, persistent, dynamic, scoped, transient)")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Requests {
		var kind ir.Kind
		if m := c.mapping.memberOf[i]; m != ir.NoEntry {
			kind = c.Problem.Entries[int(c.Problem.L0)+int(m)].Kind
		} else if e := c.mapping.entryOf[i]; e != ir.NoEntry {
			kind = c.Problem.Entries[e].Kind
		}
		want := [3]bool{kind == ir.Carried || kind == ir.Persistent, kind == ir.Dynamic, kind == 0}
		for s := range want {
			if c.selected[s].has(i) != want[s] {
				t.Fatalf("request %d of kind %v: selection %d has it: %t", i, kind, s, !want[s])
			}
		}
	}
}

// manySelections asks for every property, over and over.
func manySelections() string {
	var b strings.Builder
	for i, c := range conditions {
		fmt.Fprintf(&b, "select a%d where %s\nselect b%d where not (%s) and size in 1MiB..%dMiB or kind in dynamic, carried\nkeep b%d\n", i, c, i, c, i+2, i)
	}
	return b.String()
}

// A million requests, and the buffers that selections by every property come down to.
func BenchmarkSelect(b *testing.B) {
	p := newProgram(8_000)
	p.between = func(it, request int) {
		if request%1000 == 0 {
			p.mark(ir.MarkPhase, 0, fmt.Sprintf("F%d", request/1000))
			p.mark(ir.MarkEnter, 0, fmt.Sprintf("layers.%d", request/1000))
			p.mark(ir.MarkLeave, 0, fmt.Sprintf("layers.%d", request/1000-1))
		}
	}
	tr := p.run(25)
	rules := parseRules(b, manySelections())
	c, err := Analyse(context.Background(), tr, Options{Rules: rules})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		v := c.evaluator()
		v.sets = nil
		began := time.Now()
		for i := range rules.Selections {
			v.selection(i)
		}
		evaluated := time.Since(began)
		if _, err := c.constraints(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(evaluated.Seconds(), "evaluate-s")
		b.ReportMetric(time.Since(began).Seconds(), "all-s")
	}
	b.ReportMetric(float64(len(tr.Requests)), "requests")
	b.ReportMetric(float64(len(rules.Selections)), "selections")
}
