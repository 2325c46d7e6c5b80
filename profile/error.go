package profile

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Error says why a profile could not be read, where, and what would help.
type Error struct {
	Path   string // as given to Read or ReadFile; "-" is standard input
	Format string // reader that gave up; "" when no reader took the file
	Offset int64  // bytes into the unwrapped content, -1 where it means nothing
	Line   int    // 1-based; 0 for formats without lines
	Msg    string // what is wrong
	Hint   string // what to do about it; may be empty
	err    error  // cause, for errors.Is
}

// Error returns "path: format: line 12: what is wrong (what to do)".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Format != "" {
		b.WriteString(": " + e.Format)
	}
	switch {
	case e.Line > 0:
		fmt.Fprintf(&b, ": line %d", e.Line)
	case e.Offset >= 0:
		fmt.Fprintf(&b, ": offset %d", e.Offset)
	}
	b.WriteString(": " + e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap returns the error that caused this one, if another did.
func (e *Error) Unwrap() error { return e.err }

// fault starts an Error without a place.
func fault(format string, args ...any) *Error {
	return &Error{Offset: -1, Msg: fmt.Sprintf(format, args...)}
}

func (e *Error) at(offset int64) *Error     { e.Offset = offset; return e }
func (e *Error) line(n int) *Error          { e.Line = n; return e }
func (e *Error) hint(text string) *Error    { e.Hint = text; return e }
func (e *Error) because(cause error) *Error { e.err = cause; return e }

// readFault words an error of the underlying reader.
func readFault(err error, offset int64) *Error {
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fault("the file ends in the middle").at(offset).because(io.ErrUnexpectedEOF).
			hint("it was cut short: copy or record it again")
	}
	return fault("%v", err).at(offset).because(err)
}

// complete fills in what only the caller of a reader knows.
func complete(err error, path, format string) error {
	var e *Error
	if !errors.As(err, &e) {
		e = fault("%v", err).because(err)
	}
	e.Path = path
	if e.Format == "" {
		e.Format = format
	}
	return e
}
