package lang

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/participle/v2/lexer"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// drawProgram draws a program that has every construct, in any layout that keeps its meaning, with
// comments anywhere.
func drawProgram(t *rapid.T) string {
	var b strings.Builder
	space := rapid.SampledFrom([]string{" ", " ", "  ", "\t", "\n  ", "\n\t ", " # why\n   ", "  #\n#x\n  "})
	between := rapid.SampledFrom([]string{"\n", "\n", "\n\n\n", "\n# a comment\n", " # behind\n", "\n\n  # indented\n\n"})
	size := rapid.SampledFrom([]string{"512B", "20MiB", "1.5GiB", "1_024KiB"})
	var condition func(depth int) []string
	test := func() []string {
		return rapid.SampledFrom([][]string{
			{"size", ">=", size.Draw(t, "size")}, {"size", "in", "1MiB", "..", "2MiB", ",", "4MiB"}, {"kind", "in", "carried", ",", "dynamic"}, {"kind", "!=", "scoped"},
			{"life", ">", "2", "phases"}, {"life", "in", "1", "..", "9", "ticks"}, {"module", "~", `"layers.*"`, ",", "/mlp|\\/x/"}, {"frame", "!~", `"*:forward"`},
			{"phase", "=", "F"}, {"stream", "=", "0"}, {"request", "in", "1", "..", "2"}, {"iteration", "=", "1"}, {"loop"}, {"all"},
		}).Draw(t, "test")
	}
	condition = func(depth int) []string {
		var out []string
		for i := range rapid.IntRange(1, 3).Draw(t, "terms") {
			if i > 0 {
				out = append(out, rapid.SampledFrom([]string{"and", "or"}).Draw(t, "join"))
			}
			for range rapid.IntRange(0, 2).Draw(t, "nots") {
				out = append(out, "not")
			}
			if depth > 0 && rapid.Bool().Draw(t, "group") {
				out = append(append(append(out, "("), condition(depth-1)...), ")")
			} else {
				out = append(out, test()...)
			}
		}
		return out
	}
	names := []string{}
	target := func() []string {
		if len(names) > 0 && rapid.Bool().Draw(t, "named") {
			return []string{rapid.SampledFrom(names).Draw(t, "name")}
		}
		return append(append([]string{"("}, condition(1)...), ")")
	}
	statement := func(i int) []string {
		switch rapid.IntRange(0, 9).Draw(t, "statement") {
		case 0:
			return []string{"device", "{", "headroom", size.Draw(t, "size"), "for", fmt.Sprintf("x%d", i), "}"}
		case 1:
			return append(append([]string{"pin"}, target()...), "within", "0B", "..", "4GiB")
		case 2:
			return append(append([]string{"arena"}, target()...), "max", "8GiB", "piece", "1GiB")
		case 3:
			return append([]string{"together"}, target()...)
		case 4:
			return append(append(append([]string{"apart"}, target()...), ","), target()...)
		case 5:
			return append(append([]string{"guard"}, target()...), "16", "ticks")
		case 6:
			return []string{"expect", "gap", "<=", "1%"}
		case 7:
			return append([]string{"keep"}, target()...)
		default:
			where := condition(2)
			names = append(names, fmt.Sprintf("s%d", i))
			return append([]string{"select", names[len(names)-1], "where"}, where...)
		}
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "statements") {
		words := statement(i)
		for k, w := range words {
			if k > 0 {
				b.WriteString(space.Draw(t, "space"))
			}
			b.WriteString(w)
		}
		b.WriteString(between.Draw(t, "between"))
	}
	return b.String()
}

func comments(text string) []string {
	var out []string
	for _, t := range tokenize("", text) {
		if t.Type == tokenComment {
			out = append(out, strings.TrimRight(t.Value, " \t"))
		}
	}
	return out
}

// meaning is a program without the places of its statements.
func meaning(t interface{ Fatalf(string, ...any) }, text string) ir.Rules {
	p := Parse("x.rules", text, nil)
	if err := p.Err(); err != nil {
		t.Fatalf("%v\n%s", err, p.Diagnostics.String())
	}
	for i := range p.Rules.Statements {
		p.Rules.Statements[i].At = ir.Place{}
	}
	return p.Rules
}

