package compiler_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"stweaver/compiler"
	"stweaver/internal/testkit"
	"stweaver/ir"
	"stweaver/profile"
)

// planBytes compiles a profile to the bytes of its plan.
func planBytes(t *testing.T, trace *ir.Trace) []byte {
	t.Helper()
	c, err := compiler.Compile(context.Background(), trace, compiler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := ir.EncodePlan(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sameBytes reads and compiles twenty times, on one processor and on two: the plans must be the same.
func sameBytes(t *testing.T, name string, read func() (*ir.Trace, error)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want []byte
	for run := range 20 {
		runtime.GOMAXPROCS(1 + run%2)
		trace, err := read()
		if err != nil {
			t.Fatal(err)
		}
		got := planBytes(t, trace)
		if run == 0 {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Fatalf("%s: compile %d gives other bytes", name, run)
		}
	}
}

// TestSameBytes: twenty compiles, on one processor and on two, of the lines in twenty orders, give one
// plan. Many of the intervals begin and end at the same times.
func TestSameBytes(t *testing.T) {
	r := testkit.Rand(3)
	var lines []string
	for i := range 400 {
		from := r.Below(60)
		lines = append(lines, fmt.Sprintf("b%d,%d,%d,%d", i, from, from+1+r.Below(20), 512*(1+r.Below(40))))
	}
	sameBytes(t, "shuffled.csv", func() (*ir.Trace, error) {
		for i := len(lines) - 1; i > 0; i-- {
			k := r.Below(i + 1)
			lines[i], lines[k] = lines[k], lines[i]
		}
		return profile.Read("shuffled.csv", strings.NewReader("id,lower,upper,size\n"+strings.Join(lines, "\n")+"\n"), profile.Options{Device: -1})
	})
}

// TestSameBytesOfProfiles: the same for the shipped profiles, whose order is that of time.
func TestSameBytesOfProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles every shipped profile twenty times")
	}
	files, err := filepath.Glob("../testdata/profiles/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no profiles: %v", err)
	}
	for _, file := range files {
		sameBytes(t, file, func() (*ir.Trace, error) { return profile.ReadFile(file, profile.DefaultOptions()) })
	}
}
