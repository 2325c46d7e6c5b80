// Command survey runs stweaver over every profile of a folder and prints the tables that
// README shows: one row a file, plans, replays and divergence. It calls the built command, as
// a user would, and adds nothing of its own.
//
//	make survey DATA=../shared/data
//	make survey DATA=../shared/data TABLE=efforts
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"stweaver/compiler"
	"stweaver/ir"
)

func main() {
	bin := flag.String("bin", "bin/stweaver", "the command")
	data := flag.String("data", "../shared/data", "folder of profiles")
	only := flag.String("only", "", "only files whose path contains this")
	table := flag.String("table", "plans", "what to print: plans, and diverge after it; efforts; periodic; packers; unseen; streams, and streams-once of the recordings as they are")
	diverge := flag.Bool("diverge", true, "with plans: replay with divergence, too")
	granularity := flag.String("granularity", "2MiB", "with unseen: pages of the runtime's memory")
	iterations := flag.Int("iterations", 10, "with unseen: how often a profile without later iterations is run, diverging")
	seed := flag.Uint64("seed", 1, "with unseen: of the divergence")
	flag.Parse()
	s := &survey{bin: *bin, root: *data, granularity: *granularity, iterations: *iterations, seed: *seed}
	if err := s.run(*table, *only, *diverge); err != nil {
		fmt.Fprintln(os.Stderr, "survey:", err)
		os.Exit(1)
	}
}

type survey struct {
	bin, root   string
	granularity string
	iterations  int
	seed        uint64
	plans       string
	refused     []string
	made        []made
}

// made is a plan that was compiled.
type made struct {
	name, plan, profile string
}

// replayed is what survey reads of replay --json.
type replayed struct {
	Static         int     `json:"static_requests"`
	Hit            float64 `json:"hit_rate"`
	SteadyHit      float64 `json:"steady_hit_rate"`
	Overlaps       int     `json:"overlaps"`
	Faults         uint64  `json:"canary_faults"`
	StaticFallback int64   `json:"static_fallback_bytes"`
	PeakAllocated  int64   `json:"peak_allocated_bytes"`
	PeakReserved   int64   `json:"peak_reserved_bytes"`
	E              float64 `json:"efficiency"`
	Ns             float64 `json:"ns_per_pair"`
	BaseNs         float64 `json:"baseline_ns_per_pair"`
	Requests       uint64  `json:"requests"`
	Slow           uint64  `json:"slow"`
	Resyncs        uint64  `json:"resyncs"`
	Conflicts      uint64  `json:"conflicts"`
}

func (s *survey) run(table, only string, diverge bool) error {
	dir, err := os.MkdirTemp("", "survey")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.plans = dir
	var files []string
	err = filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, only) {
			return err
		}
		switch name := d.Name(); {
		case strings.HasSuffix(name, ".md"), name == "marks.json", name == "measured.csv":
		default:
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch table {
	case "plans":
		err = s.plansTable(files)
	case "efforts":
		err = s.efforts(files)
	case "periodic":
		err = s.periodic(files)
	case "unseen":
		err = s.unseen(files)
	case "streams":
		err = s.streams(only, false)
	case "streams-once":
		err = s.streams(only, true)
	case "packers":
		err = s.packers(files)
	default:
		err = fmt.Errorf("no table %q", table)
	}
	if err == nil && len(s.refused) > 0 {
		fmt.Print("\nNot planned:\n\n| profile | exit | message |\n|---|---|---|\n")
		for _, r := range s.refused {
			fmt.Println(r)
		}
	}
	if err == nil && table == "plans" && diverge {
		err = s.divergence()
	}
	return err
}

// plansTable compiles, verifies and replays each profile.
func (s *survey) plansTable(files []string) error {
	fmt.Println("| profile | requests | steps | pers / scop / trans / carr / dyn | live peak | planned bound | plan peak | gap | reserved | E before | E after | hits from 2nd | faults | B/request | compile s |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for i, f := range files {
		if err := s.row(i, f); err != nil {
			return err
		}
	}
	return nil
}

