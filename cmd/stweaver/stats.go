package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
)

type statsOutput struct {
	Requests     int        `json:"requests"`
	Steps        int        `json:"steps"`
	StepsSource  string     `json:"steps_source"`
	Streams      int        `json:"streams"`
	LivePeak     ir.Bytes   `json:"live_peak_bytes"`
	StreamsApart ir.Bytes   `json:"streams_apart_bytes"` // sum of the streams' own live peaks
	Reserved     *ir.Bytes  `json:"recorded_reserved_bytes"`
	Allocator    string     `json:"recorded_allocator"`
	Efficiency   *float64   `json:"recorded_efficiency"`
	Format       string     `json:"format"`
	Device       int        `json:"device"`
	Digest       string     `json:"digest"`
	Sizes        int        `json:"distinct_sizes"`
	Findings     []noteJSON `json:"findings"`
}

type noteJSON struct {
	Level string `json:"level"`
	Code  string `json:"code"`
	Text  string `json:"text"`
}

func statsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stats IN",
		Short: "What a profile holds: requests, steps, live peak, what was reserved",
		Args:  args(1, "one profile"),
		RunE: func(_ *cobra.Command, in []string) error {
			t, err := a.read(in[0])
			if err != nil {
				return err
			}
			out := statsOf(t)
			if a.json {
				return a.printJSON(out)
			}
			w := a.table()
			w.row("format", out.Format)
			w.row("requests", fmt.Sprintf("%d (%d distinct sizes)", out.Requests, out.Sizes))
			w.row("steps", fmt.Sprintf("%d (%s)", out.Steps, out.StepsSource))
			w.row("streams", fmt.Sprint(out.Streams))
			w.row("live peak", bytesText(out.LivePeak))
			if out.Streams > 1 {
				w.row("streams apart", bytesText(out.StreamsApart)+" (sum of the streams' own live peaks)")
			}
			if out.Reserved != nil {
				w.row("reserved", fmt.Sprintf("%s by the recorded allocator (%s): E %s", bytesText(*out.Reserved), out.Allocator, percent(*out.Efficiency)))
			}
			w.row("digest", out.Digest)
			w.flush()
			printFindings(a, out.Findings)
			return nil
		},
	}
}

func statsOf(t *ir.Trace) *statsOutput {
	peak, _ := t.LivePeak()
	digest := t.Digest()
	out := &statsOutput{Requests: len(t.Requests), Streams: len(t.Streams), LivePeak: peak, Allocator: t.Allocator,
		Format: t.Format, Device: t.Device, Digest: fmt.Sprintf("%x", digest[:])}
	for _, p := range t.StreamPeaks() {
		out.StreamsApart += p
	}
	sizes := make(map[ir.Bytes]struct{})
	for i := range t.Requests {
		sizes[t.Requests[i].Rounded()] = struct{}{}
	}
	out.Sizes = len(sizes)
	if t.Reserved >= 0 {
		reserved, e := t.Reserved, 0.0
		if reserved > 0 {
			e = float64(peak) / float64(reserved)
		}
		out.Reserved, out.Efficiency = &reserved, &e
	}
	for _, n := range t.Notes {
		out.Findings = append(out.Findings, noteJSON{levelNames[n.Level], n.Code, n.Text})
	}
	steps, err := compiler.FindSteps(t)
	if err != nil {
		out.StepsSource = "none"
		out.Findings = append(out.Findings, noteJSON{"bad", "steps", err.Error()})
		return out
	}
	out.Steps, out.StepsSource = steps.N(), steps.Source
	for _, n := range steps.Notes {
		out.Findings = append(out.Findings, noteJSON{"info", "steps", n})
	}
	return out
}

var levelNames = []string{"info", "warn", "bad"}

func printFindings(a *app, list []noteJSON) {
	for _, n := range list {
		fmt.Fprintf(a.stdout, "%-4s  %s: %s\n", n.Level, n.Code, n.Text)
	}
}
