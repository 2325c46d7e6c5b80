package main

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"stweaver/compiler"
)

// efforts prints how near each profile's plan comes to its bound at the three efforts, the packer that
// made it, and the processor time of the whole command.
func (s *survey) efforts(files []string) error {
	fmt.Println("| profile | buffers | bound | fast: ratio, bytes above, method | CPU s | default | CPU s | max | CPU s |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, f := range files {
		name, _ := filepath.Rel(s.root, f)
		row := ""
		for _, e := range compiler.Efforts {
			var c compiler.Summary
			code, msg, cpu, err := s.timed(&c, "compile", "--json", "--effort", string(e), f)
			if err != nil {
				return err
			}
			if code != 0 {
				s.refuse(name, f, code, msg)
				row = ""
				break
			}
			if row == "" {
				row = fmt.Sprintf("| %s | %d |", name, c.VerifiedBuffers)
			}
			if e == compiler.Efforts[0] {
				row += fmt.Sprintf(" %s |", c.BoundKind)
			}
			row += fmt.Sprintf(" %.7f, %d, %s | %.2f |", 1+c.Gap, c.PlanPeak-c.Bound, c.Method, cpu)
		}
		if row != "" {
			fmt.Println(row)
		}
	}
	return nil
}

// periodic prints what planning the loop once is worth beside planning the recording through: the same
// peak, and the time of packing.
func (s *survey) periodic(files []string) error {
	fmt.Println("| profile | iterations | buffers: loop / recording | peak: loop / recording, bytes | ratio | pack s: loop / recording | speed-up | replay of 10: overlaps, faults |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for i, f := range files {
		name, _ := filepath.Rel(s.root, f)
		plan := filepath.Join(s.plans, fmt.Sprintf("periodic-%d.plan", i))
		var loop, flat compiler.Summary
		var r replayed
		for _, call := range []struct {
			into any
			args []string
		}{
			{&loop, []string{"compile", "--json", f, "-o", plan}},
			{&flat, []string{"compile", "--json", "--one-pass", f}},
			{&r, []string{"replay", "--json", plan, f, "--iterations", "10"}},
		} {
			code, msg, err := s.call(call.into, call.args...)
			if err != nil {
				return err
			}
			if code != 0 {
				s.refuse(name, f, code, msg)
				break
			}
		}
		if loop.Steps == 0 || flat.PlanPeak == 0 {
			continue
		}
		if n := loop.Kinds["dynamic"].Requests; n > 0 {
			continue // the recording has sizes that the loop leaves to the heap
		}
		fmt.Printf("| %s | %d | %d / %d | %d / %d | %.7f | %.2f / %.2f | %.1f | %d, %d |\n", name, loop.Steps, loop.VerifiedBuffers, flat.VerifiedBuffers,
			loop.PlanPeak, flat.PlanPeak, float64(loop.PlanPeak)/float64(flat.PlanPeak), packSeconds(&loop), packSeconds(&flat), packSeconds(&flat)/packSeconds(&loop), r.Overlaps, r.Faults)
	}
	return nil
}

func packSeconds(s *compiler.Summary) float64 {
	for _, p := range s.Passes {
		if p.Name == "pack" {
			return max(p.Seconds, 1e-3)
		}
	}
	return 0
}

// timed is call, with the processor seconds that the command took.
func (s *survey) timed(into any, args ...string) (code int, msg string, cpu float64, err error) {
	cmd := exec.Command(s.bin, args...)
	code, msg, err = run(cmd, into)
	if st := cmd.ProcessState; st != nil {
		cpu = (st.UserTime() + st.SystemTime()).Seconds()
	}
	return code, msg, cpu, err
}
