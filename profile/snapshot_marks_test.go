package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

func TestSnapshotMarks(t *testing.T) {
	events := []ev{
		{action: "segment_alloc", addr: addrX, size: 2 << 20, time: 100},
		{action: "alloc", addr: addrX, size: 1, time: 100, label: "setup"},          // tick 0
		{action: "alloc", addr: addrX + 512, size: 1, time: 110},                    // tick 1
		{action: "free_requested", addr: addrX, size: 1, time: 120, label: "setup"}, // tick 2
		{action: "free_completed", addr: addrX, size: 1, time: 120, label: "setup"},
		{action: "alloc", addr: addrX, size: 1, time: 119, label: "iter 0"}, // tick 3, clock went back
		{action: "alloc", addr: addrY, size: 1, time: 130},                  // tick 4
	}
	span := func(name, stage string, device, time int64) *testkit.Dict {
		return (&testkit.Dict{}).Set("stage", stage).Set("name", name).Set("device", device).Set("time_us", time)
	}
	s := snap(nil, events).Set("external_annotations", &testkit.List{Items: []any{
		span("early", "START", 0, 10), span("early", "END", 0, 20), // over before the first event
		span("step", "START", 0, 105), span("other device", "START", 1, 105),
		span("step", "END", 0, 125), span("late", "START", 0, 999),
		span("open", "START", 0, 50),
	}})
	tr := mustSnap(t, s)
	var got []string
	for _, m := range tr.Marks {
		got = append(got, fmt.Sprintf("%v %d %s", m.Tick, m.Kind, tr.Name(m.Name)))
	}
	enter, leave := int(ir.MarkEnter), int(ir.MarkLeave)
	want := []string{
		fmt.Sprintf("0 %d open", enter), fmt.Sprintf("0 %d setup", enter),
		fmt.Sprintf("1 %d step", enter), fmt.Sprintf("3 %d iter 0", enter),
		fmt.Sprintf("4 %d step", leave), fmt.Sprintf("5 %d late", enter),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !slices.Contains(codes(tr), "marks") {
		t.Errorf("the spans that were left out are not told: %v", codes(tr))
	}
	// Events without times: spans have no place, labels do.
	for i := range events {
		events[i].time = 0
	}
	tr = mustSnap(t, snap(nil, events).Set("external_annotations", &testkit.List{Items: []any{span("step", "START", 0, 105)}}))
	if len(tr.Marks) != 2 || !slices.Contains(codes(tr), "marks") {
		t.Errorf("%d marks, notes %v", len(tr.Marks), codes(tr))
	}
}

// TestSite: the innermost frame that is the user's, shared through the memo.
func TestSite(t *testing.T) {
	frame := func(file string, line int, name string) *testkit.Dict {
		return (&testkit.Dict{}).Set("name", name).Set("filename", file).Set("line", line)
	}
	mine := frame("src/train.py", 12, "main")
	stack := &testkit.List{Items: []any{frame("??", 0, "c10::malloc"), frame("/venv/site-packages/torch/nn/module.py", 5, "_call"), mine, frame("src/outer.py", 1, "x")}}
	events := &testkit.List{Items: []any{
		alloc(addrX, 512).dict().Set("frames", stack),
		alloc(addrY, 512).dict().Set("frames", &testkit.List{Items: []any{mine}}),
		alloc(addrY+512, 512).dict().Set("frames", &testkit.List{Items: []any{frame("??", 0, "f")}}),
		alloc(addrY+1024, 512).dict(),
	}}
	tr := mustSnap(t, (&testkit.Dict{}).Set("device_traces", &testkit.List{Items: []any{events}}))
	var got []string
	for _, r := range tr.Requests {
		got = append(got, tr.Name(r.Site))
	}
	if want := []string{"src/train.py:12 main", "src/train.py:12 main", "", ""}; !slices.Equal(got, want) {
		t.Errorf("sites %q, want %q", got, want)
	}
}

func TestSnapshotRefused(t *testing.T) {
	list := func(v ...any) *testkit.List { return &testkit.List{Items: v} }
	for _, c := range []struct {
		name string
		v    any
		want []string
	}{
		{"bare list of segments (reports 13)", list(seg(0, addrX, blk{512, active})), []string{"bare list of segments", noEventsHint}},
		{"some other list", list(1, 2), []string{"not of segments"}},
		{"no traces", (&testkit.Dict{}).Set("segments", list()), []string{"no alloc events", noEventsHint}},
		{"another dict", (&testkit.Dict{}).Set("model", 1), []string{"not a memory snapshot"}},
		{"a number", 5, []string{"not a memory snapshot"}},
		{"no events", snap(nil, nil), []string{"no alloc events", noEventsHint}},
		{"no bytes", snap(nil, []ev{alloc(addrX, 0), ask(addrX, 0)}), []string{"1 alloc events, all of no bytes"}},
		{"only segments", snap(nil, []ev{{action: "segment_alloc", addr: 1, size: 512}}), []string{"no alloc events"}},
		{"negative size", snap(nil, []ev{alloc(addrX, 1), alloc(addrX, -5)}), []string{"device 0, event 1 (alloc)", "negative size -5"}},
		{"huge size", snap(nil, []ev{alloc(addrX, 1<<60+1)}), []string{"event 0", "2^60"}},
		{"sum overflows", snap(nil, slices.Repeat([]ev{alloc(addrX, 1<<60)}, 9)), []string{"2^63"}},
		{"segments overflow", snap(nil, append(slices.Repeat([]ev{{action: "segment_alloc", addr: 1, size: 1 << 60}}, 9), alloc(addrX, 1))), []string{"2^63"}},
		{"no size", (&testkit.Dict{}).Set("device_traces", list(list((&testkit.Dict{}).Set("action", "alloc").Set("addr", 5)))), []string{"addr or size is missing"}},
		{"text for a number", (&testkit.Dict{}).Set("device_traces", list(list((&testkit.Dict{}).Set("action", "alloc").Set("addr", "5").Set("size", 1)))), []string{`field "addr" is a str`, "offset"}},
		{"block too large", snap([]*testkit.Dict{seg(0, addrX, blk{1<<60 + 512, active})}, []ev{alloc(addrX, 1)}), []string{"2^60"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readBytes(t, pickle(t, c.v, 4))
			var e *Error
			if !errors.As(err, &e) || e.Format != "torch-snapshot" {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}
