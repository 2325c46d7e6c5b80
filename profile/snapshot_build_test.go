package profile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// ev describes an event of a hand-made snapshot.
type ev struct {
	action string
	addr   uint64
	size   int64
	stream int64
	time   int64
	label  string
}

func alloc(addr uint64, size int64) ev { return ev{action: "alloc", addr: addr, size: size} }
func ask(addr uint64, size int64) ev   { return ev{action: "free_requested", addr: addr, size: size} }
func done(addr uint64, size int64) ev  { return ev{action: "free_completed", addr: addr, size: size} }

func (e ev) dict() *testkit.Dict {
	d := (&testkit.Dict{}).Set("action", e.action).Set("addr", e.addr).Set("size", e.size).Set("stream", e.stream)
	if e.time != 0 {
		d.Set("time_us", e.time)
	}
	if e.label != "" {
		d.Set("user_metadata", e.label)
	}
	return d
}

// blk is a block of a final segment.
type blk struct {
	size  int64
	state string
}

const (
	active   = "active_allocated"
	pending  = "active_pending_free"
	inactive = "inactive"
)

// seg makes a segment that its blocks fill.
func seg(device int, addr uint64, blocks ...blk) *testkit.Dict {
	list, total := &testkit.List{}, int64(0)
	for _, b := range blocks {
		list.Items = append(list.Items, (&testkit.Dict{}).Set("address", addr+uint64(total)).Set("size", b.size).
			Set("requested_size", b.size).Set("state", b.state))
		total += b.size
	}
	return (&testkit.Dict{}).Set("device", device).Set("address", addr).Set("total_size", total).Set("stream", 0).
		Set("segment_pool_id", testkit.Tuple{0, 0}).Set("is_expandable", false).Set("blocks", list)
}

// snap makes a snapshot of the events of each device.
func snap(segments []*testkit.Dict, devices ...[]ev) *testkit.Dict {
	traces := &testkit.List{}
	for _, events := range devices {
		l := &testkit.List{}
		for _, e := range events {
			l.Items = append(l.Items, e.dict())
		}
		traces.Items = append(traces.Items, l)
	}
	segs := &testkit.List{}
	for _, s := range segments {
		segs.Items = append(segs.Items, s)
	}
	return (&testkit.Dict{}).Set("segments", segs).Set("device_traces", traces)
}

func pickle(t testing.TB, v any, proto int) []byte {
	t.Helper()
	var b bytes.Buffer
	p := testkit.NewPickler(&b, proto)
	p.Value(v)
	if _, err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readBytes(t testing.TB, content []byte) (*ir.Trace, error) {
	t.Helper()
	tr, err := Read("test", bytes.NewReader(content), DefaultOptions())
	if err == nil {
		if bad := tr.Check(); bad != nil {
			t.Fatal(bad)
		}
	}
	return tr, err
}

func mustSnap(t testing.TB, v any) *ir.Trace {
	t.Helper()
	tr, err := readBytes(t, pickle(t, v, 4))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// codes are the notes' codes, in order.
func codes(t *ir.Trace) []string {
	var c []string
	for _, n := range t.Notes {
		c = append(c, n.Code)
	}
	return c
}

// lifeline writes requests as "size[alloc,asked,free)" with their flags.
func lifeline(t *ir.Trace) string {
	var b strings.Builder
	for _, r := range t.Requests {
		fmt.Fprintf(&b, "%d[%v,%v,%v)", r.Size, r.Alloc, r.FreeRequested, r.Free)
		for _, f := range []struct {
			bit  ir.RequestFlags
			name string
		}{{ir.Ghost, "ghost"}, {ir.LostFree, "lost"}, {ir.PendingFree, "pending"}} {
			if r.Flags&f.bit != 0 {
				b.WriteString(" " + f.name)
			}
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}
