package lang

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"stweaver/ir"
)

// Recovery. A file is cut into statements before any is parsed, so that a mistake in one hides none in
// the others. A line that begins with a statement's word begins a statement; no statement has such a word
// inside. A line that begins with another word does so, too (it is a mistake), unless it is indented
// further than the statement above it, or begins with a bracket, a comma or a word that joins.
//
//	select grads where          |  a statement
//	    kind = carried          |  … goes on
//	keep grads                  a statement
//	kep grads                   a mistake of its own
//
// Inside brackets only a statement's word at the margin cuts: a bracket left open costs one statement.

// file is one source file.
type file struct {
	name  string // as shown
	text  string
	depth int // of includes above it
	// tokens are all of the file, comments included; lines where each line of the text begins.
	tokens []lexer.Token
	lines  []int
}

func newFile(name, text string, depth int) *file {
	f := &file{name: name, text: strings.TrimPrefix(text, "\ufeff"), depth: depth}
	f.lines = []int{0}
	for i := range len(f.text) {
		if f.text[i] == '\n' {
			f.lines = append(f.lines, i+1)
		}
	}
	return f
}

// line is the text of line n, from 1.
func (f *file) line(n int) string {
	if n < 1 || n > len(f.lines) {
		return ""
	}
	rest := f.text[f.lines[n-1]:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return strings.TrimRight(rest, "\r")
}

// clean reports the first character that no file may hold: what is not UTF-8, and control characters
// (they could move the reader's cursor).
func (f *file) clean() (lexer.Position, bool) {
	for i, r := range f.text {
		bad := r < ' ' && r != '\t' && r != '\n' && r != '\r' || 0x7f <= r && r < 0xa0 || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
		if r == utf8.RuneError {
			_, n := utf8.DecodeRuneInString(f.text[i:])
			bad = n == 1
		}
		if bad {
			n, found := slices.BinarySearch(f.lines, i)
			if !found {
				n--
			}
			return lexer.Position{Filename: f.name, Offset: i, Line: n + 1, Column: utf8.RuneCountInString(f.text[f.lines[n]:i]) + 1}, false
		}
	}
	return lexer.Position{}, true
}

// piece is the tokens of one statement: file.tokens[from:to], comments inside it included.
type piece struct{ from, to int }

// split cuts the file's tokens into statements. Comments between statements belong to none.
func (f *file) split() []piece {
	var pieces []piece
	var margin, depth, line int
	for i, t := range f.tokens {
		if t.Type == tokenComment {
			continue
		}
		first := t.Pos.Line > line
		line = t.Pos.Line
		if len(pieces) == 0 || first && begins(t, depth, t.Pos.Column <= margin) {
			pieces = append(pieces, piece{from: i})
			margin, depth = t.Pos.Column, 0
		}
		pieces[len(pieces)-1].to = i + 1
		switch t.Value {
		case "(", "{":
			depth++
		case ")", "}":
			depth--
		}
	}
	return pieces
}

// begins reports whether t, the first of its line, begins a statement.
func begins(t lexer.Token, depth int, atMargin bool) bool {
	switch {
	case t.Type == tokenKeyword:
		return !slices.Contains(joinWords, t.Value) && (depth <= 0 || atMargin)
	case t.Type == tokenOp:
		return false
	}
	return depth <= 0 && atMargin
}

// code returns the tokens of p that are not comments.
func (f *file) code(p piece) []lexer.Token {
	tokens := f.tokens[p.from:p.to]
	if !slices.ContainsFunc(tokens, func(t lexer.Token) bool { return t.Type == tokenComment }) {
		return tokens
	}
	return slices.DeleteFunc(slices.Clone(tokens), func(t lexer.Token) bool { return t.Type == tokenComment })
}

// forms is what each statement looks like, for messages.
var forms = map[string]string{
	"include":  `include "base.rules"`,
	"device":   `device { capacity 80GiB  headroom 2GiB for nccl  granularity 2MiB  alignment 512B }`,
	"select":   `select NAME where CONDITION, e.g. select big where size >= 64MiB and kind = carried`,
	"pin":      `pin NAME at 0B, or pin NAME within 0B..20GiB`,
	"arena":    `arena NAME max 8GiB piece 1GiB; both limits may be left out`,
	"together": `together NAME`,
	"apart":    `apart NAME, or apart NAME, NAME`,
	"keep":     `keep NAME`,
	"share":    `share streams 0, 1 age 64; without numbers all streams`,
	"separate": `separate streams 0, 1; without numbers all streams`,
	"treat":    `treat NAME as dynamic, static, persistent or ignore`,
	"reserve":  `reserve dynamic quantile 50% headroom 1.1x cap 8GiB`,
	"guard":    `guard 16 ticks, or guard NAME 16 ticks`,
	"expect":   `expect peak <= 70GiB, gap <= 1%, dynamic <= 5% or hits >= 99%`,
	"solver":   `solver { effort max  exact 200000  seed 7 }`,
	"step":     `step at 100, 2100, 4100, or step every 2000 from 100, or step where CONDITION`,
}

// maxDepth is how deep brackets may nest. It bounds what the parser recurses into.
const maxDepth = 64

// parse returns the tree of a statement; nil where it has mistakes, which are reported.
func (l *loader) parse(f *file, tokens []lexer.Token) *statement {
	head := tokens[0]
	if head.Type != tokenKeyword || slices.Contains(joinWords, head.Value) {
		if head.Type == tokenBad {
			l.badToken(head)
			return nil
		}
		help := didYouMean(head.Value, statementWords)
		if help == "" {
			help = "a line that goes on with the statement above it is indented"
		}
		l.errorf(head.Pos, width(head), codeStatement, help, "%s begins no statement", quote(head.Value))
		return nil
	}
	if !l.brackets(tokens) {
		return nil
	}
	node, err := parseStatement(tokens)
	if err == nil {
		return node
	}
	var unexpected *participle.UnexpectedTokenError
	if !errors.As(err, &unexpected) {
		l.errorf(head.Pos, width(head), codeSyntax, "", "%v", err)
		return nil
	}
	t := unexpected.Unexpected
	if t.Type == tokenBad {
		l.badToken(t)
		return nil
	}
	_, expected, _ := strings.Cut(unexpected.Message(), " (expected ")
	want := firsts(strings.TrimSuffix(expected, ")"))
	help := "write: " + forms[head.Value]
	switch {
	case t.EOF():
		last := tokens[len(tokens)-1]
		if want != "" {
			want = ": " + want + " is missing"
		}
		l.errorf(after(last), 1, codeSyntax, help, "the statement ends too early%s", want)
	case t.Type == tokenKeyword:
		l.errorf(t.Pos, width(t), codeReserved, help, "%s is a word of the language and cannot stand here", quote(t.Value))
	case want == "":
		l.errorf(t.Pos, width(t), codeSyntax, help, "%s is more than the statement takes", quote(t.Value))
	default:
		l.errorf(t.Pos, width(t), codeSyntax, help, "%s where %s is expected", quote(t.Value), want)
	}
	return nil
}

// brackets reports halves of brackets and nesting that is too deep.
func (l *loader) brackets(tokens []lexer.Token) bool {
	var open []lexer.Token
	partner := map[string]string{")": "(", "}": "{"}
	for _, t := range tokens {
		if t.Type != tokenOp {
			continue
		}
		switch t.Value {
		case "(", "{":
			if open = append(open, t); len(open) > maxDepth {
				l.errorf(t.Pos, 1, codeNested, "name parts of it with select", "brackets nest more than %d deep", maxDepth)
				return false
			}
		case ")", "}":
			if len(open) == 0 || open[len(open)-1].Value != partner[t.Value] {
				l.errorf(t.Pos, 1, codeBrackets, "", "%s closes nothing", quote(t.Value))
				return false
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t := open[len(open)-1]
		l.errorf(t.Pos, 1, codeBrackets, "lines of a statement are indented further than its first one", "%s is not closed in this statement", quote(t.Value))
		return false
	}
	return true
}

func (l *loader) badToken(t lexer.Token) {
	switch c := t.Value[0]; {
	case c == '"':
		l.errorf(t.Pos, width(t), codeUnclosedText, `end it with " on the same line`, "the text does not end")
	case c == '/':
		l.errorf(t.Pos, width(t), codeUnclosedText, "end it with / on the same line", "the regular expression does not end")
	case c == '\'':
		l.errorf(t.Pos, width(t), codeCharacter, `texts are written in "…"`, "%s is no character of the language", quote(t.Value))
	case c == ';':
		l.errorf(t.Pos, width(t), codeCharacter, "each statement has a line of its own", "%s is no character of the language", quote(t.Value))
	case c == '-':
		l.errorf(t.Pos, width(t), codeCharacter, "names have letters, digits and _; numbers are never negative", "%s is no character of the language", quote(t.Value))
	default:
		l.errorf(t.Pos, width(t), codeCharacter, "names have the letters a to z, digits and _", "%s is no character of the language", quote(t.Value))
	}
}

func width(t lexer.Token) int { return max(utf8.RuneCountInString(t.Value), 1) }

// symbols are productions of the grammar in words.
var symbols = map[string]string{
	"Word": "a name", "Number": "a number", "Text": "a text in quotes", "Target": "a selection", "Condition": "a condition", "Value": "a value",
	"SettingValue": "a value", "Option": "a limit", "Setting": "a setting", "Conjunction": "a condition", "Term": "a condition", "Test": "a condition", "Operator": "a comparison",
}

// firsts puts into words what an EBNF expression may begin with; "" where it says nothing.
func firsts(ebnf string) string {
	var words []string
	var tokens []string
	for rest := strings.TrimSpace(ebnf); rest != ""; rest = strings.TrimLeft(rest, " ") {
		n := 1
		if rest[0] == '"' {
			n += strings.IndexByte(rest[1:], '"') + 1
		} else if i := strings.IndexAny(rest, " ()|"); i != 0 {
			n = i
			if i < 0 {
				n = len(rest)
			}
		}
		tokens, rest = append(tokens, rest[:n]), rest[n:]
	}
	// An alternative is skipped from its first symbol on, brackets inside it included.
	begins, depth, skipped := true, 0, 0
	for _, t := range tokens {
		switch {
		case t == "(":
			if depth++; !begins && skipped == 0 {
				skipped = depth
			}
		case t == ")":
			if depth--; depth < skipped {
				skipped = 0
			}
		case skipped > 0:
		case t == "|":
			begins = true
		case begins:
			begins = false
			name := symbols[strings.TrimRight(t, "?*+")]
			if name == "" {
				name = "`" + strings.Trim(t, `"`) + "`"
			}
			if !slices.Contains(words, name) {
				words = append(words, name)
			}
		}
	}
	return oneOf(words)
}

// errorf reports an error at pos, of width characters.
func (l *loader) errorf(pos lexer.Position, width int, code, help, format string, args ...any) {
	l.report(false, pos, width, code, help, fmt.Sprintf(format, args...))
}

func (l *loader) warnf(pos lexer.Position, width int, code, help, format string, args ...any) {
	l.report(true, pos, width, code, help, fmt.Sprintf(format, args...))
}

func (l *loader) report(warning bool, pos lexer.Position, width int, code, help, message string) {
	if len(l.out.List) == maxDiagnostics {
		if !warning {
			l.out.More++
		}
		return
	}
	d := Diagnostic{Code: code, Warning: warning, At: placeOf(pos), Message: message, Help: help, width: width}
	d.File, d.Line, d.Column = d.At.File, d.At.Line, d.At.Column
	if f := l.files[pos.Filename]; f != nil && pos.Line > 0 {
		d.Excerpt = f.line(pos.Line)
	}
	l.out.List = append(l.out.List, d)
}

func placeOf(p lexer.Position) ir.Place {
	return ir.Place{File: p.Filename, Line: p.Line, Column: p.Column}
}
