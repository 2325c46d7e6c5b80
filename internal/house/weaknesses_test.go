package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stweaver/internal/testkit"
)

// TestWeaknesses holds the table of CONTRIBUTING.md that says which tests hold which weakness: every test named there exists,
// as a function of Go, C or Python or as a program of runtime/ctest, no row is without one, and scenarios show what they are said to.
func TestWeaknesses(t *testing.T) {
	root := "../.."
	defined := make(map[string]bool)
	declares := regexp.MustCompile(`(?m)^(?:func|static void|static bool|    def) ([A-Za-z0-9_]+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "build") {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".c", ".cc", ".py":
		case ".go":
			if !strings.HasSuffix(path, "_test.go") {
				return nil
			}
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declares.FindAllSubmatch(text, -1) {
			defined[string(m[1])] = true
		}
		if filepath.Base(filepath.Dir(path)) == "ctest" {
			defined[strings.TrimSuffix(d.Name(), filepath.Ext(path))] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(root + "/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## What holds which weakness\n")
	table, _, _ = strings.Cut(table, "\n## ")
	tests := regexp.MustCompile("`((?:Test|Fuzz|Benchmark|test_|fuzz_)[A-Za-z0-9_]*)`")
	ids := regexp.MustCompile(`\b[A-D][0-9]+\b`)
	rows := 0
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], " ---") || cells[1] == " weakness " {
			continue
		}
		rows++
		named := tests.FindAllStringSubmatch(cells[2], -1)
		inScenarios := strings.Contains(cells[2], "scenarios")
		if len(named) == 0 && !inScenarios {
			t.Errorf("no test holds %q", strings.TrimSpace(cells[1]))
		}
		for _, id := range ids.FindAllString(cells[1], -1) {
			if inScenarios && !slices.ContainsFunc(testkit.Scenarios(), func(s testkit.Scenario) bool { return slices.Contains(strings.Fields(s.Shows), id) }) {
				t.Errorf("no scenario shows %s", id)
			}
		}
		for _, m := range named {
			if !defined[m[1]] {
				t.Errorf("%s: there is no test %s", strings.TrimSpace(cells[1]), m[1])
			}
		}
	}
	if rows < 40 {
		t.Errorf("the table has %d rows: it was not found", rows)
	}
}
