package lang

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"stweaver/ir"
)

// Limits of what is read.
const (
	maxIncludes  = 16      // how deep
	maxFiles     = 256     // how many
	maxFileBytes = 4 << 20 // of one file
)

// Program is a set of rules files that was read and checked.
type Program struct {
	Rules  ir.Rules // complete only where there are no errors
	Files  []string // in the order they were read
	Unread bool     // a file that Load was asked for could not be read: R010 or R013 says which
	Diagnostics
}

// Open reads a file; os.Open is the usual one.
type Open func(path string) (io.ReadCloser, error)

// OpenFile opens a file of the system.
func OpenFile(path string) (io.ReadCloser, error) { return os.Open(path) }

// Load reads rules files, and what they include, as one program: the files in order, each include in its
// place, each file once. It always returns a program; whether it can be used says its Err.
func Load(open Open, paths ...string) *Program {
	l := newLoader(open)
	for _, path := range paths {
		l.include(path, lexer.Position{Filename: path}, 0, 0)
	}
	return l.finish()
}

// Parse checks the text of one file, which may include nothing that open does not give; nil gives nothing.
func Parse(name, text string, open Open) *Program {
	if open == nil {
		open = func(path string) (io.ReadCloser, error) { return nil, fmt.Errorf("no file can be included here") }
	}
	l := newLoader(open)
	l.source(newFile(name, text, 0))
	return l.finish()
}

func newLoader(open Open) *loader {
	return &loader{open: open, files: make(map[string]*file), program: &Program{},
		checker: checker{names: make(map[string]*named), set: make(map[string]settingAt), headroom: make(map[string]int64)}}
}

// loader is one load under way.
type loader struct {
	open    Open
	files   map[string]*file
	stack   []string // files being read
	out     Diagnostics
	program *Program
	checker
}

// include reads a file in place. at is where it is named, and width how wide that is: 0 on the command line.
func (l *loader) include(path string, at lexer.Position, width, depth int) {
	path = filepath.Clean(path)
	for i, name := range l.stack {
		if name == path {
			l.errorf(at, width, codeCycle, "", "%s includes itself: %s", filepath.Base(path), strings.Join(append(l.stack[i:], path), " → "))
			return
		}
	}
	if l.files[path] != nil {
		return // once is enough
	}
	if depth > maxIncludes || len(l.files) >= maxFiles {
		l.errorf(at, width, codeDepth, "", "more than %d includes deep, or more than %d files", maxIncludes, maxFiles)
		return
	}
	text, err := l.read(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		code, help := codeRead, ""
		l.program.Unread = l.program.Unread || width == 0
		if errors.Is(err, errTooLarge) {
			code = codeTooLarge
		} else if width > 0 {
			help = "the path is relative to the folder of the file that includes it"
		}
		l.errorf(at, width, code, help, "%s: %v", path, err)
		return
	}
	l.source(newFile(path, text, depth))
}

var errTooLarge = fmt.Errorf("larger than %d MiB", maxFileBytes>>20)

func (l *loader) read(path string) (string, error) {
	r, err := l.open(path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = errTooLarge
	}
	return string(text), err
}

// source parses and checks one file, statement by statement.
func (l *loader) source(f *file) {
	l.files[f.name] = f
	l.program.Files = append(l.program.Files, f.name)
	l.stack = append(l.stack, f.name)
	defer func() { l.stack = l.stack[:len(l.stack)-1] }()
	if pos, ok := f.clean(); !ok {
		l.errorf(pos, 1, codeCharacter, "save the file as UTF-8 without control characters", "the file is not plain text")
		return
	}
	f.tokens = tokenize(f.name, f.text)
	for _, p := range f.split() {
		tokens := f.code(p)
		node := l.parse(f, tokens)
		if node == nil {
			l.broken(tokens)
			continue
		}
		if node.Include != nil {
			l.includeStmt(f, node.Include)
			continue
		}
		l.check(f, node, oneLine(tokens))
	}
}

func (l *loader) includeStmt(f *file, n *includeStmt) {
	w := lexer.Token{Value: n.Path.Text, Pos: n.Path.Pos}
	path := unquote(n.Path.Text)
	if n.Path.Text[0] == '/' || path == "" {
		l.errorf(w.Pos, width(w), codeValue, "write: "+forms["include"], "%s is no file name", quote(n.Path.Text))
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(f.name), path)
	}
	l.include(path, w.Pos, width(w), f.depth+1)
}

// finish closes the load.
func (l *loader) finish() *Program {
	l.closing()
	l.out.sort()
	l.program.Rules = l.rules
	l.program.Diagnostics = l.out
	return l.program
}
