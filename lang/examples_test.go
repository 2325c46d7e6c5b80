package lang

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stweaver/ir"
)

// Examples are right, without a warning, and in the canonical form; together they show all of the language.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("examples/*.rules")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	words := make(map[string]bool)
	for _, path := range files {
		p := Load(OpenFile, path)
		if len(p.List) > 0 {
			t.Errorf("%s:\n%s", path, p.Diagnostics.String())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if once, _ := Format(path, string(text)); once != string(text) {
			t.Errorf("%s is not in the canonical form:\n%s", path, once)
		}
		for _, tok := range tokenize(path, string(text)) {
			words[tok.Value] = true
		}
	}
	for _, w := range vocabulary() {
		if !words[w] && w != "transient" && w != "tick" && w != "fast" && w != "default" && w != "all" && w != "every" {
			t.Errorf("no example shows %q", w)
		}
	}
}

// vocabulary is every word that means something somewhere.
func vocabulary() []string {
	words := slices.Concat(statementWords, joinWords, propertyNames(), builtinNames, []string{"fast", "default", "max", "ticks", "phases"})
	for _, k := range ir.Kinds {
		words = append(words, k.String())
	}
	for _, x := range treatments {
		words = append(words, x.name)
	}
	for _, m := range measures {
		words = append(words, m.name)
	}
	for _, s := range slices.Concat(deviceSettings, solverSettings) {
		words = append(words, s.name)
	}
	for _, m := range regexp.MustCompile(`"([a-z]+)"`).FindAllStringSubmatch(EBNF(), -1) {
		words = append(words, m[1])
	}
	return append(words, "piece", "quantile", "cap")
}

// The grammar for editors is valid, its expressions compile, and it knows every word of the language.
func TestTextMate(t *testing.T) {
	text, err := os.ReadFile("../editors/textmate/stweaver-rules.tmLanguage.json")
	if err != nil {
		t.Fatal(err)
	}
	var grammar struct {
		ScopeName  string
		Patterns   []struct{ Include string }
		Repository map[string]struct{ Name, Match, Begin, End string }
	}
	if err := json.Unmarshal(text, &grammar); err != nil {
		t.Fatal(err)
	}
	for _, p := range grammar.Patterns {
		if _, ok := grammar.Repository[strings.TrimPrefix(p.Include, "#")]; !ok {
			t.Errorf("%s is included and not there", p.Include)
		}
	}
	var matches []*regexp.Regexp
	for name, r := range grammar.Repository {
		for _, x := range []string{r.Match, r.Begin, r.End} {
			re, err := regexp.Compile(x)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if x == r.Match && x != "" && name != "comment" {
				matches = append(matches, re)
			}
		}
	}
	for _, w := range vocabulary() {
		if !slices.ContainsFunc(matches, func(re *regexp.Regexp) bool { return re.FindString(w) == w }) {
			t.Errorf("the editors' grammar does not know %q", w)
		}
	}
}

// The reference lists every code with its meaning, and every word.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Codes {
		if !strings.Contains(string(text), "| "+c.Code+" | "+c.Meaning+" |") {
			t.Errorf("README.md lacks %s: %s", c.Code, c.Meaning)
		}
	}
	for _, w := range vocabulary() {
		if !regexp.MustCompile("\\b" + w + "\\b").Match(text) {
			t.Errorf("README.md does not mention %q", w)
		}
	}
}
