package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	tr, err := readText(t, `1 0x7f00 2048 0

Iteration Index : 0
micro-batch : F
layers.0->MoELayer Layer : F-start
1 0x8f00 100 5
layers.0->MoELayer Layer : F-end
0 0x8f00 100 5
optimizer step
0 0x9f00 77 0
Iteration Index : end
`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := lifeline(tr), "77[before,3,3); 2048[0,never,never); 100[1,2,2)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !tr.Late || !slices.Equal(codes(tr), []string{"late"}) || !slices.Equal(tr.Streams, []uint64{0, 5}) {
		t.Errorf("late %v, notes %v, streams %v", tr.Late, codes(tr), tr.Streams)
	}
	var got []string
	for _, m := range tr.Marks {
		got = append(got, fmt.Sprintf("%v %d %d %s", m.Tick, m.Kind, m.Value, tr.Name(m.Name)))
	}
	want := []string{"1 1 0 ", "1 2 0 F", "1 3 0 layers.0->MoELayer F", "2 4 0 layers.0->MoELayer F", "3 2 0 optimizer step", "4 1 -1 "}
	if !slices.Equal(got, want) {
		t.Errorf("marks %q, want %q", got, want)
	}
}

func TestLogOddities(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		notes            []string
	}{
		{"sizes of zero are no-ops", "1 0x10 0 0\n0 0x10 0 0\n1 0x10 5 0\n", "5[0,never,never)", []string{"zero-size"}},
		{"lost free", "1 0x10 5 0\n1 0x10 6 0", "5[0,1,1) lost; 6[2,never,never)", []string{"lost-free"}},
		{"double free", "1 0x10 5 0\n0 0x10 5 0\n0 0x10 5 0", "5[0,1,1)", []string{"stray-free"}},
		{"another size at the free", "1 0x10 5 0\n0 0x10 6 0", "5[0,1,1)", []string{"size-mismatch"}},
		{"windows lines, byte order mark, decimal address, pointers as C prints them", "\xef\xbb\xbf1 16 5 (nil)\r\n0 16 5 (nil)\r\n", "5[0,1,1)", nil},
		{"addresses use all 64 bits", "1 0xffffffffffffffff 5 0\n0 0xffffffffffffffff 5 0\n", "5[0,1,1)", nil},
		{"the free names another stream", "1 0x10 5 7\n0 0x10 5 8\n", "5[0,1,1)", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := readText(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := lifeline(tr); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if !slices.Equal(codes(tr), c.notes) || tr.Late || len(tr.Streams) != 1 {
				t.Errorf("notes %v, late %v, streams %v", codes(tr), tr.Late, tr.Streams)
			}
		})
	}
}

func TestLogRefused(t *testing.T) {
	const good = "1 0x10 5 0\n"
	for _, c := range []struct {
		text, want string
		line       int
	}{
		{good + "1 0x10 5\n", "3 fields instead of 4", 2},
		{good + "\n\n1 zz 5 0\n", `bad address "zz"`, 4},
		{good + "1 0x10 five 0\n", `bad size "five"`, 2},
		{good + "1 0x10 5 0x\n", `bad stream "0x"`, 2},
		{good + "1 0x10 -5 0\n", "negative size -5", 2},
		{good + "1 0x10 1152921504606846977 0\n", "2^60", 2},
		{good + "1 0x10 99999999999999999999 0\n", "bad size", 2},
		{good + "Iteration Index : soon\n", `bad iteration "soon"`, 2},
		{good + "a->B Layer : F-middle\n", "bad layer mark", 2},
		{good + "\x00\x01\x02\n", "not text", 2},
		{good + "\xff\xfe\n", "not text", 2},
		{good + strings.Repeat("x", maxLine+10) + "\n", "longer than 64 KiB", 2},
		{"Iteration Index : 0\n", "no allocations", 0},
		{strings.Repeat("1 0x10 1152921504606846976 0\n", 9), "2^63", 0},
	} {
		_, err := readText(t, c.text)
		var e *Error
		if !errors.As(err, &e) || e.Format != "stalloc-log" || e.Line != c.line || !strings.Contains(e.Msg, c.want) {
			t.Errorf("%.60q: %v, want line %d: %s", c.text, err, c.line, c.want)
		}
	}
}

