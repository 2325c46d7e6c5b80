package lang

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"stweaver/ir"
)

// Numbers and their units. Sizes are binary; a rate is written 95%, a factor 1.2x, a count without unit.

// sizeUnits are the units of sizes, with their bytes.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50}}

// decimalUnits are units that people write and that mean something else.
var decimalUnits = map[string]float64{"k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "t": 1e12, "tb": 1e12}

// digits splits a number from its unit.
func digits(text string) (value, unit string) {
	i := 0
	for i < len(text) && ('0' <= text[i] && text[i] <= '9' || text[i] == '_' || text[i] == '.') {
		i++
	}
	return strings.ReplaceAll(text[:i], "_", ""), text[i:]
}

func (l *loader) numberError(n *number, code, help, format string, args ...any) {
	l.errorf(n.Pos, utf8.RuneCountInString(n.Text), code, help, "%s", fmt.Sprintf(format, args...))
}

// size is the bytes of a size.
func (l *loader) size(n *number) (int64, bool) {
	value, unit := digits(n.Text)
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		if !strings.Contains(value, ".") {
			v, err := strconv.ParseInt(value, 10, 64)
			if err == nil && v <= int64(ir.MaxSize)/u.bytes {
				return v * u.bytes, true
			}
		} else if v, err := strconv.ParseFloat(value, 64); err == nil && v*float64(u.bytes) <= float64(ir.MaxSize) {
			if u.bytes == 1 {
				l.numberError(n, codeRange, "", "%s is not a whole number of bytes", quote(n.Text))
				return 0, false
			}
			return int64(v * float64(u.bytes)), true
		}
		l.numberError(n, codeRange, "", "%s is more than 1024 PiB", quote(n.Text))
		return 0, false
	}
	l.numberError(n, codeUnit, sizeHelp(value, unit), "%s is no size", quote(n.Text))
	return 0, false
}

// sizeHelp says what to write instead of a size with the wrong unit.
func sizeHelp(value, unit string) string {
	low := strings.ToLower(unit)
	if unit == "" {
		return fmt.Sprintf("give it a unit: %sB, %sKiB, %sMiB or %sGiB", value, value, value, value)
	}
	if bytes, ok := decimalUnits[low]; ok {
		v, _ := strconv.ParseFloat(value, 64)
		u := strings.ToUpper(low[:1]) + "iB"
		return fmt.Sprintf("units are binary: write %s%s, or %s for exactly %s × %.0f bytes", value, u, binary(v*bytes), value, bytes)
	}
	names := make([]string, len(sizeUnits))
	for i, u := range sizeUnits {
		names[i] = u.name
	}
	if w := nearest(unit, names); w != "" && len(unit) > 1 {
		return "write " + value + w
	}
	return "a size is a number with " + oneOf(names)
}

// binary writes bytes with a binary unit.
func binary(v float64) string {
	u := 0
	for v >= 1024 && u < len(sizeUnits)-1 {
		v, u = v/1024, u+1
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + sizeUnits[u].name
}

// count is a number without unit, in [least, most].
func (l *loader) count(n *number, what string, least, most int64) (int64, bool) {
	value, unit := digits(n.Text)
	if unit != "" || strings.Contains(value, ".") {
		whole, _, _ := strings.Cut(value, ".")
		l.numberError(n, codeUnit, "write "+whole, "%s is a count: a whole number without unit", what)
		return 0, false
	}
	v, err := strconv.ParseInt(value, 10, 64)
	if err != nil || v < least || v > most {
		l.numberError(n, codeRange, fmt.Sprintf("it is at least %d and at most %d", least, most), "%s of %s is out of range", what, quote(n.Text))
		return 0, false
	}
	return v, true
}

// rate is a percentage as a number in 0…most, where 1 is 100%.
func (l *loader) rate(n *number, what string, most float64) (float64, bool) {
	value, unit := digits(n.Text)
	v, err := strconv.ParseFloat(value, 64)
	if unit != "%" || err != nil {
		if v > 0 && v < 1 && unit == "" {
			value = strconv.FormatFloat(v*100, 'f', -1, 64)
		}
		l.numberError(n, codeUnit, "write "+value+"%", "%s is a percentage", what)
		return 0, false
	}
	if v/100 > most {
		l.numberError(n, codeRange, fmt.Sprintf("it is at most %g%%", most*100), "%s of %s is out of range", what, quote(n.Text))
		return 0, false
	}
	return v / 100, true
}

// factor is a number with x.
func (l *loader) factor(n *number, what string) (float64, bool) {
	value, unit := digits(n.Text)
	v, err := strconv.ParseFloat(value, 64)
	if unit != "x" || err != nil {
		if unit == "%" {
			value = strconv.FormatFloat(v/100, 'f', -1, 64)
		}
		l.numberError(n, codeUnit, "write "+value+"x", "%s is a factor", what)
		return 0, false
	}
	if v <= 0 || v > 1000 {
		l.numberError(n, codeRange, "it is above 0x and at most 1000x", "%s of %s is out of range", what, quote(n.Text))
		return 0, false
	}
	return v, true
}

// power is a size that is a power of two of at least least bytes.
func (l *loader) power(n *number, what string, least int64) (int64, bool) {
	v, ok := l.size(n)
	if !ok {
		return 0, false
	}
	if v < least || v&(v-1) != 0 || v > 1<<40 {
		near := least
		for near*2 <= v && near < 1<<40 {
			near *= 2
		}
		l.numberError(n, codeRange, "write "+binary(float64(near)), "%s is a power of two of at least %s", what, binary(float64(least)))
		return 0, false
	}
	return v, true
}

// maxPattern is the longest text that names are compared with. It bounds what a glob compiles to.
const maxPattern = 1000

// pattern is a text as something to compare names with.
func (l *loader) pattern(t *text, op string) (ir.Pattern, bool) {
	p := ir.Pattern{Text: unquote(t.Text), How: ir.Glob}
	n := utf8.RuneCountInString(t.Text)
	switch {
	case len(p.Text) > maxPattern:
		l.errorf(t.Pos, n, codeRange, "", "a text to compare names with has at most %d characters", maxPattern)
		return p, false
	case p.Text == "":
		l.errorf(t.Pos, n, codeValue, `write "*" for any name`, "an empty text matches nothing")
		return p, false
	case t.Text[0] == '/':
		p.How = ir.Regexp
		if op != "~" && op != "!~" {
			l.errorf(t.Pos, n, codeOperator, "write ~ or !~", "a regular expression is compared by ~, not by %s", op)
			return p, false
		}
		if _, err := regexp.Compile(p.Text); err != nil {
			l.errorf(t.Pos, n, codeRegexp, "the syntax is that of Go, without look-around", "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
			return p, false
		}
	case op == "=" || op == "!=" || op == "in":
		p.How = ir.Exact
	}
	return p, true
}
