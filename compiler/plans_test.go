package compiler_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stweaver/compiler"
	"stweaver/internal/testkit"
	"stweaver/ir"
	"stweaver/lang"
	"stweaver/profile"
)

// plans are what testdata/plans holds: plan files as the compiler writes them, each with a part of the format that the others lack. They are what
// fuzzing of the loaders (runtime/ctest/fuzz_load.c, FuzzLoad, FuzzDecodePlan) starts from, beside plans that are made up.
var plans = []struct {
	name, from string // a golden pipeline, with its rules, or a shipped profile
	sharing    ir.Sharing
	has        func(*ir.Plan) bool
}{
	{"needs", "pipeline/rules-dynamic.txtar", ir.Sharing{}, func(p *ir.Plan) bool {
		return slices.ContainsFunc(p.Needs, func(l []ir.NeedRange) bool { return len(l) > 0 })
	}},
	{"kept", "pipeline/rule-keep.txtar", ir.Sharing{}, func(p *ir.Plan) bool {
		return slices.ContainsFunc(p.Slots, func(s ir.Slot) bool { return s.Flags&ir.SlotKept != 0 }) &&
			slices.ContainsFunc(p.Info, func(f ir.Fact) bool { return f.Key == "rule" })
	}},
	{"shared", "pipeline/rules-share.txtar", ir.Sharing{}, func(p *ir.Plan) bool { return p.SharedAge > 0 && len(p.Streams) == 3 }},
	{"varies", "pipeline/rules-static.txtar", ir.Sharing{}, func(p *ir.Plan) bool {
		return slices.ContainsFunc(p.Slots, func(s ir.Slot) bool { return s.Varies != 0 })
	}},
	{"training", "profiles/toy_gpt.stwp", ir.Sharing{On: true, Age: 20}, func(p *ir.Plan) bool {
		return p.SharedAge > 0 && slices.ContainsFunc(p.Needs, func(l []ir.NeedRange) bool { return len(l) > 1 })
	}},
}

// The plan files are what the compiler makes of their profiles today; "make golden" writes them again.
func TestPlanFiles(t *testing.T) {
	var names []string
	for _, c := range plans {
		names = append(names, c.name+".plan")
		t.Run(c.name, func(t *testing.T) {
			path := "../testdata/" + c.from
			o := compiler.Options{Sharing: c.sharing}
			var tr *ir.Trace
			var err error
			if strings.HasSuffix(path, ".txtar") {
				ar := testkit.OpenArchive(t, path)
				input, _ := ar.Get("profile")
				rules, _ := ar.Get("rules")
				p := lang.Parse("x.rules", rules, nil)
				if err := p.Err(); err != nil {
					t.Fatal(err)
				}
				o.Rules = p.Rules
				tr, err = profile.Read(filepath.Base(path), strings.NewReader(input), profile.Options{Device: -1})
			} else {
				tr, err = profile.ReadFile(path, profile.DefaultOptions())
			}
			if err != nil {
				t.Fatal(err)
			}
			made, err := compiler.Compile(context.Background(), tr, o)
			if err != nil {
				t.Fatal(err)
			}
			if !c.has(made.Plan) {
				t.Error("the plan has no longer what it is there for")
			}
			data, err := ir.EncodePlan(made.Plan)
			if err != nil {
				t.Fatal(err)
			}
			file := "../testdata/plans/" + c.name + ".plan"
			if testkit.Updating() {
				if err := os.WriteFile(file, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, data) {
				t.Errorf("%s is not what the compiler makes of testdata/%s (make golden rewrites it): %v", file, c.from, err)
			}
		})
	}
	there, err := filepath.Glob("../testdata/plans/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if !slices.Contains(names, filepath.Base(path)) {
			t.Errorf("%s is not in the table of this test", path)
		}
	}
}
