//go:build cgo

package stwrt

/*
#include "replay_driver.h"
#include "replay_events.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"stweaver/runtime/model"
)

// model.Op is read by C as it is.
var (
	_ [unsafe.Sizeof(C.stwd_op{}) - unsafe.Sizeof(model.Op{})]struct{}
	_ [unsafe.Sizeof(model.Op{}) - unsafe.Sizeof(C.stwd_op{})]struct{}
)

var (
	_ [unsafe.Sizeof(C.stwd_call{}) - unsafe.Sizeof(model.EventCall{})]struct{}
	_ [unsafe.Sizeof(model.EventCall{}) - unsafe.Sizeof(C.stwd_call{})]struct{}
)

// call is a stwd_list whose pointers lead to Go memory that is pinned until unpin.
type call struct {
	list C.stwd_list
	pins runtime.Pinner
}

func newCall(ops []model.Op, names []byte, nameAt []uint32, snapshots []C.stw_stats) *call {
	c := &call{}
	c.list.n_ops = C.size_t(len(ops))
	c.list.ops = (*C.stwd_op)(pin(c, ops))
	c.list.names = (*C.char)(pin(c, names))
	c.list.name_at = (*C.uint32_t)(pin(c, nameAt))
	c.list.snapshots = (*C.stw_stats)(pin(c, snapshots))
	return c
}

func pin[T any](c *call, s []T) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	c.pins.Pin(&s[0])
	return unsafe.Pointer(&s[0])
}

func (c *call) unpin() { c.pins.Unpin() }
