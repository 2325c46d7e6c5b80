//go:build cgo

package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
	stwrt "stweaver/runtime"
	"stweaver/runtime/model"
)

type replayFlags struct {
	iterations  int
	steps, mode string
	diverge     string
	seed        uint64
	threads     int
	marks       bool
	granularity string
	capacity    string
}

type replayOutput struct {
	Iterations     int                  `json:"iterations"`
	Rules          *compiler.RuleReport `json:"rules,omitempty"`
	Unmet          []string             `json:"unmet,omitempty"` // what the rules expect of a replay, and it is not
	Requests       int                  `json:"requests"`
	Static         int                  `json:"static_requests"` // those with a planned entry
	HitRate        float64              `json:"hit_rate"`        // of the static ones: at their planned address
	SteadyHitRate  float64              `json:"steady_hit_rate"` // the same, from the second iteration on
	Slow           uint64               `json:"slow"`
	Resyncs        uint64               `json:"resyncs"`
	Restarts       uint64               `json:"restarts"`
	Conflicts      uint64               `json:"conflicts"`
	Dynamic        uint64               `json:"dynamic"`
	Guests         uint64               `json:"guests"` // unplanned or displaced ones in idle arena space
	Unknown        uint64               `json:"unknown"`
	Hits           uint64               `json:"hits"` // as the runtime counts: any planned address handed out
	Overlaps       int                  `json:"overlaps"`
	CanaryFaults   uint64               `json:"canary_faults"`
	Failed         int                  `json:"failed"`
	StaticFallback ir.Bytes             `json:"static_fallback_bytes"` // of static requests, from the second iteration on
	FallbackPeak   ir.Bytes             `json:"fallback_peak_bytes"`
	PeakAllocated  ir.Bytes             `json:"peak_allocated_bytes"`
	PeakReserved   ir.Bytes             `json:"peak_reserved_bytes"`
	Efficiency     float64              `json:"efficiency"`
	Moved          ir.Bytes             `json:"moved_bytes"`             // idle memory given back in one place for another, in all
	SetAside       uint64               `json:"set_aside"`               // times that the plan was set aside, for the heap
	Trims          uint64               `json:"trims"`                   // times that idle memory was given back
	Returned       ir.Bytes             `json:"returned_bytes"`          // by them, in all
	Streams        *streamsOutput       `json:"streams,omitempty"`       // of a plan whose streams share the arena
	Reserved       *int64               `json:"recorded_reserved_bytes"` // by the allocator of the recording
	NsPerPair      float64              `json:"ns_per_pair"`
	BaselineNs     float64              `json:"baseline_ns_per_pair"`
}

// streamsOutput is what the runtime would ask of a device so that streams can share addresses, in a
// steady iteration.
type streamsOutput struct {
	Records float64 `json:"event_records_per_iteration"`
	Waits   float64 `json:"event_waits_per_iteration"`
	Young   float64 `json:"young_waits_per_iteration"` // for an event younger than 7/8 of the plan's AGE (at least 128) in requests
	Age     float64 `json:"event_wait_age"`            // of the events waited for, requests, mean
}

// streamsOf are the events from the second iteration on, of which there is none where only one was run.
func streamsOf(r *stwrt.RunResult) *streamsOutput {
	first, n := stwrt.Stats{}, len(r.Snapshots)
	if n > 1 {
		first = r.Snapshots[1]
		n--
	}
	waits := r.Stats.EventWaits - first.EventWaits
	per := func(now, before uint64) float64 { return float64(now-before) / float64(max(n, 1)) }
	return &streamsOutput{
		Records: per(r.Stats.EventRecords, first.EventRecords),
		Waits:   per(r.Stats.EventWaits, first.EventWaits),
		Young:   per(r.Stats.YoungWaits, first.YoungWaits),
		Age:     float64(r.Stats.WaitedAge-first.WaitedAge) / float64(max(waits, 1)),
	}
}

