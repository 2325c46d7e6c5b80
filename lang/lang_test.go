package lang

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stweaver/internal/testkit"
)

// archive is the files of a txtar as a place to open from.
func archive(ar *testkit.Archive) Open {
	return func(path string) (io.ReadCloser, error) {
		text, ok := ar.Get(filepath.ToSlash(path))
		if !ok || strings.HasPrefix(path, "want") {
			return nil, &os.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
}

// Every diagnostic, word for word, with its caret. One file is one kind of mistake.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden diagnostics: %v", err)
	}
	seen := make(map[string]bool)
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar := testkit.OpenArchive(t, path)
			defer ar.Close(t)
			p := Load(archive(ar), "main.rules")
			ar.Compare(t, "want", p.Diagnostics.String())
			for _, d := range p.List {
				seen[d.Code] = true
				if d.At.Line > 0 && d.At.File != "" && d.Excerpt == "" && d.Code != codeRead {
					t.Errorf("%v: %s has no excerpt", d.At, d.Code)
				}
			}
		})
	}
	for _, c := range Codes {
		if !seen[c.Code] && c.Code != codeTooLarge {
			t.Errorf("%s (%s) is in no golden", c.Code, c.Meaning)
		}
	}
}

func TestTooLarge(t *testing.T) {
	p := Load(func(string) (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(zeros{}, maxFileBytes+1)), nil
	}, "big.rules")
	if got := p.Diagnostics.String(); got != "big.rules: R013: big.rules: larger than 4 MiB\n" {
		t.Errorf("got %q", got)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// Codes are in order, each once, and all of them are listed.
func TestCodes(t *testing.T) {
	for i := range Codes[1:] {
		if Codes[i].Code >= Codes[i+1].Code {
			t.Errorf("%s is listed before %s", Codes[i].Code, Codes[i+1].Code)
		}
	}
	text, err := os.ReadFile("diag.go")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		code := fmt.Sprintf("R%03d", n)
		listed := slices.ContainsFunc(Codes, func(c struct{ Code, Meaning string }) bool { return c.Code == code })
		if strings.Contains(string(text), `"`+code+`"`) != listed {
			t.Errorf("%s: constant and list disagree", code)
		}
	}
}

// The grammar as the parser prints it: a change of the language shows here.
func TestGrammar(t *testing.T) {
	const path = "testdata/grammar.ebnf"
	if testkit.Updating() {
		if err := os.WriteFile(path, []byte(EBNF()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if EBNF() != string(want) {
		t.Errorf("the grammar differs from %s (make golden rewrites it):\n%s", path, EBNF())
	}
}

func TestCap(t *testing.T) {
	p := Parse("x", strings.Repeat("pin a\n", 250), nil)
	if len(p.List) != maxDiagnostics || p.More != 150 || p.Errors() != 250 {
		t.Errorf("%d kept, %d more", len(p.List), p.More)
	}
	if !strings.HasSuffix(p.Diagnostics.String(), "and 150 more\n") {
		t.Error("the rest is not counted")
	}
}

// Programs that could make a naive checker run for ever end at once.
func TestHostile(t *testing.T) {
	var doubling, chain, missing strings.Builder
	doubling.WriteString("select s0 where size > 1MiB\n")
	for i := range 200 {
		fmt.Fprintf(&doubling, "select s%d where s%d and s%d\n", i+1, i, i)
	}
	doubling.WriteString("step where s200\n")
	chain.WriteString("select s0 where size > 1MiB\n")
	for i := range 4_000 {
		fmt.Fprintf(&chain, "select s%d where not s%d\n", i+1, i)
	}
	chain.WriteString("keep s4000\n")
	for i := range 4_000 {
		fmt.Fprintf(&missing, "select known%d where size > 1MiB\nkeep missing%d\n", i, i)
	}
	for name, text := range map[string]string{
		"doubling": doubling.String(), "chain": chain.String(), "missing": missing.String(),
		"nots": "keep (" + strings.Repeat("not ", 100_000) + "loop)", "open": "keep " + strings.Repeat("(", 1_000_000), "text": `include "` + strings.Repeat("x", 1_000_000),
		"list": "keep a" + strings.Repeat(", a", 100_000), "values": "keep (size in 1MiB" + strings.Repeat(", 1MiB", 100_000) + ")",
	} {
		p := Parse(name, text, nil)
		if got := p.Errors() == 0; got != (name == "doubling" || name == "chain" || name == "nots" || name == "values") {
			t.Errorf("%s: %.300s", name, p.Diagnostics.String())
		}
		if d := p.Diagnostics.String(); len(d) > 200_000 {
			t.Errorf("%s: %d bytes of diagnostics", name, len(d))
		}
	}
}
