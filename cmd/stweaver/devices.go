//go:build cgo

package main

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/spf13/cobra"

	"stweaver/compiler"
	"stweaver/ir"
)

type deviceOutput struct {
	Index int      `json:"index"`
	Name  string   `json:"name"`
	Total ir.Bytes `json:"total_bytes"`
	Free  ir.Bytes `json:"free_bytes"`
}

func devicesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "List the NVIDIA devices of this machine with their memory",
		Args:  args(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			list, why := listDevices()
			if a.json {
				return a.printJSON(map[string]any{"devices": list, "note": why})
			}
			if why != "" {
				fmt.Fprintln(a.stdout, why)
				return nil
			}
			w := a.table()
			for _, d := range list {
				w.row(fmt.Sprintf("%d  %s", d.Index, d.Name), fmt.Sprintf("%s, %s free", compiler.Size(d.Total), compiler.Size(d.Free)))
			}
			w.flush()
			return nil
		},
	}
}

// listDevices asks NVML. A machine without its library or without devices is not an error:
// the second result says so in a sentence.
func listDevices() ([]deviceOutput, string) {
	list := []deviceOutput{}
	switch ret := nvml.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return list, "No NVIDIA devices: the NVML library (libnvidia-ml.so.1, part of the driver) is not installed here. Plans do not need it; give compile --capacity instead."
	default:
		return list, fmt.Sprintf("No NVIDIA devices: NVML does not start (%s).", nvml.ErrorString(ret))
	}
	defer nvml.Shutdown()
	n, ret := nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return list, fmt.Sprintf("No NVIDIA devices: NVML cannot count them (%s).", nvml.ErrorString(ret))
	}
	for i := range n {
		d, ret := nvml.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		name, _ := d.GetName()
		mem, ret := d.GetMemoryInfo()
		if ret != nvml.SUCCESS {
			continue
		}
		list = append(list, deviceOutput{i, name, ir.Bytes(mem.Total), ir.Bytes(mem.Free)})
	}
	if len(list) == 0 {
		return list, "No NVIDIA devices are visible."
	}
	return list, ""
}