func replayCommand(a *app) *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay PLAN IN",
		Short: "Execute a plan through the C runtime on a recording",
		Long: `replay runs the recorded requests through the C runtime, the start once and then as many
iterations as asked for. Every live block holds a pattern in its first and last 64 bytes that
is checked when it is freed; a second run without patterns is timed. Only what is written is
touched: a 70 GiB plan replays on a small machine.

--diverge departs from the recording, at random but reproducibly: a comma-separated list of
late=, extra=, missing=, swap=, resize=, restart= with a rate each, of the requests ("5%") or
in each iteration ("1/iter").`,
		Args: args(2, "a plan and a profile"),
		RunE: func(cmd *cobra.Command, in []string) error { return a.replay(cmd, in[0], in[1], &f) },
	}
	c.Flags().IntVar(&f.iterations, "iterations", 10, "steady iterations to run")
	c.Flags().StringVar(&f.steps, "steps", "", "take turns with iterations `C:D` of the profile, counted from 0, D excluded; default: those of the plan")
	c.Flags().StringVar(&f.mode, "mode", "plan", "plan, or heap: the same requests without any plan")
	c.Flags().StringVar(&f.diverge, "diverge", "", "depart from the recording as `SPEC` says, e.g. late=5%,extra=1/iter")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "of the divergence")
	c.Flags().IntVar(&f.threads, "threads", 1, "threads that each run the list against one allocator: shows safety, not hits")
	c.Flags().BoolVar(&f.marks, "marks", true, "announce iterations and phases to the runtime as the profile marks them")
	c.Flags().StringVar(&f.granularity, "granularity", "2MiB", "memory is taken in pages of this size")
	c.Flags().StringVar(&f.capacity, "capacity", "", "most memory the runtime may take, e.g. 80GiB")
	return c
}

func (a *app) replay(cmd *cobra.Command, planName, in string, f *replayFlags) error {
	if f.iterations < 1 || f.threads < 1 {
		return usagef("--iterations and --threads must be at least 1")
	}
	if f.threads > stwrt.MaxThreads {
		return usagef("--threads %d: at most %d", f.threads, stwrt.MaxThreads)
	}
	if f.mode != "plan" && f.mode != "heap" {
		return usagef("--mode %s: plan or heap", f.mode)
	}
	spec, err := model.ParseSpec(f.diverge)
	if err != nil {
		return usagef("--diverge: %v", err)
	}
	opts := stwrt.Options{}
	page, err := parseSize(f.granularity)
	if err != nil || page&(page-1) != 0 || page < ir.Align {
		return usagef("--granularity %s: want a power of two of at least 512 bytes", f.granularity)
	}
	opts.Granularity = uint64(page)
	if f.capacity != "" {
		limit, err := parseSize(f.capacity)
		if err != nil {
			return usagef("--capacity %s: %v", f.capacity, err)
		}
		opts.Capacity = uint64(limit)
	}
	from, to, err := parseRange("--steps", f.steps)
	if err != nil {
		return err
	}
	plan, data, err := a.readPlan(planName)
	if err != nil {
		return err
	}
	c, mismatch, err := a.against(cmd, plan, planName, in)
	if err != nil {
		return err
	}
	if c == nil {
		return &checkError{mismatch.Violations[0]}
	}
	if _, err := plan.LayoutOf(c.Problem); err != nil {
		return &checkError{named(in, err).Error()}
	}
	w, err := c.Workload(compiler.WorkloadOptions{Iterations: f.iterations, From: from, To: to, Marks: f.marks})
	if err != nil {
		return usagef("%v", err)
	}
	if f.mode == "heap" {
		data = nil
	}
	opts.Events.On = plan.SharedAge > 0
	out, err := runWorkload(c.Trace, w, plan, data, spec, f, opts)
	if err != nil {
		return err
	}
	if f.mode == "plan" {
		out.Rules, out.Unmet = compiler.ReportRules(c.Rules()), unmetHits(c.Rules(), out.SteadyHitRate)
	}
	if a.json {
		err = a.printJSON(out)
	} else {
		a.printReplay(out, f)
	}
	if err == nil && (out.Overlaps > 0 || out.CanaryFaults > 0) {
		return &checkError{fmt.Sprintf("the runtime handed out memory that was in use: %d overlaps, %d canary faults", out.Overlaps, out.CanaryFaults)}
	}
	if err == nil && len(out.Unmet) > 0 {
		return &compiler.ExpectError{Failures: out.Unmet}
	}
	return err
}