func TestCSV(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"equal times: frees first, then by id", "id,lower,upper,size\n10,5,9,512\n9,0,5,1024\n2,5,6,2\n", "1024[0,1,1); 2[2,4,4); 512[3,5,5)"},
		{"touching ends are apart (reports 7)", "id,lower,upper,size\na,6,7,4096\nb,7,10,4096\n", "4096[0,1,1); 4096[2,3,3)"},
		{"any order of columns, others ignored", "size, Alignment ,upper,ID,lower\n512,8,3,x,1\n", "512[0,1,1)"},
		{"no ids", "lower,upper,size\n0,2,5\n0,2,6\n", "5[0,2,2); 6[1,3,3)"},
		{"negative times", "id,lower,upper,size\na,-5,-1,5\n", "5[0,1,1)"},
		{"no bytes", "id,lower,upper,size\na,0,1,0\nb,0,1,5\n", "5[0,1,1)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := readText(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := lifeline(tr); got != c.want || !tr.OnePass {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	tr, err := readText(t, "id,lower,upper,size,stream\n0,0,1,5,0x20\n1,2,3,6,7\n2,3,4,6,0x20\n")
	if err != nil || !slices.Equal(tr.Streams, []uint64{0x20, 7}) || tr.Requests[2].Stream != 0 {
		t.Errorf("streams: %+v %v", tr, err)
	}
	if _, err := readText(t, "id,lower,upper,size,offset\n0,0,1,5,0\n"); err != nil {
		t.Error(err)
	}
}

// TestCSVShuffled: the order of lines does not show.
func TestCSVShuffled(t *testing.T) {
	rows := []string{"b,0,5,1", "a,0,5,2", "10,0,5,3", "9,5,6,4", "z,5,7,5"}
	read := func(rows []string) [32]byte {
		tr, err := readText(t, "id,lower,upper,size\n"+strings.Join(rows, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return tr.Digest()
	}
	want := read(rows)
	for range 10 {
		rows = append(rows[2:], rows[:2]...)
		if read(rows) != want {
			t.Fatal("the order of lines shows in the trace")
		}
	}
}

func TestIntervalsRefused(t *testing.T) {
	const header = "id,lower,upper,size\n"
	for _, c := range []struct {
		format, text, want string
		line               int
	}{
		{"interval-csv", "id,lower,size\n1,2,3\n", `no column "upper"`, 1},
		{"interval-csv", header + "a,0,1,5\nb,3,3,5\n", "[3, 3) is empty", 3},
		{"interval-csv", header + "b,4,3,5\n", "[4, 3) is empty", 2},
		{"interval-csv", header + "b,0,3,-5\n", "negative size", 2},
		{"interval-csv", header + "b,0,3,1152921504606846977\n", "2^60", 2},
		{"interval-csv", header + "b,0,3,1e6\n", "size is no integer", 2},
		{"interval-csv", header + "b,0.5,3,1\n", "lower is no integer", 2},
		{"interval-csv", header + "b,0,3\n", "wrong number of fields", 2},
		{"interval-csv", header + "b,0,3,1\nc,0,3,1\nb,0,3,1\n", `id "b" was already on line 2`, 4},
		{"interval-csv", header, "no requests", 0},
		{"interval-csv", header + "a,0,1,0\n", "all of no bytes", 0},
		{"interval-csv", header + func() (s string) {
			for i := range 9 {
				s += fmt.Sprintf("%d,0,1,1152921504606846976\n", i)
			}
			return
		}(), "2^63", 0},
		{"op-log", "0 1 5\n3 3 5\n", "[3, 3) is empty", 2},
		{"op-log", "0 1 5\n3 4\n", "2 fields instead of 3", 2},
		{"op-log", "0 1 5\n3 4 x\n", "no integer", 2},
		{"op-log", "0 1 5\n3 4 -1\n", "negative size", 2},
		{"op-log", "0 1 0\n", "all of no bytes", 0},
	} {
		_, err := readText(t, c.text)
		var e *Error
		if !errors.As(err, &e) || e.Format != c.format || e.Line != c.line || !strings.Contains(e.Msg, c.want) {
			t.Errorf("%q: %v, want line %d: %s", c.text, err, c.line, c.want)
		}
	}
}

// TestOplog: an ordinal is one event; what is freed at an ordinal is free for it.
func TestOplog(t *testing.T) {
	tr, err := readText(t, "0 3 512\n1 2 1024\n3 4 5\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := lifeline(tr), "512[0,3,3); 1024[1,2,2); 5[4,5,5)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !tr.OnePass || tr.Reserved != -1 || tr.Late {
		t.Errorf("%+v", tr)
	}
	if peak, _ := tr.LivePeak(); peak != 1536 {
		t.Errorf("peak %d", peak)
	}
}
