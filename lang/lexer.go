package lang

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
)

// The lexer. It never fails: what is no token of the language is one of type tokenBad, and is reported
// where the statement that holds it is parsed.

// Token types. Keywords begin statements or join conditions, and are nobody's name.
const (
	tokenKeyword lexer.TokenType = iota + 1
	tokenIdent
	tokenNumber  // with its unit: 20MiB, 1.2x, 95%, 16
	tokenString  // "…", where \" and \\ stand for " and \
	tokenRegexp  // /…/, where \/ stands for /
	tokenOp      // = != < <= > >= ~ !~ .. ( ) { } ,
	tokenComment // # to the end of the line
	tokenBad
)

// statementWords begin a statement.
var statementWords = []string{
	"include", "device", "select", "pin", "arena", "together", "apart", "keep", "share", "separate",
	"treat", "reserve", "guard", "expect", "solver", "step",
}

// joinWords join what stands in one condition.
var joinWords = []string{"where", "and", "or", "not"}

var keywords = wordSet(statementWords, joinWords)

func wordSet(lists ...[]string) map[string]bool {
	set := make(map[string]bool)
	for _, list := range lists {
		for _, w := range list {
			set[w] = true
		}
	}
	return set
}

// definition is the lexer as participle wants to see it.
type definition struct{}

func (definition) Symbols() map[string]lexer.TokenType {
	return map[string]lexer.TokenType{
		"EOF": lexer.EOF, "Keyword": tokenKeyword, "Name": tokenIdent, "Number": tokenNumber, "String": tokenString,
		"Regexp": tokenRegexp, "Op": tokenOp, "Comment": tokenComment, "Bad": tokenBad,
	}
}

func (definition) Lex(name string, r io.Reader) (lexer.Lexer, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	tokens := &tokenList{tokens: tokenize(name, string(text))}
	return tokens, nil
}

// tokenList hands out tokens that were made before.
type tokenList struct {
	tokens []lexer.Token
	end    lexer.Position
}

func (l *tokenList) Next() (lexer.Token, error) {
	if len(l.tokens) == 0 {
		return lexer.EOFToken(l.end), nil
	}
	t := l.tokens[0]
	l.tokens = l.tokens[1:]
	l.end = after(t)
	return t, nil
}

// after is the position behind a token.
func after(t lexer.Token) lexer.Position {
	p := t.Pos
	p.Column += utf8.RuneCountInString(t.Value)
	p.Offset += len(t.Value)
	return p
}

// scanner walks over a text, which is valid UTF-8.
type scanner struct {
	text   string
	at     int // offset
	end    int // offset of the end of the line
	line   int
	column int // of at, in characters, from 1
}

// tokenize cuts text into tokens, comments included.
func tokenize(name, text string) []lexer.Token {
	s := &scanner{text: text, line: 1, column: 1}
	s.end = s.lineEnd()
	tokens := make([]lexer.Token, 0, len(text)/6+1)
	for s.at < len(text) {
		c := text[s.at]
		if c == '\n' {
			s.at++
			s.line, s.column, s.end = s.line+1, 1, s.lineEnd()
			continue
		}
		if c == ' ' || c == '\t' || c == '\r' {
			s.at++
			s.column++
			continue
		}
		kind, n := token(text[s.at:s.end])
		value := text[s.at : s.at+n]
		pos := lexer.Position{Filename: name, Offset: s.at, Line: s.line, Column: s.column}
		tokens = append(tokens, lexer.Token{Type: kind, Value: strings.TrimRight(value, "\r"), Pos: pos})
		s.at += n
		s.column += utf8.RuneCountInString(value)
	}
	return tokens
}

// lineEnd is where the line ends that at lies in.
func (s *scanner) lineEnd() int {
	if i := strings.IndexByte(s.text[s.at:], '\n'); i >= 0 {
		return s.at + i
	}
	return len(s.text)
}

// token tells what the rest of a line begins with, and how many bytes it takes.
func token(line string) (lexer.TokenType, int) {
	switch c := line[0]; {
	case c == '#':
		return tokenComment, len(line)
	case c == '"' || c == '/':
		if n := quoted(line); n > 0 {
			if c == '"' {
				return tokenString, n
			}
			return tokenRegexp, n
		}
		return tokenBad, len(strings.TrimRight(line, "\r "))
	case '0' <= c && c <= '9':
		return tokenNumber, scanNumber(line)
	case isLetter(c):
		n := 1
		for n < len(line) && (isLetter(line[n]) || '0' <= line[n] && line[n] <= '9') {
			n++
		}
		if keywords[line[:n]] {
			return tokenKeyword, n
		}
		return tokenIdent, n
	}
	for _, op := range [...]string{"!=", "<=", ">=", "!~", "..", "=", "<", ">", "~", "(", ")", "{", "}", ","} {
		if strings.HasPrefix(line, op) {
			return tokenOp, len(op)
		}
	}
	r, n := utf8.DecodeRuneInString(line)
	for unicode.IsLetter(r) { // a word in other letters is one mistake
		next, size := utf8.DecodeRuneInString(line[n:])
		if !unicode.IsLetter(next) {
			break
		}
		n += size
	}
	return tokenBad, n
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

// quoted is the length of the text in quotes that line begins with; 0 where it does not end.
func quoted(line string) int {
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case line[0]:
			return i + 1
		}
	}
	return 0
}

// scanNumber is the length of the number that line begins with, its unit included. A ".." ends it.
func scanNumber(line string) int {
	n := 0
	digits := func() {
		for n < len(line) && ('0' <= line[n] && line[n] <= '9' || line[n] == '_') {
			n++
		}
	}
	digits()
	if n+1 < len(line) && line[n] == '.' && '0' <= line[n+1] && line[n+1] <= '9' {
		n++
		digits()
	}
	for n < len(line) && (isLetter(line[n]) || line[n] == '%' || '0' <= line[n] && line[n] <= '9') {
		n++
	}
	return n
}

// unquote is what a string or regular expression says.
func unquote(t string) string {
	quote, body := t[:1], t[1:len(t)-1]
	if quote == "/" {
		return strings.ReplaceAll(body, `\/`, `/`)
	}
	if !strings.Contains(body, `\`) {
		return body
	}
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		if body[i] == '\\' && i+1 < len(body) && (body[i+1] == '"' || body[i+1] == '\\') {
			i++
		}
		b.WriteByte(body[i])
	}
	return b.String()
}