// unmetHits are the rules that expect more hits than there were.
func unmetHits(r *ir.Rules, rate float64) (out []string) {
	for i := range r.List {
		if r.List[i].Kind != ir.RuleExpect || r.List[i].Measure != ir.MeasureHits {
			continue
		}
		if msg := compiler.Unmet(r, i, rate); msg != "" {
			out = append(out, msg)
		}
	}
	return out
}

func runWorkload(t *ir.Trace, w *compiler.Workload, plan *ir.Plan, data []byte, spec model.Spec, f *replayFlags, o stwrt.Options) (*replayOutput, error) {
	s, entries := script(t, w)
	s, err := model.Diverge(s, spec, f.seed)
	if err != nil {
		return nil, usagef("--diverge: %v", err)
	}
	out := &replayOutput{Iterations: f.iterations}
	run := func(canary bool) (*stwrt.RunResult, error) {
		rt, err := stwrt.New(data, o)
		if errors.Is(err, stwrt.ErrMemory) && data != nil {
			limit := cmp.Or(f.capacity, "its own "+compiler.Size(plan.Capacity))
			return nil, &compiler.InfeasibleError{Msg: fmt.Sprintf("the plan takes %s, in pages of %s; the capacity is %s", compiler.Size(plan.Arena), f.granularity, limit)}
		}
		if err != nil {
			return nil, err
		}
		defer rt.Close()
		r, err := rt.Run(s, stwrt.RunOptions{Canary: canary, Seed: f.seed, Threads: f.threads})
		if err == nil && canary && f.threads == 1 {
			out.Overlaps = rt.Overlaps(s, r)
		}
		return r, err
	}
	r, err := run(true)
	if err != nil {
		return nil, err
	}
	timed, err := run(false)
	if err != nil {
		return nil, err
	}
	out.NsPerPair, out.BaselineNs = timed.NsPerPair, timed.BaselineNsPerPair
	st := &r.Stats
	out.Hits, out.Slow, out.Resyncs, out.Restarts, out.Conflicts = st.Hits, st.Slow, st.Resyncs, st.Restarts, st.Conflicts
	out.Dynamic, out.Guests, out.Unknown, out.CanaryFaults, out.Failed = st.Dynamic, st.Guests, st.Unknown, r.CanaryFaults, r.Failed
	out.FallbackPeak = ir.Bytes(st.HeapPeakBytes)
	out.PeakAllocated, out.PeakReserved, out.Moved = ir.Bytes(st.PeakLiveBytes), ir.Bytes(st.PeakReservedBytes), ir.Bytes(st.MovedBytes)
	out.Trims, out.Returned, out.SetAside = st.Trims, ir.Bytes(st.ReturnedBytes), st.SetAside
	if out.PeakReserved > 0 {
		out.Efficiency = float64(out.PeakAllocated) / float64(out.PeakReserved)
	}
	if t.Reserved > 0 {
		reserved := int64(t.Reserved)
		out.Reserved = &reserved
	}
	if o.Events.On {
		out.Streams = streamsOf(r)
	}
	out.countHits(s, r, plan, entries, data != nil)
	return out, nil
}

