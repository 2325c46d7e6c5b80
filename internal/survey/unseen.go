package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"stweaver/compiler"
)

// unseen plans each profile from its first steady iterations and runs it on the later ones, or, where
// there are none, on the same with late, extra, missing and swapped requests; with marks and without.
// E is peak allocated / peak reserved; Eact the same less what lives for the whole run. Beside them, what models of
// PyTorch's allocator, of an ideal best fit, and of the published planner with the same plan make of the same requests.
func (s *survey) unseen(files []string) error {
	fmt.Println("| profile | planned from | run on | native: E | Eact | ideal best fit: E | Eact | published windows: E | Eact | heap: E | Eact | plan, marks: E | Eact | static hits | slow | plan, no marks: E | Eact | static hits | slow |")
	fmt.Println("|" + strings.Repeat("---|", 19))
	for i, f := range files {
		name, _ := filepath.Rel(s.root, f)
		plan := filepath.Join(s.plans, fmt.Sprintf("unseen-%d.plan", i))
		var c compiler.Summary
		code, msg, err := s.call(&c, "compile", "--json", f, "-o", plan)
		if err != nil {
			return err
		}
		if code != 0 {
			s.refuse(name, f, code, msg)
			continue
		}
		if c.Steps == 0 {
			continue
		}
		from := fmt.Sprintf("%d:%d", c.StepsUsed[0], c.StepsUsed[1])
		const diverge = "late=1%,extra=1/iter,missing=1/iter,swap=1/iter"
		on, run := "the same, "+diverge, []string{"--iterations", fmt.Sprint(s.iterations), "--diverge", diverge, "--seed", fmt.Sprint(s.seed)}
		if first := c.StepsUsed[0]; c.Steps >= first+4 {
			last := min(first+3, c.Steps-1)
			from = fmt.Sprintf("%d:%d", first, last)
			if code, msg, err = s.call(&c, "compile", "--json", f, "-o", plan, "--steps", from); err != nil {
				return err
			} else if code != 0 {
				return fmt.Errorf("%s --steps %s: exit %d: %s", name, from, code, msg)
			}
			on = fmt.Sprintf("%d:%d", last, c.Steps)
			run = []string{"--steps", on, "--iterations", fmt.Sprint(c.Steps - last)}
		}
		whole := int64(c.Kinds["persistent"].Bytes)
		fmt.Printf("| %s | %s | %s |", name, from, on)
		var others simulated
		args := append([]string{"simulate", "--json", f, "--plan", plan, "--allocators", "native,best-fit,windows"}, run...)
		if code, msg, err = s.call(&others, args...); err != nil {
			return err
		} else if code != 0 {
			return fmt.Errorf("%v: exit %d: %s", args, code, msg)
		}
		for _, o := range others.Allocators {
			fmt.Printf(" %.4f | %.4f |", o.E, eact(o.PeakAllocated, o.PeakReserved, whole))
		}
		for _, mode := range [][]string{{"--mode", "heap"}, {"--marks=true"}, {"--marks=false"}} {
			var r replayed
			args := append(append([]string{"replay", "--json", "--granularity", s.granularity, plan, f}, run...), mode...)
			if code, msg, err = s.call(&r, args...); err != nil {
				return err
			} else if code != 0 {
				return fmt.Errorf("%v: exit %d: %s", args, code, msg)
			}
			fmt.Printf(" %.4f | %.4f |", r.E, eact(r.PeakAllocated, r.PeakReserved, whole))
			if mode[0] != "--mode" {
				fmt.Printf(" %.4f | %.4f |", r.Hit, float64(r.Slow)/float64(max(r.Requests, 1)))
			}
		}
		fmt.Println()
	}
	return nil
}

// simulated is what survey reads of simulate --json.
type simulated struct {
	Allocators []struct {
		PeakAllocated int64   `json:"peak_allocated_bytes"`
		PeakReserved  int64   `json:"peak_reserved_bytes"`
		E             float64 `json:"efficiency"`
	} `json:"allocators"`
}

func eact(allocated, reserved, whole int64) float64 {
	return float64(allocated-whole) / float64(max(reserved-whole, 1))
}
