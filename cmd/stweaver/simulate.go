package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
	"stweaver/runtime/model"
	"stweaver/simulate"
)

type simulateFlags struct {
	allocators     string
	plan, limit    string
	iterations     int
	steps, diverge string
	seed           uint64
}

type simulateOutput struct {
	Iterations int                  `json:"iterations"` // 0: the recording as it is
	Requests   int                  `json:"requests"`
	Limit      *ir.Bytes            `json:"limit_bytes"`
	Reserved   *ir.Bytes            `json:"recorded_reserved_bytes"`
	Recorder   string               `json:"recorded_allocator"`
	Rules      *compiler.RuleReport `json:"rules,omitempty"` // of the plan
	Allocators []simulatedJSON      `json:"allocators"`
}

type simulatedJSON struct {
	Name          string   `json:"name"`
	PeakAllocated ir.Bytes `json:"peak_allocated_bytes"`
	PeakOccupied  ir.Bytes `json:"peak_occupied_bytes"` // with what blocks are larger than their requests
	PeakReserved  ir.Bytes `json:"peak_reserved_bytes"`
	Efficiency    float64  `json:"efficiency"`
	DriverCalls   int      `json:"driver_calls"`
	OOM           bool     `json:"oom"`
	Served        int      `json:"served"`       // requests; fewer than all where oom
	Failed        ir.Bytes `json:"failed_bytes"` // of the request that found no room
}

func simulateCommand(a *app) *cobra.Command {
	var f simulateFlags
	var about strings.Builder
	var defaults []string
	for _, name := range simulate.Names() {
		if !simulate.Planned(name) {
			defaults = append(defaults, name)
		}
		fmt.Fprintf(&about, "  %-11s %s\n", name, simulate.About(name))
	}
	c := &cobra.Command{
		Use:   "simulate IN",
		Short: "What other allocators would have reserved for a recording",
		Long: `simulate runs the recorded requests through models of other allocators:

` + about.String() + `
Without --iterations and --steps it runs the recording as it is, from its first request to its last;
with them what replay runs: the start once, then steady iterations. windows needs them, and a plan of
this profile. A request that finds no room under --limit ends the run of that allocator and is reported; it is
no error.`,
		Args: args(1, "one profile"),
		RunE: func(cmd *cobra.Command, in []string) error { return a.simulate(cmd, in[0], &f) },
	}
	c.Flags().StringVar(&f.allocators, "allocators", strings.Join(defaults, ","), "which, in this order")
	c.Flags().StringVar(&f.plan, "plan", "", "`PLAN` for windows: simulate its static requests, and take its steady iterations")
	c.Flags().StringVar(&f.limit, "limit", "", "memory of the device, e.g. 80GiB; default: no limit")
	c.Flags().IntVar(&f.iterations, "iterations", 0, "steady iterations to run; 0: the recording as it is")
	c.Flags().StringVar(&f.steps, "steps", "", "take turns with iterations `C:D` of the profile, counted from 0, D excluded; once each without --iterations")
	c.Flags().StringVar(&f.diverge, "diverge", "", "with iterations: depart from the recording as `SPEC` says, as replay does")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "of the divergence")
	return c
}

