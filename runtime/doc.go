// Package stwrt is the Go binding of the C runtime allocator in this folder, for tests, for
// replaying profiles and for measuring. The program that trains uses the C library itself.
//
// An Allocator is one stw_allocator over host memory (stw.h, backend_host.c). Malloc, Free and
// Mark cross from Go to C each time, which costs more than the allocator does; Run executes a
// whole list of operations inside C (replay_driver.c), with canaries in every block or with a
// clock round it.
//
// An Allocator must be closed; nothing else frees it. Its methods may be called by several
// goroutines at once, except Close. Everything but this page needs cgo: without it the package
// is empty.
package stwrt
