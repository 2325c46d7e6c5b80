package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
)

type compileFlags struct {
	out, effort, capacity, headroom, streams, steps, dump, reserve string
	onePass, explain, prove, curve                                 bool
	rules                                                          []string
}

func compileCommand(a *app) *cobra.Command {
	var f compileFlags
	c := &cobra.Command{
		Use:   "compile IN",
		Short: "Make a plan from a profile",
		Long: `compile reads a profile, finds its iterations, plans every request that repeats, verifies
the plan and, with -o, writes it. The report goes to standard output (to standard error
with -o -).

A signal (Ctrl-C, SIGTERM) while it packs ends the search: the best layout so far is verified and
written like any other, and the exit code is 130. A second one ends the command.`,
		Args: args(1, "one profile"),
		RunE: func(cmd *cobra.Command, in []string) error { return a.compile(cmd, in[0], &f) },
	}
	c.Flags().StringVarP(&f.out, "output", "o", "", "write the plan to `PLAN`; - is standard output")
	c.Flags().StringArrayVar(&f.rules, "rules", nil, "obey the rules in `FILE`; may be given several times, in order. Flags stand above rules")
	c.Flags().StringVar(&f.effort, "effort", "default", "how hard to pack: fast, default or max")
	c.Flags().StringVar(&f.capacity, "capacity", "", "most memory the plan may take, e.g. 80GiB: fail (exit 5) if it does not fit")
	c.Flags().StringVar(&f.headroom, "headroom", "", "of the capacity, what stays free for communication, workspaces and the context: the runtime never takes it")
	c.Flags().StringVar(&f.streams, "streams", "apart", "whether requests of different streams share memory, AGE requests (500 where none is said) after a free: `apart|shared[:AGE]`")
	c.Flags().BoolVar(&f.curve, "curve", false, "with --streams shared: print what other AGEs cost and give; packs as often, and the plan gets the best layout that its AGE allows")
	c.Flags().StringVar(&f.steps, "steps", "", "plan from iterations `A:B` of the profile, counted from 0, B excluded")
	c.Flags().BoolVar(&f.onePass, "one-pass", false, "do not look for iterations: plan the recording as it is, once through")
	c.Flags().StringVar(&f.reserve, "reserve", "", "arena room for dynamic requests: `QUANTILE` of the iterations' peaks, e.g. 50%, or 50%,headroom=1.1,cap=8GiB; usually costs more than it gives, the report says")
	c.Flags().BoolVar(&f.explain, "explain", false, "say where the peak is, what holds it up, and what would lower it")
	c.Flags().BoolVar(&f.prove, "prove", false, "where the plan is above its bound, ask SAT for a proof; takes up to ten seconds a stream and changes no plan")
	c.Flags().StringVar(&f.dump, "dump", "", "print the text form after `PASS` instead of the report: "+strings.Join(compiler.PassNames(), ", "))
	return c
}

func (f *compileFlags) options() (compiler.Options, error) {
	o := compiler.Options{Effort: compiler.Effort(f.effort), Dump: f.dump, OnePass: f.onePass}
	if !slices.Contains(compiler.Efforts, o.Effort) {
		return o, usagef("--effort %s: one of fast, default, max", f.effort)
	}
	if f.dump != "" && !slices.Contains(compiler.PassNames(), f.dump) {
		return o, usagef("--dump %s: one of %s", f.dump, strings.Join(compiler.PassNames(), ", "))
	}
	var err error
	if o.Sharing, err = parseSharing(f.streams); err != nil {
		return o, usagef("--streams %s: %v", f.streams, err)
	}
	o.Curve = f.curve
	if f.onePass && f.steps != "" {
		return o, usagef("--one-pass and --steps exclude each other")
	}
	o.From, o.To, err = parseRange("--steps", f.steps)
	return o, err
}

// withRules adds the rules of files and flags to o.
func (a *app) withRules(cmd *cobra.Command, f *compileFlags, o *compiler.Options) (err error) {
	if o.Rules, err = a.loadRules(f.rules); err != nil {
		return err
	}
	if err := a.flagsOver(cmd, f, &o.Rules); err != nil {
		return err
	}
	if o.Rules.Effort != "" {
		o.Effort = compiler.Effort(o.Rules.Effort)
	}
	if o.Curve && !o.Sharing.On && o.Rules.Find(ir.RuleShare) < 0 {
		return usagef("--curve: it is about streams that share; add --streams shared")
	}
	return nil
}