func (a *app) simulate(cmd *cobra.Command, in string, f *simulateFlags) error {
	names := strings.Split(f.allocators, ",")
	for _, name := range names {
		if simulate.Planned(name) && f.plan == "" {
			return usagef("--allocators %s: needs --plan", name)
		}
		if simulate.About(name) == "" {
			return usagef("--allocators %q: there are %s", name, strings.Join(simulate.Names(), ", "))
		}
	}
	var o simulate.Options
	if f.limit != "" {
		limit, err := parseSize(f.limit)
		if err != nil || limit < ir.Align {
			return usagef("--limit %s: want a size of at least 512 bytes, e.g. 80GiB", f.limit)
		}
		o.Limit = limit
	}
	from, to, err := parseRange("--steps", f.steps)
	if err != nil {
		return err
	}
	spec, err := model.ParseSpec(f.diverge)
	if err != nil {
		return usagef("--diverge: %v", err)
	}
	if f.iterations < 0 {
		return usagef("--iterations %d: want a number of steady iterations, or 0 for the recording as it is", f.iterations)
	}
	if f.iterations == 0 {
		f.iterations = to - from
	}
	if f.iterations == 0 && (f.diverge != "" || f.plan != "") {
		return usagef("--diverge and --plan need --iterations or --steps")
	}
	t, c, err := a.simulated(cmd, in, f, &o)
	if err != nil {
		return err
	}
	out := &simulateOutput{Iterations: f.iterations, Recorder: t.Allocator}
	if c != nil {
		out.Rules = compiler.ReportRules(c.Rules())
	}
	var events []ir.Event
	if c == nil {
		events = simulate.Events(t)
	} else {
		w, err := c.Workload(compiler.WorkloadOptions{Iterations: f.iterations, From: from, To: to, Marks: true})
		if err != nil {
			return usagef("%v", err)
		}
		if events, err = diverged(t, w, spec, f.seed, o.Plan); err != nil {
			return err
		}
	}
	for k := range events {
		if events[k].Kind == ir.EvAlloc {
			out.Requests++
		}
	}
	if o.Limit > 0 {
		out.Limit = &o.Limit
	}
	if t.Reserved > 0 {
		out.Reserved = &t.Reserved
	}
	for _, name := range names {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		r, err := simulate.Run(name, events, o)
		if err != nil {
			return err
		}
		out.Allocators = append(out.Allocators, simulatedJSON{Name: name, PeakAllocated: r.PeakAllocated, PeakOccupied: r.PeakOccupied,
			PeakReserved: r.PeakReserved, Efficiency: r.Efficiency(), DriverCalls: r.DriverCalls, OOM: r.OOM, Served: r.Requests, Failed: r.Failed})
	}
	if a.json {
		return a.printJSON(out)
	}
	a.printSimulated(out)
	return nil
}

// simulated reads the profile, and where iterations are wanted finds them: as the plan has them, if there is one.
func (a *app) simulated(cmd *cobra.Command, in string, f *simulateFlags, o *simulate.Options) (*ir.Trace, *compiler.Compiled, error) {
	if f.plan != "" {
		plan, _, err := a.readPlan(f.plan)
		if err != nil {
			return nil, nil, err
		}
		if plan.SharedAge > 0 {
			return nil, nil, usagef("--plan %s: its streams share memory, and its requests end where their frees were asked for, which no other allocator does; give a plan compiled with --streams apart", f.plan)
		}
		c, mismatch, err := a.against(cmd, plan, f.plan, in)
		if err != nil {
			return nil, nil, err
		}
		if c == nil {
			return nil, nil, &checkError{mismatch.Violations[0]}
		}
		if _, err := plan.LayoutOf(c.Problem); err != nil {
			return nil, nil, &checkError{named(in, err).Error()}
		}
		o.Plan, o.Cuts = plan, c.Cuts()
		return c.Trace, c, nil
	}
	t, err := a.read(in)
	if err != nil || f.iterations == 0 {
		return t, nil, err
	}
	c, err := compiler.Analyse(cmd.Context(), t, compiler.Options{})
	if err != nil {
		return nil, nil, named(in, err)
	}
	return t, c, nil
}

func (a *app) printSimulated(o *simulateOutput) {
	what := "the recording"
	if o.Iterations > 0 {
		what = fmt.Sprintf("%d iterations", o.Iterations)
	}
	fmt.Fprintf(a.stdout, "%s, %d requests\n", what, o.Requests)
	w := a.table()
	fmt.Fprintln(w.w, "allocator\tpeak allocated\tpeak reserved\tE\tdriver calls\t")
	for _, r := range o.Allocators {
		note := ""
		if r.OOM {
			note = fmt.Sprintf("out of memory: no room for %s after %d requests", compiler.Size(r.Failed), r.Served)
		}
		fmt.Fprintf(w.w, "%s\t%s\t%s\t%s\t%d\t%s\n", r.Name, bytesText(r.PeakAllocated), bytesText(r.PeakReserved), percent(r.Efficiency), r.DriverCalls, note)
	}
	w.flush()
	if o.Rules != nil {
		fmt.Fprintf(a.stdout, "the plan obeys %d statements of rules (%.12s)\n", len(o.Rules.Statements), o.Rules.Digest)
	}
	if o.Reserved != nil {
		fmt.Fprintf(a.stdout, "recorded: %s reserved (%s)\n", bytesText(*o.Reserved), o.Recorder)
	}
}
