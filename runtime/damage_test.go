//go:build cgo

package stwrt

import (
	"testing"
	"unsafe"

	"stweaver/runtime/model"
)

// A changed byte in either end of a block is a fault; one between the ends is not looked at.
func TestCanarySeesDamage(t *testing.T) {
	const size = 1000 // 1024 rounded
	cases := []struct {
		offset uintptr
		faults uint64
	}{{0, 1}, {63, 1}, {64, 0}, {959, 0}, {960, 1}, {1023, 1}}
	for _, c := range cases {
		a, err := New(nil, Options{Granularity: 4096})
		if err != nil {
			t.Fatal(err)
		}
		s := &model.Script{IDs: 2, Ops: []model.Op{model.AllocOp(0, size, 0), model.AllocOp(1, size, 0)}}
		r, err := a.Run(s, RunOptions{Canary: true, Seed: 5, beforeRelease: func(at []uintptr) {
			p := at[1] + c.offset
			(**(**byte)(unsafe.Pointer(&p)))++
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r.CanaryFaults != c.faults {
			t.Errorf("byte %d changed: %d faults, want %d", c.offset, r.CanaryFaults, c.faults)
		}
		a.Close()
	}
}