func (a *app) compile(cmd *cobra.Command, in string, f *compileFlags) error {
	if cmd.Flags().Changed("output") && f.out == "" {
		return usagef("-o: the path is empty")
	}
	o, err := f.options()
	if err == nil {
		err = a.withRules(cmd, f, &o)
	}
	if err != nil {
		return err
	}
	text := *a // where the report goes: not between the bytes of a plan
	if f.out == "-" {
		text.stdout = a.stderr
	}
	if f.dump != "" {
		o.DumpTo = text.stdout
	}
	began := time.Now()
	t, err := a.readFor(in, &o.Rules)
	if err != nil {
		return err
	}
	read := time.Since(began).Seconds()
	p := a.progress("packing")
	o.Stop = a.interrupts.arm()
	o.Progress = func(pass string, done, total int, best, bound ir.Bytes) {
		if pass == "verify" {
			a.interrupts.disarm()
		}
		state := ""
		if bound > 0 {
			state = fmt.Sprintf("%s, bound %s, gap %s", compiler.Size(best), compiler.Size(bound), percent(float64(best)/float64(bound)-1))
		}
		p.set(int64(done), int64(total), state)
	}
	c, err := compiler.Compile(cmd.Context(), t, o)
	a.interrupts.disarm()
	p.close()
	var steps *compiler.StepsError
	if errors.As(err, &steps) && f.steps == "" {
		err = fmt.Errorf("%w; or plan the recording as it is, once through (--one-pass)", err)
	}
	if err != nil {
		a.blame(err, &o.Rules)
		return named(in, err)
	}
	encoding := time.Now()
	data, err := ir.EncodePlan(c.Plan)
	if err != nil {
		return err
	}
	encoded := time.Since(encoding).Seconds()
	if f.out != "" {
		if err := a.writeFile(f.out, data); err != nil {
			return err
		}
	}
	if f.dump != "" {
		return interrupted(in, c)
	}
	s := c.Summary(len(data), read, encoded)
	if f.prove {
		s.Proofs = c.Prove(cmd.Context())
	}
	if f.explain {
		s.Explain = c.Explain()
		s.Repeats = c.Repeats()
	}
	if err := text.printSummary(s); err != nil {
		return err
	}
	return interrupted(in, c)
}

var errInterrupted = errors.New("the search was interrupted; the plan holds the best layout found until then")

// interrupted is the error of a compile whose search was ended by a signal. The plan is whole.
func interrupted(in string, c *compiler.Compiled) error {
	if !c.Interrupted {
		return nil
	}
	return named(in, errInterrupted)
}

// named puts the input's name before an error about its content.
func named(in string, err error) error { return fmt.Errorf("%s: %w", in, err) }

func (a *app) printSummary(s *compiler.Summary) error {
	if a.json {
		return a.printJSON(s)
	}
	w := a.table()
	loop := "one pass, no loop"
	if s.Steps > 0 {
		loop = fmt.Sprintf("%d found (%s), planned from %d:%d", s.Steps, s.StepsSource, s.StepsUsed[0], s.StepsUsed[1])
	}
	if s.Unroll > 1 {
		loop += fmt.Sprintf(", %d in the loop: some tensors outlive one", s.Unroll)
	}
	w.row("steps", loop)
	w.row("requests", fmt.Sprintf("%d recorded; plan: %d once, then %d in each step", s.Requests, s.PrologueRequests, s.StepRequests))
	for _, k := range ir.Kinds {
		if n := s.Kinds[k.String()]; n.Requests > 0 {
			w.row("  "+k.String(), fmt.Sprintf("%d requests, %s", n.Requests, compiler.Size(n.Bytes)))
		}
	}
	w.row("live peak", bytesText(s.LivePeak)+" of the whole profile")
	w.row("bound", bytesText(s.Bound)+" ("+s.BoundKind+" of what is planned)")
	proved := ""
	if s.Proved {
		proved = ", the least possible"
	}
	w.row("plan peak", fmt.Sprintf("%s, gap %s%s", bytesText(s.PlanPeak), percent(s.Gap), proved))
	if s.StreamsApart > 0 {
		w.row("streams", fmt.Sprintf("%d kept apart: costs %s", s.Streams, compiler.Size(s.StreamsApart)))
	}
	if x := s.Shared; x != nil {
		w.row("streams", fmt.Sprintf("%d, %s: apart the profile needs at least %s", s.Streams, s.Sharing, compiler.Size(x.Apart)))
		if x.Held > 0 {
			w.row("", fmt.Sprintf("frees that record_stream deferred hold %s of it: with a smaller AGE their stream waits instead", compiler.Size(x.Held)))
		}
		w.row("waits", x.Waits.String())
		for _, p := range x.Curve {
			w.row(fmt.Sprintf("  AGE %d", p.Age), fmt.Sprintf("plan peak %s; waits: %s", compiler.Size(p.Peak), p.Waits))
		}
		if x.Program != "" {
			w.row("", x.Program)
		}
	}
	if s.OutsidePlan > 0 {
		w.row("outside", bytesText(s.OutsidePlan)+" were resident before recording began; the heap serves them")
	}
	if s.Reserved != nil {
		w.row("recorded", fmt.Sprintf("%s reserved by the %s allocator, E %s", bytesText(*s.Reserved), s.Allocator, percent(*s.RecordedE)))
	}
	if r := s.Rehearsal; r != nil {
		w.row("rehearsal", fmt.Sprintf("plan and heap reserve %s, the heap alone %s, for %s live", compiler.Size(r.Kept()), compiler.Size(r.Heap), compiler.Size(r.Live)))
		if r.Layouts > 1 {
			w.row("", fmt.Sprintf("the best of %d layouts of equal peak; the worst reserves %s", r.Layouts, compiler.Size(r.Worst)))
		}
	}
	for _, p := range s.Proofs {
		w.row("proof", p.String())
	}
	if s.Room != nil {
		w.row("reserve", s.Room.String())
	}
	rulesRow(w, s.Rules)
	if o := s.Obeyed; o != nil {
		w.row("", fmt.Sprintf("plan peak %s, without them %s", compiler.Size(o.After), compiler.Size(o.Before)))
		if o.Kept > 0 {
			w.row("", fmt.Sprintf("%s are kept from what is not planned", compiler.Size(o.Kept)))
		}
		for _, r := range o.Regions {
			w.row("", r.String())
		}
		for _, r := range o.Rules {
			if r.Cost > 0 {
				w.row("", r.String())
			}
		}
	}
	w.row("method", s.Method)
	for _, x := range s.Repeats {
		w.row("repeats", x.String())
	}
	w.row("plan file", fmt.Sprintf("%d bytes, %.1f a planned request of the step", s.PlanFile, s.BytesPerRequest))
	w.row("verified", fmt.Sprintf("%d buffers, %d requests on the recorded events", s.VerifiedBuffers, s.VerifiedRequests))
	w.row("time", timeLine(s))
	w.flush()
	for _, n := range s.Notes {
		fmt.Fprintf(a.stdout, "note  %s\n", n)
	}
	if s.Explain != nil {
		fmt.Fprintln(a.stdout)
		s.Explain.WriteText(a.stdout)
	}
	return nil
}

