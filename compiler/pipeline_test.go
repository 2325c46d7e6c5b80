package compiler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stweaver/compiler"
	"stweaver/internal/testkit"
	"stweaver/ir"
	"stweaver/lang"
	"stweaver/profile"
)

// Golden pipelines: a small profile at the top, the text form after every pass below it. One
// file is one story; its comment says which.
func TestPipeline(t *testing.T) {
	files, err := filepath.Glob("../testdata/pipeline/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden pipelines: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { pipeline(t, path) })
	}
}

func pipeline(t *testing.T, path string) {
	ar := testkit.OpenArchive(t, path)
	defer ar.Close(t)
	input, ok := ar.Get("profile")
	if !ok {
		t.Fatal("no section profile")
	}
	tr, err := profile.Read(filepath.Base(path), strings.NewReader(input), profile.Options{Device: -1})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_, ruled := ar.Get("rules")
	if !ruled {
		tr.WriteText(&b)
		ar.Compare(t, "want/trace", b.String())
	}
	shown := []string{"steps", "kinds", "lower", "pack", "emit"} // the other dumps say the same
	if ruled {
		shown = []string{"steps", "constrain", "emit"}
	}
	var last *compiler.Compiled
	for _, pass := range shown {
		b.Reset()
		c, err := compiler.Compile(context.Background(), tr, options(t, ar, pass, &b))
		if err != nil {
			ar.Compare(t, "want/error", failure(err, c))
			return
		}
		ar.Compare(t, "want/"+pass, b.String())
		last = c
	}
	ar.Compare(t, "want/report", report(last))
	parsesBack(t, ar)
}

func options(t *testing.T, ar *testkit.Archive, pass string, b *bytes.Buffer) compiler.Options {
	o := compiler.Options{Dump: pass, DumpTo: b}
	if text, ok := ar.Get("rules"); ok {
		p := lang.Parse("x.rules", text, nil)
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
		o.Rules = p.Rules
	}
	text, _ := ar.Get("options")
	for _, f := range strings.Fields(text) {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "capacity":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			o.Rules.Capacity = ir.Bytes(n)
		case "steps":
			fmt.Sscanf(value, "%d:%d", &o.From, &o.To)
		default:
			t.Fatalf("unknown option %q", f)
		}
	}
	return o
}

// failure is what the command prints of an error.
func failure(err error, c *compiler.Compiled) string {
	text := err.Error() + "\n"
	var infeasible *compiler.InfeasibleError
	var unmet *compiler.ExpectError
	switch {
	case errors.As(err, &infeasible):
		for _, id := range infeasible.Rules {
			text += c.Rules().Origin(int(id)) + "\n"
		}
	case errors.As(err, &unmet):
		text += strings.Join(unmet.Failures, "\n") + "\n"
	}
	return text
}

// report is the part of a summary that does not vary.
func report(c *compiler.Compiled) string {
	s := c.Summary(0, 0, 0)
	var b strings.Builder
	fmt.Fprintf(&b, "live %d bound %d (%s) plan %d apart %d outside %d method %s verified %d buffers, %d requests\n",
		s.LivePeak, s.Bound, s.BoundKind, s.PlanPeak, s.StreamsApart, s.OutsidePlan, s.Method, s.VerifiedBuffers, s.VerifiedRequests)
	for _, k := range ir.Kinds {
		fmt.Fprintf(&b, "%v %d requests, %d bytes\n", k, s.Kinds[k.String()].Requests, s.Kinds[k.String()].Bytes)
	}
	if o := s.Obeyed; o != nil {
		fmt.Fprintf(&b, "rules: plan %d, without %d\n", o.After, o.Before)
		if o.Kept > 0 {
			fmt.Fprintf(&b, "kept %d\n", o.Kept)
		}
		for _, r := range o.Regions {
			fmt.Fprintf(&b, "region %v\n", r)
		}
		for _, r := range o.Rules {
			fmt.Fprintf(&b, "rule %d costs %d\n", r.Rule, r.Cost)
		}
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note %s\n", n)
	}
	return b.String()
}

// parsesBack prints, parses and prints again every stage that is in the text form.
func parsesBack(t *testing.T, ar *testkit.Archive) {
	for _, section := range []string{"want/trace", "want/lower", "want/constrain", "want/pack", "want/emit"} {
		text, ok := ar.Get(section)
		if !ok {
			continue
		}
		x, err := ir.ParseText(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s does not parse back: %v", section, err)
			continue
		}
		var b bytes.Buffer
		switch {
		case x.Trace != nil:
			x.Trace.WriteText(&b)
		case x.Problem != nil:
			x.Problem.WriteText(&b, x.Layout)
			if err := x.Problem.Check(); err != nil {
				t.Errorf("%s: %v", section, err)
			}
		default:
			x.Plan.WriteText(&b)
		}
		if b.String() != text {
			t.Errorf("%s prints differently after parsing", section)
		}
	}
}
