package profile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// maxLine is the longest line accepted, in bytes.
const maxLine = 64 << 10

// lines reads text line by line.
type lines struct {
	r *bufio.Reader
	n int // number of the line last read, from 1
}

// next returns the next line that is not blank, without surrounding white space; good
// until the next call. At the end it returns io.EOF.
func (l *lines) next() ([]byte, error) {
	for {
		b, err := l.r.ReadSlice('\n')
		if len(b) > 0 {
			l.n++
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull), len(b) > maxLine:
			return nil, fault("longer than %d KiB", maxLine>>10).line(l.n).hint("this is no text profile")
		case err != nil && !errors.Is(err, io.EOF):
			return nil, readFault(err, -1).line(l.n)
		case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
			return nil, fault("not text").line(l.n).hint("the file is damaged, or no text profile")
		}
		if l.n == 1 {
			b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
		}
		if b = bytes.TrimSpace(b); len(b) > 0 {
			return b, nil
		}
		if err != nil {
			return nil, io.EOF
		}
	}
}

// headLines calls f for the whole lines of head that are not blank, until it returns false.
func headLines(head []byte, f func(line []byte) bool) {
	cut := len(head) >= sniffLen // by the sniffer, not by the file
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	for len(head) > 0 {
		line, rest, whole := bytes.Cut(head, []byte("\n"))
		if !whole && cut {
			return
		}
		head = rest
		if line = bytes.TrimSpace(line); len(line) > 0 && !f(line) {
			return
		}
	}
}
