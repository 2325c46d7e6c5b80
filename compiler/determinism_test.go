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

// TestSameBytes: twenty compiles, on one processor and on two, of the lines in twenty orders, give one
// plan. Many of the intervals begin and end at the same times.
func TestSameBytes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := testkit.Rand(3)
	var lines []string
	for i := range 400 {
		from := r.Below(60)
		lines = append(lines, fmt.Sprintf("b%d,%d,%d,%d", i, from, from+1+r.Below(20), 512*(1+r.Below(40))))
	}
	var want []byte
	for run := range 20 {
		runtime.GOMAXPROCS(1 + run%2)
		for i := len(lines) - 1; i > 0; i-- {
			k := r.Below(i + 1)
			lines[i], lines[k] = lines[k], lines[i]
		}
		trace, err := profile.Read("shuffled.csv", strings.NewReader("id,lower,upper,size\n"+strings.Join(lines, "\n")+"\n"), profile.Options{Device: -1})
		if err != nil {
			t.Fatal(err)
		}
		got := planBytes(t, trace)
		if run == 0 {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Fatalf("compile %d gives other bytes", run)
		}
	}
}

// TestSameBytesOfProfiles: the same for the shipped profiles, whose order is that of time.
func TestSameBytesOfProfiles(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles every shipped profile twenty times")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	files, err := filepath.Glob("../testdata/profiles/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no profiles: %v", err)
	}
	for _, file := range files {
		var want []byte
		for run := range 20 {
			runtime.GOMAXPROCS(1 + run%2)
			trace, err := profile.ReadFile(file, profile.DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			got := planBytes(t, trace)
			if run == 0 {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Fatalf("%s: compile %d gives other bytes", file, run)
			}
		}
	}
}
