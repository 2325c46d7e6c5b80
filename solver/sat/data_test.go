package sat

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// data reads id,lower,upper,size lines of ../shared/data/intervals/name and skips the test where they are absent.
func data(t testing.TB, name string) (arcs []arc, length int) {
	path := filepath.Join("..", "..", "..", "shared", "data", "intervals", name)
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("no shared data: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		var x [3]int
		for k := range x {
			if x[k], err = strconv.Atoi(row[k+1]); err != nil {
				t.Fatalf("%s: %v: %v", path, row, err)
			}
		}
		arcs = append(arcs, arc{x[0], x[1], int64(x[2])})
	}
	return ranked(arcs)
}

// ranked replaces times by their rank.
func ranked(arcs []arc) ([]arc, int) {
	var times []int
	for _, a := range arcs {
		times = append(times, a.start, a.end)
	}
	slices.Sort(times)
	times = slices.Compact(times)
	for k := range arcs {
		arcs[k].start, _ = slices.BinarySearch(times, arcs[k].start)
		arcs[k].end, _ = slices.BinarySearch(times, arcs[k].end)
	}
	return arcs, len(times) - 1
}

// window cuts the stretch of time from which about n buffers are met and that starts at from, clips lives to it and
// drops what lives through all of it.
func window(arcs []arc, length, from, n int) ([]arc, int) {
	for to := from + 1; ; to++ {
		var cut []arc
		for _, a := range arcs {
			s, e := max(a.start, from), min(a.end, to)
			if s < e && (s > from || e < to) {
				cut = append(cut, arc{s, e, a.size})
			}
		}
		if len(cut) >= n || to == length {
			return ranked(cut)
		}
	}
}
