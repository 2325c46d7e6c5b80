package profile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"stweaver/ir"
)

// The interval CSV of MiniMalloc: a header, then one request a line.
//
//	id,lower,upper,size
//	b0,0,381,93184        alive in [0, 381)
//
// Columns may come in any order; a column "stream" is understood, others are named in a
// note and left out. Lines of no bytes are skipped.

// sniffCSV accepts text whose first line has commas.
func sniffCSV(head []byte) bool {
	found := false
	headLines(head, func(line []byte) bool {
		found = bytes.Count(line, []byte(",")) >= 2 && bytes.IndexByte(line, 0) < 0
		return false
	})
	return found
}

// csvColumns are the columns that are understood, with whether they must be there.
var csvColumns = []struct {
	name string
	must bool
}{{"id", false}, {"lower", true}, {"upper", true}, {"size", true}, {"stream", false}}

const (
	colID = iota
	colLower
	colUpper
	colSize
	colStream
)

func readCSV(r *bufio.Reader, o Options) (*ir.Trace, error) {
	if o.Device > 0 {
		return nil, fault("intervals do not name devices: there is only device 0")
	}
	if b, err := r.Peek(3); err == nil && string(b) == "\xef\xbb\xbf" {
		r.Discard(3)
	}
	in := csv.NewReader(r)
	in.ReuseRecord = true
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if err != nil {
		return nil, csvFault(err)
	}
	at, extra, fail := csvHeader(header)
	if fail != nil {
		return nil, fail.line(1)
	}
	var list []interval
	seen := map[string]int{}
	zero := 0
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvFault(err)
		}
		line, _ := in.FieldPos(0)
		v, fail := csvRow(row, at)
		if fail == nil {
			fail = checkInterval(v)
		}
		if fail != nil {
			return nil, fail.line(line)
		}
		if at[colID] >= 0 {
			v.id = strings.Clone(v.id) // rows share their memory with the next
			if first, twice := seen[v.id]; twice {
				return nil, fault("id %s was already on line %d", quote(v.id), first).line(line)
			}
			seen[v.id] = line
		}
		if v.size == 0 {
			zero++
			continue
		}
		list = append(list, v)
	}
	t, err := renumber(list, zero)
	if err == nil && len(extra) > 0 {
		t.Notef(ir.Info, "columns", "columns that are not understood: %s", strings.Join(extra, ", "))
	}
	return t, err
}

// csvHeader finds the columns; -1 where one is absent.
func csvHeader(header []string) (at [5]int, extra []string, fail *Error) {
	names := make([]string, len(header))
	for i, h := range header {
		names[i] = strings.ToLower(strings.TrimSpace(h))
	}
	for c, col := range csvColumns {
		at[c] = slices.Index(names, col.name)
		if at[c] < 0 && col.must {
			return at, nil, fault("no column %q in the header", col.name).hint("the header is id,lower,upper,size, and stream if there are several")
		}
	}
	for i, name := range names {
		if !slices.Contains(at[:], i) {
			extra = append(extra, quote(name))
		}
	}
	return at, extra, nil
}

func csvRow(row []string, at [5]int) (v interval, fail *Error) {
	field := func(c int) (int64, *Error) {
		text := strings.TrimSpace(row[at[c]])
		n, ok := parseInt([]byte(text))
		if !ok {
			return 0, fault("%s is no integer of 64 bits: %s", csvColumns[c].name, quote(text))
		}
		return n, nil
	}
	if v.lower, fail = field(colLower); fail != nil {
		return v, fail
	}
	if v.upper, fail = field(colUpper); fail != nil {
		return v, fail
	}
	if v.size, fail = field(colSize); fail != nil {
		return v, fail
	}
	if at[colID] >= 0 {
		v.id = strings.TrimSpace(row[at[colID]])
	}
	if at[colStream] >= 0 {
		text := strings.TrimSpace(row[at[colStream]])
		n, ok := parseHandle([]byte(text))
		if !ok {
			return v, fault("stream is no handle: %s", quote(text))
		}
		v.stream = n
	}
	return v, nil
}

func csvFault(err error) error {
	var pe *csv.ParseError
	switch {
	case errors.As(err, &pe):
		return fault("%v", pe.Err).line(pe.Line).because(err)
	case errors.Is(err, io.EOF):
		return fault("no header").line(1)
	}
	return readFault(err, -1)
}
