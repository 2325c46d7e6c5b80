package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"stweaver/ir"
	"stweaver/profile"
)

func dumpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "dump FILE",
		Short: "Print a plan or a profile as text",
		Long:  `dump prints the one text form: of a plan, or of a profile as it was read.`,
		Args:  args(1, "one plan or profile"),
		RunE: func(_ *cobra.Command, in []string) error {
			data, err := a.readInput(in[0])
			if err != nil {
				return err
			}
			if ir.IsPlan(data) {
				p, err := ir.DecodePlan(data)
				if err != nil {
					return named(in[0], err)
				}
				if a.json {
					return a.printJSON(p)
				}
				return p.WriteText(a.stdout)
			}
			t, err := profile.Read(in[0], bytes.NewReader(data), profile.Options{Device: a.device})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(t)
			}
			return t.WriteText(a.stdout)
		},
	}
}
