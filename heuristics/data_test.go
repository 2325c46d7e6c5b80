package heuristics

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stweaver/ir"
)

// dataDir is the folder of real inputs, which is not part of the repository.
const dataDir = "../../shared/data"

// dataFiles returns the files that match pattern under dataDir; the test is skipped where
// there are none.
func dataFiles(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataDir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no %s in %s", pattern, dataDir)
	}
	return files
}

// readLog reads a text log as one linear pass: "1 ADDRESS SIZE STREAM" allocates,
// "0 ADDRESS …" frees, other lines are marks. Ticks count allocations.
func readLog(t testing.TB, file string) ([]ir.Buffer, ir.Tick) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	buffers, horizon, err := parseLog(z)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return buffers, horizon
}

func parseLog(r io.Reader) ([]ir.Buffer, ir.Tick, error) {
	var buffers []ir.Buffer
	var now ir.Tick
	live := map[string]int{}
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) != 4 || f[0] != "0" && f[0] != "1" {
			continue
		}
		if f[0] == "0" {
			if k, ok := live[f[1]]; ok {
				buffers[k].End = now
				delete(live, f[1])
			}
			continue
		}
		n, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, 0, err
		}
		if n == 0 {
			continue
		}
		if _, ok := live[f[1]]; ok {
			return nil, 0, fmt.Errorf("address %s allocated twice", f[1])
		}
		live[f[1]] = len(buffers)
		buffers = append(buffers, ir.Buffer{Size: ir.RoundUp(ir.Bytes(n)), Start: now, End: ir.Never})
		now++
	}
	for i := range buffers {
		if buffers[i].End == ir.Never {
			buffers[i].End = now
		}
	}
	return buffers, now, s.Err()
}

func baseName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".txt")
	return strings.TrimSuffix(name, ".csv")
}
