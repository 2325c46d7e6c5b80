package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

type checkOutput struct {
	OK       bool       `json:"ok"`
	Verdict  string     `json:"verdict"`
	Findings []noteJSON `json:"findings"`
}

func checkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check IN",
		Short: "Whether a profile can be planned from, and what is wrong with it",
		Long: `check reads a profile and lists what it found about its quality: a recording that began
late, a ring buffer that wrapped, lost or pending frees, no whole iteration. It exits with 4
where no plan can be made from it.`,
		Args: args(1, "one profile"),
		RunE: func(_ *cobra.Command, in []string) error {
			t, err := a.read(in[0])
			if err != nil {
				return err
			}
			s := statsOf(t)
			out := checkOutput{OK: true, Findings: s.Findings}
			for _, f := range s.Findings {
				out.OK = out.OK && f.Level != "bad"
			}
			switch {
			case !out.OK:
				out.Verdict = "no plan can be made from this profile"
			case s.Steps == 0:
				out.Verdict = "usable: planned as one pass, without a loop"
			default:
				out.Verdict = fmt.Sprintf("usable: %d iterations (%s)", s.Steps, s.StepsSource)
			}
			if a.json {
				err = a.printJSON(out)
			} else {
				printFindings(a, out.Findings)
				fmt.Fprintln(a.stdout, out.Verdict)
			}
			if err == nil && !out.OK {
				return &checkError{fmt.Sprintf("%s: %s", in[0], out.Verdict)}
			}
			return err
		},
	}
}
