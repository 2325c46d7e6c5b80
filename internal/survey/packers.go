package main

import (
	"context"
	"fmt"
	"path/filepath"

	"stweaver/compiler"
	"stweaver/heuristics"
	"stweaver/ir"
	"stweaver/profile"
)

// compared are the packers that a plan must never be above, and the published planner's method.
var compared = []string{"size", "size-best", "layers", "dive-need-life", "dive-need-area", "dive-start", "dive-area", "dive-size"}

// packers prints the ratio to the live peak of single packers beside the plan's, and fails if one of
// them is below it. Streams are packed apart and their peaks summed, as in a plan.
func (s *survey) packers(files []string) error {
	fmt.Print("| profile | buffers |")
	for _, name := range compared {
		fmt.Printf(" %s |", name)
	}
	fmt.Println(" plan | method |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	above := 0
	for _, f := range files {
		name, _ := filepath.Rel(s.root, f)
		trace, err := profile.ReadFile(f, profile.DefaultOptions())
		if err != nil {
			continue // the table of plans says why
		}
		c, err := compiler.Compile(context.Background(), trace, compiler.Options{})
		if err != nil {
			continue
		}
		streams := make([][]ir.Buffer, len(c.Problem.Streams))
		for _, b := range c.Problem.Buffers {
			streams[b.Stream] = append(streams[b.Stream], b)
		}
		var live ir.Bytes
		for _, buffers := range streams {
			live += heuristics.LivePeak(buffers, c.Problem.L1)
		}
		fmt.Printf("| %s | %d |", name, len(c.Problem.Buffers))
		for _, packer := range compared {
			p, ok := heuristics.ByName(packer)
			if !ok {
				return fmt.Errorf("no packer %q", packer)
			}
			var peak ir.Bytes
			for _, buffers := range streams {
				peak += p.Layout(buffers, c.Problem.L1).Peak
			}
			if peak < c.Layout.Peak {
				above++
				fmt.Printf(" **%.6f** |", float64(peak)/float64(live))
				continue
			}
			fmt.Printf(" %.6f |", float64(peak)/float64(live))
		}
		fmt.Printf(" %.6f | %s |\n", float64(c.Layout.Peak)/float64(live), c.Plan.Get("method"))
	}
	if above > 0 {
		return fmt.Errorf("%d times a single packer is below the plan", above)
	}
	return nil
}