func timeLine(s *compiler.Summary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.2f s:", s.Seconds)
	for _, p := range s.Passes {
		fmt.Fprintf(&b, " %s %.2f", p.Name, p.Seconds)
	}
	return b.String()
}

// parseRange reads "A:B"; "" is 0, 0.
func parseRange(flag, s string) (from, to int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	x, y, ok := strings.Cut(s, ":")
	from, e1 := strconv.Atoi(x)
	to, e2 := strconv.Atoi(y)
	if !ok || e1 != nil || e2 != nil || from < 0 || to <= from {
		return 0, 0, usagef("%s %s: want A:B with 0 <= A < B", flag, s)
	}
	return from, to, nil
}

// parseSharing reads "apart", "shared" or "shared:AGE".
func parseSharing(s string) (ir.Sharing, error) {
	switch how, text, given := strings.Cut(s, ":"); {
	case s == "apart":
		return ir.Sharing{}, nil
	case how == "shared" && !given:
		return ir.Sharing{On: true, Age: compiler.DefaultAge}, nil
	case how == "shared":
		if age, err := strconv.ParseInt(text, 10, 64); err == nil && age >= 0 && ir.Tick(age) <= ir.MaxAge {
			return ir.Sharing{On: true, Age: ir.Tick(age)}, nil
		}
		return ir.Sharing{}, fmt.Errorf("AGE is a number of requests from 0 to %d", int64(ir.MaxAge))
	}
	return ir.Sharing{}, errors.New("want apart, shared, or shared:AGE with the requests that must lie between a free and a reuse on another stream")
}

// parseReserve reads "50%", or "50%,headroom=1.1,cap=8GiB" with either of the two.
func parseReserve(s string) (r ir.Reserve, err error) {
	wrong := errors.New("want a quantile and, if they are to differ from 1 and none, headroom and cap: 50%,headroom=1.1,cap=8GiB")
	fields := strings.Split(s, ",")
	quantile, ok := strings.CutSuffix(strings.TrimSpace(fields[0]), "%")
	q, err := strconv.ParseFloat(quantile, 64)
	if !ok || err != nil || !(q >= 0 && q <= 100) {
		return r, wrong
	}
	r.Quantile, r.Headroom = q/100, 1
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(strings.TrimSpace(f), "=")
		switch key {
		case "headroom":
			r.Headroom, err = strconv.ParseFloat(value, 64)
			if err != nil || !(r.Headroom > 0 && r.Headroom <= 100) {
				return r, errors.New("headroom is a factor above 0 and up to 100")
			}
		case "cap":
			if r.Cap, err = parseSize(value); err != nil {
				return r, fmt.Errorf("cap: %w", err)
			}
		default:
			return r, wrong
		}
	}
	return r, nil
}

// parseSize reads a number of bytes with an optional unit: B, KiB, MiB, GiB, TiB (and KB,
// MB, GB, TB as powers of ten).
func parseSize(s string) (ir.Bytes, error) {
	units := []struct {
		name string
		n    float64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
	}
	for _, u := range units {
		num, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil || !(v > 0) || v*u.n > float64(ir.MaxSize) {
			return 0, fmt.Errorf("not a size; want bytes or a number with KiB, MiB, GiB, TiB")
		}
		return ir.Bytes(v * u.n), nil
	}
	panic("BUG: the empty unit matches everything")
}