// refuse notes a profile that the command would not take.
func (s *survey) refuse(name, path string, code int, msg string) {
	s.refused = append(s.refused, fmt.Sprintf("| %s | %d | %s |", name, code, strings.ReplaceAll(msg, path, name)))
}

func (s *survey) row(i int, path string) error {
	name, _ := filepath.Rel(s.root, path)
	plan := filepath.Join(s.plans, fmt.Sprintf("%d.plan", i))
	var c compiler.Summary
	if code, msg, err := s.call(&c, "compile", "--json", path, "-o", plan); err != nil {
		return err
	} else if code != 0 {
		s.refuse(name, path, code, msg)
		return nil
	}
	var r replayed
	if code, msg, err := s.call(&r, "replay", "--json", plan, path, "--iterations", "10"); err != nil {
		return err
	} else if code != 0 {
		return fmt.Errorf("replay of %s: exit %d: %s", name, code, msg)
	}
	s.made = append(s.made, made{name, plan, path})
	n := func(k ir.Kind) int { return c.Kinds[k.String()].Requests }
	reserved, before := "–", "–"
	if c.Reserved != nil {
		reserved, before = gib(*c.Reserved), fmt.Sprintf("%.4f", *c.RecordedE)
	}
	fmt.Printf("| %s | %d | %d | %d / %d / %d / %d / %d | %s | %s | %s | %.6f | %s | %s | %.4f | %s | %d | %.1f | %.2f |\n",
		name, c.Requests, c.Steps, n(ir.Persistent), n(ir.Scoped), n(ir.Transient), n(ir.Carried), n(ir.Dynamic),
		gib(c.LivePeak), gib(c.Bound), gib(c.PlanPeak), c.Gap, reserved, before, r.E, rate(r.SteadyHit, r.StaticFallback),
		uint64(r.Overlaps)+r.Faults, c.BytesPerRequest, c.Seconds)
	return nil
}

func rate(hit float64, fallback int64) string {
	if fallback == 0 {
		return fmt.Sprintf("%.4f", hit)
	}
	return fmt.Sprintf("%.4f (%s fell back)", hit, compiler.Size(ir.Bytes(fallback)))
}

// gib prints bytes in GiB with four decimals: columns compare.
func gib(n ir.Bytes) string { return fmt.Sprintf("%.4f", float64(n)/(1<<30)) }

var divergences = []string{
	"late=1%", "late=5%", "late=20%", "extra=1/iter", "missing=1/iter", "swap=1/iter",
}

func (s *survey) divergence() error {
	fmt.Print("\nTen iterations with divergence: overlaps + canary faults, hit rate of the static requests.\n\n| profile |")
	for _, d := range divergences {
		fmt.Printf(" %s |", d)
	}
	fmt.Print("\n|---|", strings.Repeat("---|", len(divergences)), "\n")
	for _, m := range s.made {
		fmt.Printf("| %s |", m.name)
		for _, d := range divergences {
			var r replayed
			if code, msg, err := s.call(&r, "replay", "--json", m.plan, m.profile, "--diverge", d); err != nil {
				return err
			} else if code != 0 && code != 4 {
				return fmt.Errorf("replay of %s with %s: exit %d: %s", m.name, d, code, msg)
			}
			fmt.Printf(" %d, %.4f |", uint64(r.Overlaps)+r.Faults, r.Hit)
		}
		fmt.Println()
	}
	return nil
}

// call runs the command and reads its JSON. A non-zero exit is not an error here.
func (s *survey) call(v any, args ...string) (code int, message string, err error) {
	return run(exec.Command(s.bin, args...), v)
}

func run(cmd *exec.Cmd, v any) (code int, message string, err error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, "", err
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		message, _, _ = strings.Cut(stderr.String(), "\n")
		message = strings.TrimPrefix(message, "stweaver: ")
	}
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), v); err != nil {
			return code, "", fmt.Errorf("%v: %w", cmd.Args[1:], err)
		}
	}
	return code, message, nil
}
