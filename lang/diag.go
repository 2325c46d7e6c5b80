package lang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"stweaver/ir"
)

// Diagnostic is one thing to say about a rules file.
type Diagnostic struct {
	Code    string   `json:"code"` // R and three digits; stable, see codes
	Warning bool     `json:"warning"`
	At      ir.Place `json:"-"`
	File    string   `json:"file"`
	Line    int      `json:"line"`
	Column  int      `json:"column"`
	Message string   `json:"message"`
	Help    string   `json:"help"`    // what to write instead; "" where nothing can be said
	Excerpt string   `json:"excerpt"` // the line it is about; "" where there is none
	width   int      // characters underlined
}

// The codes. A number is never given a second meaning.
const (
	codeSyntax        = "R001"
	codeStatement     = "R002"
	codeCharacter     = "R003"
	codeUnclosedText  = "R004"
	codeBrackets      = "R005"
	codeNested        = "R006"
	codeRead          = "R010"
	codeCycle         = "R011"
	codeDepth         = "R012"
	codeTooLarge      = "R013"
	codeUnknownName   = "R020"
	codeTwice         = "R021"
	codeNotYet        = "R022"
	codeField         = "R023"
	codeWord          = "R024"
	codeReserved      = "R025"
	codeUnit          = "R030"
	codeRange         = "R031"
	codeOperator      = "R032"
	codeUpsideDown    = "R033"
	codeRegexp        = "R034"
	codeValue         = "R035"
	codeUnaligned     = "R036"
	codeSetTwice      = "R040"
	codeHeadroom      = "R041"
	codeContradiction = "R042"
	codeMissing       = "R043"
	codeUnused        = "R044"
)

// Codes lists every code with what it means, in order.
var Codes = []struct{ Code, Meaning string }{
	{codeSyntax, "something else is expected here"},
	{codeStatement, "no statement begins with this"},
	{codeCharacter, "not a character of the language"},
	{codeUnclosedText, "a text or regular expression does not end on its line"},
	{codeBrackets, "a bracket without its other half"},
	{codeNested, "conditions nested too deeply"},
	{codeRead, "a file that cannot be read"},
	{codeCycle, "a file that includes itself"},
	{codeDepth, "includes nested too deeply, or too many of them"},
	{codeTooLarge, "a file that is too large"},
	{codeUnknownName, "no selection of that name"},
	{codeTwice, "a second selection of that name"},
	{codeNotYet, "a selection that is defined further down"},
	{codeField, "no such property of a request"},
	{codeWord, "a word that means nothing here"},
	{codeReserved, "a name that is taken by the language"},
	{codeUnit, "a number without its unit, or with another"},
	{codeRange, "a number out of range"},
	{codeOperator, "a comparison that cannot be made of this"},
	{codeUpsideDown, "a range whose end is below its beginning"},
	{codeRegexp, "a regular expression that does not compile"},
	{codeValue, "another kind of value is wanted"},
	{codeUnaligned, "a size or address that no planned request can have"},
	{codeSetTwice, "set a second time"},
	{codeHeadroom, "the headroom leaves nothing of the capacity"},
	{codeContradiction, "two rules that exclude each other"},
	{codeMissing, "something that the statement needs is missing"},
	{codeUnused, "a selection that nothing uses"},
}

// maxDiagnostics is how many are kept of one load; the rest is counted.
const maxDiagnostics = 100

// Diagnostics are what a load has to say, ordered by place.
type Diagnostics struct {
	List []Diagnostic
	More int // further errors that were not kept
}

// Errors counts those that are not warnings, the ones not kept included.
func (d *Diagnostics) Errors() int {
	n := d.More
	for i := range d.List {
		if !d.List[i].Warning {
			n++
		}
	}
	return n
}

// Tally is how many errors there are, in words.
func (d *Diagnostics) Tally() string {
	if n := d.Errors(); n != 1 {
		return fmt.Sprintf("%d errors in the rules", n)
	}
	return "1 error in the rules"
}

// Err is nil where there are warnings at most.
func (d *Diagnostics) Err() error {
	if d.Errors() == 0 {
		return nil
	}
	return &Error{*d}
}

// Error says that rules cannot be used.
type Error struct{ Diagnostics Diagnostics }

func (e *Error) Error() string {
	for i := range e.Diagnostics.List {
		if d := &e.Diagnostics.List[i]; !d.Warning {
			return fmt.Sprintf("%s: %s: %s (%s)", d.where(), d.Code, d.Message, e.Diagnostics.Tally())
		}
	}
	return "the rules have errors"
}

