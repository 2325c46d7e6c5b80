package profile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"stweaver/ir"
)

// Options of a read. The zero value reads device 0; DefaultOptions picks the device.
type Options struct {
	// Device is the device ordinal whose requests are wanted. -1: the one with the most
	// events, the lowest ordinal among equals; a note names the others.
	Device int
	// Stacks asks for Trace.Stacks: whole call stacks, where the profile has them.
	Stacks bool
	// Progress, if set, is told now and then how many bytes of the file as stored have
	// been read, out of how many; total is -1 where it is not known. It is called from
	// the goroutine that reads.
	Progress func(done, total int64)
}

// DefaultOptions reads the device with the most events.
func DefaultOptions() Options { return Options{Device: -1} }

// format is one kind of profile: sniff looks at the first bytes of the unwrapped content,
// read makes a trace of all of it. The reader's trace has no Format yet.
type format struct {
	name  string
	sniff func(head []byte) bool
	read  func(r *bufio.Reader, o Options) (*ir.Trace, error)
}

// formats is the table of formats, in the order they are tried.
var formats = []format{
	{"stweaver-record", sniffStwp, readStwp},
	{"torch-snapshot", sniffSnapshot, readSnapshot},
	{"chrome-trace", sniffChrome, readChrome},
	{"stalloc-log", sniffLog, readLog},
	{"interval-csv", sniffCSV, readCSV},
	{"op-log", sniffOplog, readOplog},
}

// Formats returns the names of the formats that can be read, in the order they are tried.
func Formats() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// ReadFile reads the profile at path; "-" is standard input. The error is an *Error.
func ReadFile(path string, o Options) (*ir.Trace, error) {
	if path == "-" {
		return read("-", os.Stdin, -1, o)
	}
	f, err := os.Open(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is in ours
		}
		return nil, complete(err, path, "")
	}
	defer f.Close()
	total := int64(-1)
	if st, err := f.Stat(); err == nil {
		if st.IsDir() {
			return nil, complete(fault("is a directory").hint("name the profile in it"), path, "")
		}
		if st.Mode().IsRegular() {
			total = st.Size()
		}
	}
	return read(path, f, total, o)
}

// Read reads a profile from r, which is read to its end at most. The name stands in for
// the path in errors. The error is an *Error.
func Read(name string, r io.Reader, o Options) (*ir.Trace, error) {
	return read(name, r, -1, o)
}

func read(path string, r io.Reader, total int64, o Options) (*ir.Trace, error) {
	if o.Progress != nil {
		r = &meter{r: r, total: total, tell: o.Progress}
	}
	in, closeAll, err := unwrap(r)
	if err != nil {
		return nil, complete(err, path, "")
	}
	defer closeAll()
	head, err := in.Peek(sniffLen)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, complete(readFault(err, 0), path, "")
	}
	for _, f := range formats {
		if !f.sniff(head) {
			continue
		}
		t, err := f.read(in, o)
		if err == nil {
			err = drain(in)
		}
		if err != nil {
			return nil, complete(err, path, f.name)
		}
		t.Format = f.name
		return t, nil
	}
	return nil, complete(unknown(head), path, "")
}

// unknown words the refusal of content no reader takes.
func unknown(head []byte) error {
	know := "known: " + strings.Join(Formats(), ", ")
	switch {
	case len(head) == 0:
		return fault("the file is empty")
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return fault("a zip archive").hint("torch.save and .npz files are no profiles; " + know)
	case bytes.HasPrefix(bytes.ToLower(head[:min(len(head), 64)]), []byte("<!doctype")),
		bytes.HasPrefix(head, []byte("<html")):
		return fault("an HTML page").hint("pass the snapshot it was made from; " + know)
	}
	return fault("no known format: begins with %s", quoteHead(head)).hint(know)
}

func quoteHead(head []byte) string {
	if len(head) > 16 {
		head = head[:16]
	}
	return fmt.Sprintf("%q", head)
}
