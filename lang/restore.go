package lang

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"stweaver/ir"
)

// How rules travel in a plan: each statement as a line "base.rules:3:1: keep comm", with the file's name
// but not its folder, for two people who plan the same want the same plan.

// FactKey is the key of the facts of a plan that hold its rules.
const FactKey = "rule"

// Facts are the statements of r as a plan holds them.
func Facts(r *ir.Rules) []ir.Fact {
	var facts []ir.Fact
	for _, s := range r.Statements {
		s.At.File = plainName.Replace(filepath.Base(s.At.File))
		facts = append(facts, ir.Fact{Key: FactKey, Value: fmt.Sprintf("%v: %s", s.At, s.Text)})
	}
	return facts
}

// plainName takes from a file's name what would read as a place or another fact.
var plainName = strings.NewReplacer(": ", "_ ", "\n", "_", "\r", "_")

var factForm = regexp.MustCompile(`^(.*?):(\d+):(\d+): (.*)$`)

// Restore reads the rules that a plan was made by from its facts. An error says that the plan is not one
// of ours.
func Restore(plan *ir.Plan) (*ir.Rules, error) {
	var lines []string
	var places []ir.Place
	for _, f := range plan.Info {
		if f.Key != FactKey {
			continue
		}
		m := factForm.FindStringSubmatch(f.Value)
		if m == nil {
			return nil, fmt.Errorf("the plan's rule %q has no place", f.Value)
		}
		line, _ := strconv.Atoi(m[2])
		column, _ := strconv.Atoi(m[3])
		lines, places = append(lines, m[4]), append(places, ir.Place{File: m[1], Line: line, Column: column})
	}
	p := Parse("plan", strings.Join(lines, "\n"), nil)
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("the plan's rules do not parse: %w", err)
	}
	if len(p.Rules.Statements) != len(places) {
		return nil, fmt.Errorf("the plan has %d rules in %d lines", len(p.Rules.Statements), len(places))
	}
	for i := range places {
		p.Rules.Statements[i].At = places[i]
	}
	return &p.Rules, nil
}
