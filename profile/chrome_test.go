package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// mem writes a [memory] event.
func mem(ts string, idx int, addr uint64, bytes int64) string {
	return fmt.Sprintf(`{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":2,"ts":%s,
		"args":{"Ev Idx":%d,"Device Type":1,"Device Id":0,"Addr":%d,"Bytes":%d,"Total Allocated":1,"Total Reserved":1048576}}`, ts, idx, addr, bytes)
}

func spanEvent(cat, name, ts, dur string) string {
	return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"ts":%s,"dur":%s,"args":{"Addr":"none"}}`, cat, name, ts, dur)
}

func chromeFileOf(events ...string) string {
	return `{"schemaVersion":1,"deviceProperties":[{"id":0}],"traceEvents":[` + strings.Join(events, ",\n") + `],"traceName":"x"}`
}

func readText(t testing.TB, text string) (*ir.Trace, error) {
	t.Helper()
	return readBytes(t, []byte(text))
}

func TestChrome(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		notes            []string
	}{
		{"pairs", chromeFileOf(mem("1", 0, 512, 512), mem("2", 1, 512, -512), mem("3", 2, 512, 1024)), "512[0,1,1); 1024[2,never,never)", nil},
		{"sorted by time", chromeFileOf(mem("3", 2, 512, 1024), mem("2", 1, 512, -512), mem("1", 0, 512, 512)), "512[0,1,1); 1024[2,never,never)", nil},
		{"equal times: by Ev Idx", chromeFileOf(mem("1", 2, 512, 1024), mem("1", 1, 512, -512), mem("1", 0, 512, 512)), "512[0,1,1); 1024[2,never,never)", nil},
		{"fractions count", chromeFileOf(mem("1669783687464300.126", 0, 512, -512), mem("1669783687464300.125", 1, 512, 512)), "512[0,1,1)", nil},
		{"and to the last digit", chromeFileOf(mem("1669783687464300.1250000000001", 0, 512, -512), mem("1669783687464300.125", 1, 512, 512)), "512[0,1,1)", nil},
		{"addresses beyond 2^53", chromeFileOf(mem("1", 0, 1<<63+1, 512), mem("2", 1, 1<<63, 1024), mem("3", 2, 1<<63+1, -512)), "512[0,2,2); 1024[1,never,never)", nil},
		{"free before", chromeFileOf(mem("1", 0, 512, -1536), mem("2", 1, 512, 512)), "1536[before,0,0); 512[1,never,never)", []string{"late"}},
		{"lost free", chromeFileOf(mem("1", 0, 512, 512), mem("2", 1, 512, 512)), "512[0,1,1) lost; 512[2,never,never)", []string{"lost-free"}},
		{"bare array", "[" + mem("1", 0, 512, 512) + "]", "512[0,never,never)", nil},
		{"host and other devices are left out", chromeFileOf(
			strings.Replace(mem("1", 0, 512, 512), `"Device Type":1,"Device Id":0`, `"Device Type":0,"Device Id":-1`, 1),
			strings.Replace(mem("1", 0, 512, 512), `"Device Type":1`, `"Device Type":12`, 1),
			strings.Replace(mem("2", 0, 512, 512), `"Device Id":0`, `"Device Id":3`, 1),
			mem("3", 1, 512, 1024), mem("4", 2, 512, -1024)), "1024[0,1,1)", []string{"devices", "host", "devices"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := readText(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := lifeline(tr); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if got := codes(tr); !slices.Equal(got, c.notes) {
				t.Errorf("notes %q, want %q", got, c.notes)
			}
			if tr.Reserved != 1<<20 || tr.Late != slices.Contains(c.notes, "late") {
				t.Errorf("reserved %d, late %v", tr.Reserved, tr.Late)
			}
			for _, r := range tr.Requests {
				if r.Flags&ir.Sized == 0 {
					t.Errorf("request %+v is not marked as a block size", r)
				}
			}
		})
	}
}

// TestChromeNoIdx: without Ev Idx the file's order decides between equal times.
func TestChromeNoIdx(t *testing.T) {
	plain := func(addr uint64, bytes int64) string {
		return strings.Replace(mem("7", 9, addr, bytes), `"Ev Idx":9,`, "", 1)
	}
	tr, err := readText(t, chromeFileOf(plain(512, 512), plain(512, -512), mem("7", 0, 512, 1024)))
	if err != nil || lifeline(tr) != "512[0,1,1); 1024[2,never,never)" {
		t.Errorf("%v %v", lifeline(tr), err)
	}
}

func TestChromeMarks(t *testing.T) {
	tr, err := readText(t, chromeFileOf(
		mem("10", 0, 512, 512), mem("20", 1, 512, -512), mem("30", 2, 512, 512), mem("40", 3, 512, -512), mem("50", 4, 512, 512),
		spanEvent("user_annotation", "ProfilerStep#7", "20", "20"), // ends where #8 begins
		spanEvent("user_annotation", "ProfilerStep#8", "40", "5"),
		spanEvent("gpu_user_annotation", "ProfilerStep#8", "41", "9"),
		spanEvent("user_annotation", "Optimizer.step#SGD.step", "35", "3"),
		spanEvent("user_annotation", "instant", "30", "0"),
		spanEvent("cpu_op", "aten::add", "1", "99"),
	))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range tr.Marks {
		got = append(got, fmt.Sprintf("%v %d %d %s", m.Tick, m.Kind, m.Value, tr.Name(m.Name)))
	}
	iter, enter, leave := int(ir.MarkIteration), int(ir.MarkEnter), int(ir.MarkLeave)
	want := []string{
		fmt.Sprintf("1 %d 7 ", iter), fmt.Sprintf("2 %d 0 instant", enter), fmt.Sprintf("2 %d 0 instant", leave),
		fmt.Sprintf("3 %d 0 Optimizer.step#SGD.step", enter), fmt.Sprintf("3 %d 0 Optimizer.step#SGD.step", leave),
		fmt.Sprintf("3 %d 8 ", iter), fmt.Sprintf("4 %d -1 ", iter),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestChromeRefused(t *testing.T) {
	noAddr := strings.Replace(mem("1", 0, 77, 512), `"Addr":77,`, "", 1)
	host := strings.Replace(mem("1", 0, 512, 512), `"Device Type":1`, `"Device Type":0`, 1)
	for _, c := range []struct{ name, text, want string }{
		{"no addresses (reports 17)", chromeFileOf(noAddr), "no addresses: frees cannot be paired"},
		{"no memory events", chromeFileOf(spanEvent("cpu_op", "x", "1", "2")), "no [memory] events"},
		{"only host memory", chromeFileOf(host), "none of a CUDA device"},
		{"other JSON", `{"a":[1,2,{"b":null}]}`, "JSON without traceEvents"},
		{"memory timeline", `[[0, 1, 512, 3]]`, "a memory timeline export has no addresses"},
		{"an empty array", `[]`, "no [memory] events"},
		{"broken", `{"traceEvents":[{"name":nope}]}`, "bad JSON"},
		{"address is a fraction", chromeFileOf(strings.Replace(mem("1", 0, 77, 512), `77`, `77.5`, 1)), `"Addr" is no integer`},
		{"address beyond 64 bits", chromeFileOf(strings.Replace(mem("1", 0, 77, 512), `77`, `99999999999999999999`, 1)), `"Addr" is no integer`},
		{"size beyond the limit", chromeFileOf(mem("1", 0, 512, 1<<60+1)), "2^60"},
		{"size beyond all limits", chromeFileOf(mem("1", 0, 512, math.MinInt64)), "-9223372036854775808"},
		{"time is a word", chromeFileOf(mem(`"soon"`, 0, 512, 512)), `"ts" is no time`},
		{"sum", chromeFileOf(slices.Repeat([]string{mem("1", 0, 512, 1<<60)}, 9)...), "2^63"},
		{"only frees", chromeFileOf(mem("1", 0, 512, -512)), "no allocations"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readText(t, c.text)
			var e *Error
			if !errors.As(err, &e) || e.Format != "chrome-trace" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	whole := chromeFileOf(mem("1", 0, 512, 512), mem("2", 1, 512, -512))
	for n := 1; n < len(whole); n++ {
		if _, err := readText(t, whole[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func TestStamp(t *testing.T) {
	for text, want := range map[string]stamp{
		"0": {}, "12": {12, 0}, "1669783687464181": {1669783687464181, 0}, "1.5": {1, 5e17}, "0.000000000000000001": {0, 1},
		"1.0000000000000000019": {1, 1}, "1.5e1": {15, 0}, "1669783687464181.25E+2": {166978368746418125, 0}, "15e-1": {1, 5e17}, "1e-3": {0, 1e15},
	} {
		if got, ok := parseStamp([]byte(text)); !ok || got != want {
			t.Errorf("%s: %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-1", "x", "1x", "99999999999999999999", "1e999", "1e", "1e30", ".", "true"} {
		if got, ok := parseStamp([]byte(text)); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got := (stamp{1, 9e17}).add(stamp{2, 3e17}); got != (stamp{4, 2e17}) {
		t.Errorf("add: %v", got)
	}
	if got := (stamp{math.MaxInt64 - 1, 9e17}).add(stamp{math.MaxInt64 - 1, 9e17}); got.whole != math.MaxInt64 {
		t.Errorf("add saturates: %v", got)
	}
}

// TestSynthetic: the generators of the benchmarks give what they say, in both formats.
func TestSynthetic(t *testing.T) {
	var snapshot, chrome bytes.Buffer
	s, err := testkit.WriteSnapshot(&snapshot, testkit.SnapshotSpec{Requests: 5000, Depth: 12, Layers: 16})
	if err != nil {
		t.Fatal(err)
	}
	c, err := testkit.WriteChrome(&chrome, testkit.ChromeSpec{Requests: 5000, Layers: 16, Ops: 1})
	if err != nil {
		t.Fatal(err)
	}
	if s.Bytes != int64(snapshot.Len()) || c.Bytes != int64(chrome.Len()) {
		t.Errorf("lengths %d and %d, written %d and %d", s.Bytes, c.Bytes, snapshot.Len(), chrome.Len())
	}
	a, err := readBytes(t, snapshot.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	b, err := readBytes(t, chrome.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Requests) != s.Requests || len(b.Requests) != c.Requests || lifeline(a) != lifeline(b) {
		t.Errorf("the same program gives %d requests and %d", len(a.Requests), len(b.Requests))
	}
	if len(a.Notes)+len(b.Notes) != 0 {
		t.Errorf("notes %v %v", a.Notes, b.Notes)
	}
	labels, iterations := 0, 0
	for _, m := range a.Marks {
		if m.Kind == ir.MarkEnter {
			labels++
		}
	}
	for _, m := range b.Marks {
		if m.Kind == ir.MarkIteration && m.Value >= 0 {
			iterations++
		}
	}
	if labels != s.Steps || iterations != c.Steps || s.Steps < 10 {
		t.Errorf("%d labels and %d iterations of %d steps", labels, iterations, s.Steps)
	}
}
