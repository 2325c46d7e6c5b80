package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
)

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  args(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]any{
					"version": compiler.Version, "plan_format": ir.PlanFormat, "go": runtime.Version(), "runtime": len(cgoCommands) > 0,
				})
			}
			with := "without the C runtime (replay and devices need a build with cgo)"
			if len(cgoCommands) > 0 {
				with = "with the C runtime"
			}
			_, err := fmt.Fprintf(a.stdout, "stweaver %s, plan format %s, %s, %s\n", compiler.Version, ir.PlanFormat, runtime.Version(), with)
			return err
		},
	}
}