// where is the place, or the file alone where that is what is wrong.
func (d *Diagnostic) where() string {
	if d.At.Line == 0 {
		return d.At.File
	}
	return fmt.Sprint(d.At)
}

// String is the diagnostic for people, in two to four lines:
//
//	train.rules:3:26: R030: 20MB is not a size
//	    select big where size >= 20MB
//	                             ^~~~
//	    write 20MiB; units are binary
func (d *Diagnostic) String() string {
	var b strings.Builder
	level := ""
	if d.Warning {
		level = "warning: "
	}
	fmt.Fprintf(&b, "%s: %s%s: %s\n", d.where(), level, d.Code, d.Message)
	if d.Excerpt != "" {
		line, caret := excerpt(d.Excerpt, d.At.Column, d.width)
		fmt.Fprintf(&b, "    %s\n    %s\n", line, caret)
	}
	if d.Help != "" {
		fmt.Fprintf(&b, "    %s\n", d.Help)
	}
	return b.String()
}

// String is all of them for people.
func (d *Diagnostics) String() string {
	var b strings.Builder
	for i := range d.List {
		b.WriteString(d.List[i].String())
	}
	if d.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", d.More)
	}
	return b.String()
}

// sort orders by place; what was found first stays first at one place.
func (d *Diagnostics) sort() {
	slices.SortStableFunc(d.List, func(a, b Diagnostic) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Code, b.Code))
	})
}

// maxExcerpt is how many characters of a line are shown.
const maxExcerpt = 100

// excerpt is the line and, below it, the mark under width characters from column (from 1).
func excerpt(line string, column, width int) (string, string) {
	runes := []rune(line)
	from := 0
	cut := func(r []rune) []rune { return r[:min(len(r), maxExcerpt)] }
	if column > maxExcerpt*3/4 {
		from = column - maxExcerpt*3/4
	}
	from = min(from, len(runes))
	shown := cut(runes[from:])
	var pad strings.Builder
	for i := from; i < column-1; i++ {
		switch {
		case i < len(runes) && runes[i] == '\t':
			pad.WriteByte('\t')
		case i < len(runes) && wide(runes[i]):
			pad.WriteString("  ")
		default:
			pad.WriteByte(' ')
		}
	}
	under := 0
	for i := column - 1; i < column-1+width; i++ {
		under++
		if i < len(runes) && wide(runes[i]) {
			under++
		}
	}
	under = min(max(under, 1), maxExcerpt)
	return string(shown), pad.String() + "^" + strings.Repeat("~", under-1)
}

// wide reports whether a terminal gives r two columns.
func wide(r rune) bool {
	return r >= 0x1100 && (r <= 0x115f || 0x2e80 <= r && r <= 0xa4cf || 0xac00 <= r && r <= 0xd7a3 || 0xf900 <= r && r <= 0xfaff ||
		0xfe30 <= r && r <= 0xfe6f || 0xff00 <= r && r <= 0xff60 || 0xffe0 <= r && r <= 0xffe6 || 0x1f300 <= r && r <= 0x1faff || 0x20000 <= r && r <= 0x3fffd)
}

// quote puts a word of the file into a message, shortened.
func quote(s string) string {
	if utf8.RuneCountInString(s) > 40 {
		s = string([]rune(s)[:40]) + "…"
	}
	return "`" + s + "`"
}

// nearest is the word of a list that s may have been meant to be; "" where none is near.
func nearest(s string, words []string) string {
	best, dist := "", max(len(s)/3, 1)+1
	for _, w := range words {
		if d := distance(strings.ToLower(s), strings.ToLower(w), dist); d < dist {
			best, dist = w, d
		}
	}
	return best
}

// distance counts the insertions, deletions, changes and swaps of neighbours between a and b; limit or
// more is limit.
func distance(a, b string, limit int) int {
	const most = 64
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) >= most || len(b) >= most {
		return limit
	}
	var rows [3][most]int // of i, i-1 and i-2 bytes of a
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		now, last, before := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
	}
	return min(rows[len(a)%3][len(b)], limit)
}

// oneOf is a list of words for a message: "a, b or c".
func oneOf(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
}

// didYouMean is the help for a word that is not in the list.
func didYouMean(s string, words []string) string {
	if w := nearest(s, words); w != "" {
		return "did you mean " + w + "?"
	}
	if len(words) > 12 {
		return ""
	}
	return "there are " + oneOf(words)
}