// The canonical form says the same, keeps every comment in order, and is its own canonical form.
func TestFormatProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawProgram(t)
		once, d := Format("x.rules", text)
		if d.Errors() > 0 {
			t.Fatalf("%s", d)
		}
		if twice, _ := Format("x.rules", once); twice != once {
			t.Fatalf("not idempotent:\n%s\nthen:\n%s", once, twice)
		}
		if diff := cmp.Diff(meaning(t, text), meaning(t, once)); diff != "" {
			t.Fatalf("the meaning changed:\n%s\n%s", once, diff)
		}
		if a, b := comments(text), comments(once); !slices.Equal(a, b) {
			t.Fatalf("comments %q became %q", a, b)
		}
		if strings.Contains(once, "\n\n\n") || strings.Contains(once, " \n") || strings.HasPrefix(once, "\n") {
			t.Fatalf("untidy:\n%q", once)
		}
	})
}

// A program is the list of its statements: read back from their canonical texts it is the same (L6).
func TestStatementsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := meaning(t, drawProgram(t))
		var lines []string
		for _, s := range want.Statements {
			lines = append(lines, s.Text)
		}
		got := meaning(t, strings.Join(lines, "\n"))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if want.Digest() != got.Digest() {
			t.Fatal("the digest differs")
		}
	})
}

// Layouts that a program is likely to have, and their canonical form.
func TestFormatGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/format/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden formats: %v", err)
	}
	for _, path := range files {
		ar := testkit.OpenArchive(t, path)
		in, _ := ar.Get("in")
		got, d := Format("in", in)
		ar.Compare(t, "want", got)
		ar.Compare(t, "want/diagnostics", d.String())
		ar.Close(t)
	}
}

// The lexer loses nothing: tokens lie where they say, and between them is white space only.
func TestTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		at := 0
		for _, tok := range tokenize("", text) {
			if gap := text[at:tok.Pos.Offset]; strings.Trim(gap, " \t\r\n") != "" {
				t.Fatalf("%q is in no token", gap)
			}
			if !strings.HasPrefix(text[tok.Pos.Offset:], tok.Value) {
				t.Fatalf("token %q is not at %d", tok.Value, tok.Pos.Offset)
			}
			at = tok.Pos.Offset + len(tok.Value)
		}
		if strings.Trim(text[at:], " \t\r\n") != "" {
			t.Fatalf("%q is in no token", text[at:])
		}
	})
}

// No text makes the front end fail, and what it accepts it can print and read back.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/errors/*.txtar")
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("select a where not not (size >= 1MiB)\n# x\nkeep a # y\ndevice { capacity 1GiB # z\n}")
	f.Fuzz(func(t *testing.T, text string) {
		p := Parse("x.rules", text, nil)
		_ = p.Diagnostics.String()
		once, d := Format("x.rules", text)
		if p.Errors() == 0 && d.Errors() > 0 {
			t.Fatalf("it parses, but is not formatted: %s", d)
		}
		if d.Errors() > 0 {
			return
		}
		if twice, d := Format("x.rules", once); twice != once || d.Errors() > 0 {
			t.Fatalf("not idempotent:\n%q\n%q\n%s", once, twice, d)
		}
		if p.Errors() == 0 {
			want, got := meaning(t, text), meaning(t, once)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// tenThousand is a program of 10,000 lines in which everything occurs.
func tenThousand() string {
	var b strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&b, "# layer %d\nselect s%d where size in 1MiB..%dMiB and (kind in carried, persistent or module ~ \"layers.%d.*\")\nkeep s%d\nguard (size >= 1MiB and not s%d) 16 ticks\n", i, i, i+1, i, i, i)
	}
	return b.String()
}

// The work grows with the text: each statement is parsed once, and names are looked up in one step.
func TestTenThousandLines(t *testing.T) {
	text := tenThousand()
	p := Parse("big.rules", text, nil)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text, "\n"); n != 10_000 || len(p.Rules.Statements) != 7_500 {
		t.Fatalf("%d lines, %d statements", n, len(p.Rules.Statements))
	}
	perLine := func(text string) float64 {
		n := testing.AllocsPerRun(1, func() { Parse("big.rules", text, nil) })
		return n / float64(strings.Count(text, "\n"))
	}
	half := strings.Join(strings.SplitAfter(text, "\n")[:5_000], "")
	if a, b := perLine(half), perLine(text); b > 1.1*a || b > 400 {
		t.Errorf("%.0f allocations a line for 5,000 lines, %.0f for 10,000", a, b)
	}
}

func BenchmarkParse(b *testing.B) {
	text := tenThousand()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Parse("big.rules", text, nil)
	}
}

func BenchmarkFormat(b *testing.B) {
	text := tenThousand()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Format("big.rules", text)
	}
}

var _ lexer.Definition = definition{}