// countHits compares where each request went with where the plan has it, by its own entry
// and not by what the runtime believed.
func (out *replayOutput) countHits(s *model.Script, r *stwrt.RunResult, plan *ir.Plan, entries []uint32, planned bool) {
	second := len(s.Ops)
	if len(s.Starts) > 1 {
		second = s.Starts[1]
	}
	var hits, steady, steadyHits int
	for k, op := range s.Ops {
		if op.Kind != model.OpAlloc {
			continue
		}
		out.Requests++
		if int(op.ID) >= len(entries) || entries[op.ID] == ir.NoEntry || !planned {
			continue
		}
		slot := &plan.Slots[plan.Entries[entries[op.ID]].Slot]
		if slot.Flags&ir.SlotPlanned == 0 {
			continue
		}
		out.Static++
		at, ok := r.Addresses[op.ID].Arena()
		hit := ok && int64(at) == slot.Lo
		if hit {
			hits++
		}
		if k >= second {
			steady++
			if hit {
				steadyHits++
			} else if !ok {
				out.StaticFallback += ir.RoundUp(ir.Bytes(op.Size))
			}
		}
	}
	out.HitRate, out.SteadyHitRate = 1, 1 // of nothing
	if !planned {
		out.HitRate, out.SteadyHitRate = 0, 0
	}
	if out.Static > 0 {
		out.HitRate = float64(hits) / float64(out.Static)
	}
	if steady > 0 {
		out.SteadyHitRate = float64(steadyHits) / float64(steady)
	}
}

func (a *app) printReplay(o *replayOutput, f *replayFlags) {
	w := a.table()
	what := f.mode
	if f.diverge != "" {
		what += ", " + f.diverge
	}
	w.row("replayed", fmt.Sprintf("%d iterations, %d requests (%s)", o.Iterations, o.Requests, what))
	if f.mode == "plan" {
		w.row("hits", fmt.Sprintf("%s of %d static requests at their planned address; %s from the second iteration on",
			percent(o.HitRate), o.Static, percent(o.SteadyHitRate)))
		w.row("matcher", fmt.Sprintf("%d resynchronisations, %d restarts, %d requests on the slow path", o.Resyncs, o.Restarts, o.Slow))
		w.row("fallback", fmt.Sprintf("%d conflicts, %d dynamic, %d unknown; %d served in idle arena space; heap peak %s", o.Conflicts, o.Dynamic, o.Unknown, o.Guests, bytesText(o.FallbackPeak)))
	}
	if x := o.Streams; x != nil {
		w.row("streams", fmt.Sprintf("an iteration: %.0f events recorded, %.0f waits for one, %.0f requests old on average; %.0f of them young",
			x.Records, x.Waits, x.Age, x.Young))
	}
	rulesRow(w, o.Rules)
	for _, x := range o.Unmet {
		w.row("unmet", x)
	}
	w.row("safety", fmt.Sprintf("%d overlaps, %d canary faults, %d failed", o.Overlaps, o.CanaryFaults, o.Failed))
	w.row("memory", fmt.Sprintf("peak allocated %s, peak reserved %s: E %s", bytesText(o.PeakAllocated), bytesText(o.PeakReserved), percent(o.Efficiency)))
	if f.capacity != "" && o.Trims > 0 {
		w.row("given back", fmt.Sprintf("%s an iteration, of idle memory, in %.1f trims", bytesText(o.Returned/ir.Bytes(o.Iterations)), float64(o.Trims)/float64(o.Iterations)))
	}
	if o.Moved > 0 {
		w.row("moved", fmt.Sprintf("%s an iteration, of idle memory between arena and heap", bytesText(o.Moved/ir.Bytes(o.Iterations))))
	}
	if o.SetAside > 0 {
		w.row("set aside", fmt.Sprintf("%d times: the program departs from the plan too much, the heap serves it until it is on plan again", o.SetAside))
	}
	if o.Reserved != nil {
		less := ir.Bytes(*o.Reserved) - o.PeakReserved
		word := "less"
		if less < 0 {
			less, word = -less, "more"
		}
		w.row("saving", fmt.Sprintf("%s %s than the %s that the recorded allocator reserved (%s)",
			compiler.Size(less), word, compiler.Size(ir.Bytes(*o.Reserved)), percent(float64(less)/float64(*o.Reserved))))
	}
	ratio := 0.0
	if o.BaselineNs > 0 {
		ratio = o.NsPerPair / o.BaselineNs
	}
	w.row("time", fmt.Sprintf("%.0f ns a malloc + free pair, %.1fx malloc(64) + free of the C library (%.0f ns)", o.NsPerPair, ratio, o.BaselineNs))
	w.flush()
}
