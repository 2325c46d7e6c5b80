package lang

import (
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
)

// The one canonical form. A statement is one line where it fits; a long condition breaks before its
// outermost and / or; a block has one setting a line; lines that go on are indented by four. Comments stay
// where they are: a statement with comments inside keeps its lines. One blank line at most.

const (
	lineLimit = 110 // characters of a statement that stays on one line
	indent    = "    "
)

// Format returns the canonical form of a text. Where the text has mistakes of syntax it is returned as it
// is, with them.
func Format(name, text string) (string, *Diagnostics) {
	l := newLoader(nil)
	f := newFile(name, text, 0)
	l.files[name] = f
	if pos, ok := f.clean(); !ok {
		l.errorf(pos, 1, codeCharacter, "save the file as UTF-8 without control characters", "the file is not plain text")
		return text, &l.out
	}
	f.tokens = tokenize(name, f.text)
	pieces := f.split()
	for _, p := range pieces {
		l.parse(f, f.code(p))
	}
	if l.out.Errors() > 0 {
		l.out.sort()
		return text, &l.out
	}
	p := &printer{f: f}
	next := 0
	for _, piece := range pieces {
		for ; next < piece.from; next++ {
			p.comment(f.tokens[next])
		}
		p.statement(piece)
		next = piece.to
	}
	for ; next < len(f.tokens); next++ {
		p.comment(f.tokens[next])
	}
	if len(p.out) > 0 {
		p.out = append(p.out, "")
	}
	return strings.Join(p.out, "\n"), &l.out
}

type printer struct {
	f    *file
	out  []string
	last int // source line of the last thing printed
}

// gap keeps one blank line where there were any before source line n.
func (p *printer) gap(n int) {
	if p.last > 0 && n > p.last+1 {
		p.out = append(p.out, "")
	}
}

// comment prints one that is in no statement: behind the statement above if it was there.
func (p *printer) comment(t lexer.Token) {
	text := strings.TrimRight(t.Value, " \t")
	if t.Pos.Line == p.last {
		p.out[len(p.out)-1] += "  " + text
		return
	}
	p.gap(t.Pos.Line)
	p.out = append(p.out, text)
	p.last = t.Pos.Line
}

func (p *printer) statement(piece piece) {
	tokens := p.f.tokens[piece.from:piece.to]
	p.gap(tokens[0].Pos.Line)
	p.last = tokens[len(tokens)-1].Pos.Line
	inner := false
	for _, t := range tokens {
		inner = inner || t.Type == tokenComment
	}
	text := ""
	switch {
	case tokens[0].Value == "device" || tokens[0].Value == "solver":
		text = block(tokens)
	case inner:
		text = asWritten(tokens)
	default:
		if text = oneLine(tokens); utf8.RuneCountInString(text) > lineLimit {
			text = broken(tokens)
		}
	}
	p.out = append(p.out, text)
}

// oneLine is the canonical text of a statement on one line; tokens have no comments.
func oneLine(tokens []lexer.Token) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 && spaced(tokens[i-1], t) {
			b.WriteByte(' ')
		}
		b.WriteString(t.Value)
	}
	return b.String()
}

// spaced reports whether a space stands between two tokens of a line.
func spaced(a, b lexer.Token) bool {
	switch {
	case a.Type == tokenOp && (a.Value == "(" || a.Value == ".."), b.Type == tokenOp && (b.Value == ")" || b.Value == "," || b.Value == ".."):
		return false
	}
	return true
}

// broken is a long statement: lines break before and / or outside brackets.
func broken(tokens []lexer.Token) string {
	var b strings.Builder
	depth := 0
	for i, t := range tokens {
		switch {
		case t.Type == tokenOp && t.Value == "(":
			depth++
		case t.Type == tokenOp && t.Value == ")":
			depth--
		}
		switch {
		case i == 0:
		case depth == 0 && t.Type == tokenKeyword && (t.Value == "and" || t.Value == "or"):
			b.WriteString("\n" + indent)
		case i > 0 && tokens[i-1].Type == tokenKeyword && tokens[i-1].Value == "where":
			b.WriteString("\n" + indent)
		case spaced(tokens[i-1], t):
			b.WriteByte(' ')
		}
		b.WriteString(t.Value)
	}
	return b.String()
}

// asWritten keeps the lines of a statement that has comments inside.
func asWritten(tokens []lexer.Token) string {
	var b strings.Builder
	for i, t := range tokens {
		switch {
		case i == 0:
		case t.Pos.Line > tokens[i-1].Pos.Line:
			b.WriteString("\n" + indent)
		case t.Type == tokenComment:
			b.WriteString("  ")
		case spaced(tokens[i-1], t):
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimRight(t.Value, " \t"))
	}
	return b.String()
}

// block is a device or solver block: one setting a line.
func block(tokens []lexer.Token) string {
	var b strings.Builder
	words := 0 // of the setting so far: name, value, for, label
	for i, t := range tokens {
		comment, brace := t.Type == tokenComment, t.Value == "{" || t.Value == "}"
		starts := false // a setting
		if !comment && !brace && i > 0 {
			if words == 4 || words == 2 && t.Value != "for" {
				words = 0
			}
			starts = words == 0
			words++
		}
		switch {
		case i == 0:
		case t.Value == "}":
			b.WriteByte('\n')
		case starts, comment && t.Pos.Line > tokens[i-1].Pos.Line, tokens[i-1].Type == tokenComment:
			b.WriteString("\n" + indent)
		case comment:
			b.WriteString("  ")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimRight(t.Value, " \t"))
	}
	return b.String()
}
