package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stweaver/ir"
	"stweaver/lang"
)

// A plan that was changed after it was made, and is a whole plan file all the same, is refused by the commands that
// judge it: never taken, and never an internal error.
func TestTamperedPlans(t *testing.T) {
	dir := t.TempDir()
	const in = "../../testdata/profiles/toy_gpt.stwp"
	rules, made := filepath.Join(dir, "a.rules"), filepath.Join(dir, "made.plan")
	text := "select w where kind = persistent and size > 24MiB\nkeep w\nshare streams age 10\nselect b where size = 16MiB and kind = transient\nguard b 2 ticks\n"
	if err := os.WriteFile(rules, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &out)
		return code, out.String()
	}
	if code, out := command("compile", in, "--rules", rules, "-o", made); code != exitOK {
		t.Fatal(code, out)
	}
	data, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	planned := func(p *ir.Plan, keep bool) *ir.Slot {
		for i := range p.Slots {
			s := &p.Slots[i]
			if s.Flags&ir.SlotPlanned != 0 && s.Flags&ir.SlotKept != 0 == keep && s.Lo > 0 {
				return s
			}
		}
		t.Fatal("no such slot")
		return nil
	}
	rule := func(p *ir.Plan, word string) *ir.Fact {
		return &p.Info[slices.IndexFunc(p.Info, func(f ir.Fact) bool { return f.Key == lang.FactKey && strings.Contains(f.Value, word) })]
	}
	cases := map[string]func(p *ir.Plan){
		"moved":                func(p *ir.Plan) { planned(p, false).Lo = 0 },
		"a kept one moved":     func(p *ir.Plan) { planned(p, true).Lo = 0 },
		"no longer kept":       func(p *ir.Plan) { planned(p, true).Flags &^= ir.SlotKept },
		"other profile":        func(p *ir.Plan) { p.Profile[3] ^= 1 },
		"below its arena":      func(p *ir.Plan) { p.Capacity = ir.Align },
		"other AGE":            func(p *ir.Plan) { p.SharedAge = 900 },
		"streams apart":        func(p *ir.Plan) { p.SharedAge = 0 },
		"other iterations":     func(p *ir.Plan) { fact(p, "steps").Value = "2:4" },
		"iterations beyond":    func(p *ir.Plan) { fact(p, "steps").Value = "2:400" },
		"iterations of words":  func(p *ir.Plan) { fact(p, "steps").Value = "some" },
		"sizes vary":           func(p *ir.Plan) { planned(p, false).Varies = 99 },
		"kept by a new word":   func(p *ir.Plan) { fact(p, "kept").Value = "most" },
		"once by a new word":   func(p *ir.Plan) { fact(p, "one-pass").Value = "maybe" },
		"another rule":         func(p *ir.Plan) { r := rule(p, "keep w"); r.Value = strings.Replace(r.Value, "keep w", "keep all", 1) },
		"a rule without place": func(p *ir.Plan) { rule(p, "keep w").Value = "keep w" },
		"a rule of words":      func(p *ir.Plan) { rule(p, "keep w").Value = "a.rules:1:1: some words" },
		"a rule that includes": func(p *ir.Plan) { rule(p, "keep w").Value = "a.rules:1:1: include \"/etc/passwd\"" },
		"a selection is gone":  func(p *ir.Plan) { rule(p, "select w").Value = "a.rules:1:1: keep all" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := ir.DecodePlan(data)
			if err != nil {
				t.Fatal(err)
			}
			change(p)
			changed, err := ir.EncodePlan(p)
			if err != nil {
				t.Skip("not a plan file: ", err)
			}
			path := filepath.Join(t.TempDir(), "changed.plan")
			if err := os.WriteFile(path, changed, 0o644); err != nil {
				t.Fatal(err)
			}
			if code, out := command("verify", path, in); code != exitCheck && code != exitUnreadable {
				t.Errorf("verify: exit code %d\n%s", code, out)
			}
			if code, out := command("replay", "--iterations", "2", path, in); code == exitInternal {
				t.Errorf("replay: exit code %d\n%s", code, out)
			}
		})
	}
}

func fact(p *ir.Plan, key string) *ir.Fact {
	return &p.Info[slices.IndexFunc(p.Info, func(f ir.Fact) bool { return f.Key == key })]
}
