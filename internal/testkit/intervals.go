package testkit

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"stweaver/ir"
)

// ReadIntervals reads a file of id,lower,upper,size lines with a header: buffers whose lifespans are
// half-open, and the end of the last. Sizes are rounded up, but for the instances of MiniMalloc.
// It fails the test where the file is absent or malformed.
func ReadIntervals(t testing.TB, file string) ([]ir.Buffer, ir.Tick) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	exact := strings.Contains(file, "minimalloc")
	var buffers []ir.Buffer
	var horizon ir.Tick
	for n, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		f := strings.Split(strings.TrimSpace(line), ",")
		if len(f) != 4 {
			t.Fatalf("%s:%d: %q", file, n+2, line)
		}
		num := func(s string) int64 {
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatalf("%s:%d: %v", file, n+2, err)
			}
			return v
		}
		b := ir.Buffer{Start: ir.Tick(num(f[1])), End: ir.Tick(num(f[2])), Size: ir.Bytes(num(f[3]))}
		if !exact {
			b.Size = ir.RoundUp(b.Size)
		}
		horizon = max(horizon, b.End)
		buffers = append(buffers, b)
	}
	return buffers, horizon
}
