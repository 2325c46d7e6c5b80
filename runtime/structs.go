//go:build cgo

package stwrt

/*
#include "stw_plan.h"
*/
import "C"

import "unsafe"

// Struct is the layout of a C struct, in bytes.
type Struct struct {
	Size    uintptr
	Offsets map[string]uintptr // by field
}

// StructSizes returns the layout of every struct of stw_plan.h by its C name, for the test that
// holds package ir's codec against the header.
func StructSizes() map[string]Struct {
	var (
		header  C.stw_plan_header
		section C.stw_plan_section
		slot    C.stw_plan_slot
		entry   C.stw_plan_entry
		stream  C.stw_plan_stream
		mark    C.stw_plan_mark
	)
	return map[string]Struct{
		"stw_plan_header": {unsafe.Sizeof(header), map[string]uintptr{
			"magic":          unsafe.Offsetof(header.magic),
			"major":          unsafe.Offsetof(header.major),
			"minor":          unsafe.Offsetof(header.minor),
			"header_bytes":   unsafe.Offsetof(header.header_bytes),
			"file_bytes":     unsafe.Offsetof(header.file_bytes),
			"crc32c":         unsafe.Offsetof(header.crc32c),
			"n_sections":     unsafe.Offsetof(header.n_sections),
			"profile":        unsafe.Offsetof(header.profile),
			"capacity_bytes": unsafe.Offsetof(header.capacity_bytes),
			"arena_bytes":    unsafe.Offsetof(header.arena_bytes),
			"bound_bytes":    unsafe.Offsetof(header.bound_bytes),
			"align":          unsafe.Offsetof(header.align),
			"n_streams":      unsafe.Offsetof(header.n_streams),
			"n_slots":        unsafe.Offsetof(header.n_slots),
			"n_entries":      unsafe.Offsetof(header.n_entries),
			"loop_start":     unsafe.Offsetof(header.loop_start),
			"n_marks":        unsafe.Offsetof(header.n_marks),
			"shared_age":     unsafe.Offsetof(header.shared_age),
			"reserved":       unsafe.Offsetof(header.reserved),
		}},
		"stw_plan_section": {unsafe.Sizeof(section), map[string]uintptr{
			"kind":   unsafe.Offsetof(section.kind),
			"flags":  unsafe.Offsetof(section.flags),
			"offset": unsafe.Offsetof(section.offset),
			"bytes":  unsafe.Offsetof(section.bytes),
		}},
		"stw_plan_slot": {unsafe.Sizeof(slot), map[string]uintptr{
			"lo":     unsafe.Offsetof(slot.lo),
			"hi":     unsafe.Offsetof(slot.hi),
			"aux":    unsafe.Offsetof(slot.aux),
			"stream": unsafe.Offsetof(slot.stream),
			"flags":  unsafe.Offsetof(slot.flags),
		}},
		"stw_plan_entry": {unsafe.Sizeof(entry), map[string]uintptr{
			"slot":    unsafe.Offsetof(entry.slot),
			"life_nf": unsafe.Offsetof(entry.life_nf),
		}},
		"stw_plan_stream": {unsafe.Sizeof(stream), map[string]uintptr{
			"handle": unsafe.Offsetof(stream.handle),
			"begin":  unsafe.Offsetof(stream.begin),
			"end":    unsafe.Offsetof(stream.end),
		}},
		"stw_plan_mark": {unsafe.Sizeof(mark), map[string]uintptr{
			"entry": unsafe.Offsetof(mark.entry),
			"kind":  unsafe.Offsetof(mark.kind),
			"value": unsafe.Offsetof(mark.value),
			"name":  unsafe.Offsetof(mark.name),
		}},
	}
}
