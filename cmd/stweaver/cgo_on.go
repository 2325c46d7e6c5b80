//go:build cgo

package main

import "github.com/spf13/cobra"

// cgoCommands are those that need C: the runtime and NVML.
var cgoCommands = []func(*app) *cobra.Command{
	replayCommand,
	devicesCommand,
}
