// Package house holds the house rules that can be tested: who may import whom, where cgo
// and heavy libraries live.
package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "stweaver"

// allowed lists, for each package, the packages of ours that its non-test files may import.
var allowed = map[string][]string{
	"ir":                     {},
	"profile":                {"ir"},
	"lang":                   {"ir"},
	"heuristics":             {"ir"},
	"compiler":               {"ir", "lang", "heuristics", "solver", "runtime/model"},
	"solver":                 {"ir", "solver/sat"},
	"solver/sat":             {},
	"simulate":               {"ir"},
	"runtime":                {"runtime/model"},
	"runtime/model":          {},
	"runtime/model/plantest": {"runtime/model", "ir"},
	"internal/testkit":       {"ir"},
	"internal/house":         {},
	"internal/survey":        {"compiler", "heuristics", "ir", "profile"},
	"cmd/stweaver":           {"compiler", "heuristics", "ir", "lang", "profile", "runtime", "runtime/model", "simulate"},
}

// only lists imports that a single place may have, tests included.
var only = map[string][]string{
	"C":                                         {"runtime"},
	"github.com/NVIDIA/go-nvml/pkg/nvml":        {"cmd/stweaver"},
	"github.com/go-air/gini":                    {"solver/sat"},
	"github.com/alecthomas/participle/v2":       {"lang"},
	"github.com/alecthomas/participle/v2/lexer": {"lang"},
}

// stdOnly are packages whose non-test files import nothing but the standard library.
var stdOnly = []string{"ir", "runtime/model"}

// TestImports holds the import table of DESIGN.md.
func TestImports(t *testing.T) {
	root := "../.."
	seen := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "build") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		seen[pkg] = true
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, path, pkg, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("the import table has %s, which is not there", pkg)
		}
	}
}

func checkImport(t *testing.T, path, pkg, name string) {
	if places, ok := only[name]; ok && !slices.Contains(places, pkg) {
		t.Errorf("%s imports %s: only %v may", path, name, places)
	}
	if strings.HasSuffix(path, "_test.go") {
		return
	}
	ours, isOurs := strings.CutPrefix(name, module+"/")
	list, known := allowed[pkg]
	switch {
	case !known:
		t.Errorf("%s: package %s is not in the import table", path, pkg)
	case isOurs && !slices.Contains(list, ours):
		t.Errorf("%s: %s may not import %s", path, pkg, ours)
	case !isOurs && strings.Contains(name, ".") && slices.Contains(stdOnly, pkg):
		t.Errorf("%s: %s imports only the standard library, not %s", path, pkg, name)
	}
}
