package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"stweaver/compiler"
)

// sharing is what a plain prototype (two-level first fit, 24 orders, every pair checked) reached on recorded sharded training:
// peaks in GiB, of the streams apart and by AGE.
var sharing = []struct {
	profile string
	apart   string
	ages    [6]string // 0, 100, 200, 500, 1000, 2000
}{
	{"frameworks/hf-llama7b-fsdp2-ckpt", "32.21", [6]string{"28.25", "28.92", "29.06", "29.13", "29.66", "29.78"}},
	{"frameworks/titan-llama3-8b-fsdp8", "41.14", [6]string{"36.14", "38.21", "37.89", "38.34", "39.10", "41.14"}},
	{"frameworks/ds-z2-llama7b-ckpt", "35.62", [6]string{"34.04", "34.04", "34.08", "34.21", "35.21", "35.84"}},
	{"frameworks/ds-z3-gpt2xl", "46.35", [6]string{"45.20", "45.28", "45.29", "45.36", "46.35", "46.71"}},
	{"phantom/llama7b_fsdp8_nccl", "38.37", [6]string{"34.81", "35.25", "35.58", "35.91", "36.55", "38.45"}},
	{"frameworks/gpt2-ZR-rs300-rank0", "", [6]string{}},
}

// streams prints what plans need with streams apart and with streams that share, by AGE: ours / the prototype's, CPU
// seconds of the whole command, and the waits of a step: for other streams + for marked ones, median age of the former. OnePass plans the recording as it is, which is
// the prototype's problem; else the loop and the prologue are planned, and what varies is left out.
func (s *survey) streams(only string, onePass bool) error {
	fmt.Print("| profile | torch reserved | apart |")
	for _, age := range compiler.CurveAges {
		fmt.Printf(" AGE %d |", age)
	}
	fmt.Print(" CPU s | waits a step |\n|---|---|---|", strings.Repeat("---|", len(compiler.CurveAges)+2), "\n")
	above := 0
	for _, row := range sharing {
		if !strings.Contains(row.profile, only) {
			continue
		}
		var cells, cpu, waits []string
		reserved := "–"
		for i := -1; i < len(compiler.CurveAges); i++ {
			mode, theirs := "apart", row.apart
			if i >= 0 {
				mode, theirs = fmt.Sprintf("shared:%d", compiler.CurveAges[i]), row.ages[i]
			}
			args := []string{"compile", "--json", filepath.Join(s.root, row.profile+".pickle.gz"), "--streams", mode}
			if onePass {
				args = append(args, "--one-pass")
			}
			var c compiler.Summary
			cmd := exec.Command(s.bin, args...)
			if code, msg, err := run(cmd, &c); err != nil {
				return err
			} else if code != 0 {
				return fmt.Errorf("%v: exit %d: %s", args, code, msg)
			}
			ours := fmt.Sprintf("%.2f", float64(c.PlanPeak)/(1<<30))
			cell := ours
			if theirs != "" {
				cell += " / " + theirs
			}
			if theirs != "" && ours > theirs && len(ours) == len(theirs) {
				cell = "**" + cell + "**"
				above++
			}
			cells = append(cells, cell)
			t := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			cpu = append(cpu, fmt.Sprintf("%.1f", t.Seconds()))
			if c.Reserved != nil {
				reserved = fmt.Sprintf("%.2f", float64(*c.Reserved)/(1<<30))
			}
			if x := c.Shared; x != nil {
				waits = append(waits, fmt.Sprintf("%.0f + %.0f, %d", x.Step, x.Marked, x.Median))
			}
		}
		fmt.Printf("| %s | %s | %s | %s | %s |\n", row.profile, reserved, strings.Join(cells, " | "), strings.Join(cpu, " "), strings.Join(waits, "; "))
	}
	if above > 0 {
		return fmt.Errorf("%d peaks are above the prototype's", above)
	}
	return nil
}
