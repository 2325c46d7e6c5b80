package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"stweaver/compiler"
	"stweaver/internal/testkit"
	"stweaver/ir"
	"stweaver/profile"
)

// BenchmarkScale compiles and verifies inputs of 10^4 to 10^6 requests with the built command, from a
// file to a file, and reports processor seconds and memory of the whole process and seconds by pass.
//
//	pipeline  a generated 1F1B stage, recorded through
//	shuffled  a real profile again and again, its sizes dealt out anew: regular lives, nothing that tiles
//
//	go test -run - -bench Scale -benchtime 1x ./cmd/stweaver
func BenchmarkScale(b *testing.B) {
	dir := b.TempDir()
	bin := filepath.Join(dir, "stweaver")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		for _, c := range []struct {
			name string
			make func(testing.TB, int) []ir.Buffer
		}{{"pipeline", scalePipeline}, {"shuffled", scaleShuffled}} {
			b.Run(fmt.Sprintf("%s/n=%d", c.name, n), func(b *testing.B) {
				in, plan := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.plan")
				buffers := c.make(b, n)
				writeIntervals(b, in, buffers)
				for b.Loop() {
					var s compiler.Summary
					cpu, mib := measure(b, &s, bin, "compile", "--json", in, "-o", plan)
					b.ReportMetric(cpu, "compile-CPU-s")
					b.ReportMetric(mib, "compile-MiB")
					for _, p := range s.Passes {
						if p.Name == "pack" || p.Name == "verify" || p.Name == "encode" || p.Name == "read" {
							b.ReportMetric(p.Seconds, p.Name+"-s")
						}
					}
					b.ReportMetric(1+s.Gap, "ratio")
					cpu, mib = measure(b, nil, bin, "verify", plan, in)
					b.ReportMetric(cpu, "verify-CPU-s")
					b.ReportMetric(mib, "verify-MiB")
				}
				b.ReportMetric(float64(len(buffers)), "requests")
			})
		}
	}
}

func scalePipeline(_ testing.TB, n int) []ir.Buffer {
	s := testkit.Schedule{Layers: 12, Micro: 16, Warm: 4, Iterations: 1, Uneven: true}
	b, _ := testkit.Pipeline(1, s)
	s.Iterations = max(1, n/len(b))
	b, _ = testkit.Pipeline(1, s)
	return b
}

func scaleShuffled(tb testing.TB, n int) []ir.Buffer {
	trace, err := profile.ReadFile("../../testdata/profiles/gpt2_dense.txt.gz", profile.DefaultOptions())
	if err != nil {
		tb.Fatal(err)
	}
	r := testkit.Rand(9)
	var out []ir.Buffer
	for copies := max(1, n/len(trace.Requests)); copies > 0; copies-- {
		base := ir.Tick(len(out) * 2)
		from := len(out)
		for _, q := range trace.Requests {
			end := q.Free
			if end == ir.Never {
				end = ir.Tick(trace.Events)
			}
			out = append(out, ir.Buffer{Size: q.Rounded(), Start: base + max(q.Alloc, 0), End: base + max(end, 1)})
		}
		for i := len(out) - 1; i > from; i-- {
			k := from + r.Below(i-from+1)
			out[i].Size, out[k].Size = out[k].Size, out[i].Size
		}
	}
	return out
}

func writeIntervals(tb testing.TB, path string, buffers []ir.Buffer) {
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "id,lower,upper,size")
	for i, b := range buffers {
		fmt.Fprintf(w, "%d,%d,%d,%d\n", i, b.Start, b.End, b.Size)
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
}

// measure runs a command and returns its processor seconds and largest resident size in MiB.
func measure(tb testing.TB, into any, name string, args ...string) (cpu, mib float64) {
	cmd := exec.Command(name, args...)
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("%v: %v", args, err)
	}
	if into != nil {
		if err := json.Unmarshal(out, into); err != nil {
			tb.Fatal(err)
		}
	}
	st := cmd.ProcessState
	if u, ok := st.SysUsage().(*syscall.Rusage); ok {
		mib = float64(u.Maxrss) / 1024
	}
	return (st.UserTime() + st.SystemTime()).Seconds(), mib
}
