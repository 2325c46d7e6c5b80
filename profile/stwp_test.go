package profile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// recordingOf is a file with every kind of unit; set changes how it is written.
func recordingOf(set func(*testkit.Recording)) []byte {
	r := &testkit.Recording{}
	set(r)
	r.Stream(0, 0).Stream(1, 77).Name(1, "forward").Mark(1, 0, 0).Mark(2, 1, 0)
	r.Malloc(0, 512, 1000, 0).Malloc(0, 2048, 0, 0).Free(0, 2048).Malloc(1, 512, 5, 1)
	r.Mark(3, 1, 0).Use(0, 512, 1).Unit(8, 0, 0, 0, 1<<40).Malloc(0, 1<<30, 0, 1).Mark(4, 1, 0)
	r.Free(0, 512).Free(0, 1<<30).Free(0, 99).Malloc(0, 0, 7, 0).Mark(1, 0, -1).Held(0, 1<<41)
	return r.Bytes()
}

func mark(t *ir.Trace, m ir.Mark) string {
	return fmt.Sprintf("%v %d %d %s", m.Tick, m.Kind, m.Value, t.Name(m.Name))
}

func TestStwp(t *testing.T) {
	for _, perBlock := range []int{2, 3, 7, 4096} {
		tr, err := readBytes(t, recordingOf(func(r *testkit.Recording) { r.PerBlock = perBlock }))
		if err != nil {
			t.Fatal(perBlock, err)
		}
		if got, want := lifeline(tr), "1000[0,2,3); 1099511627776[1,4,4)"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		var marks []string
		for _, m := range tr.Marks {
			marks = append(marks, mark(tr, m))
		}
		if want := []string{"0 1 0 ", "0 2 0 forward", "1 3 0 forward", "2 4 0 forward", "5 1 -1 "}; !slices.Equal(marks, want) {
			t.Errorf("marks %q, want %q", marks, want)
		}
		if want := []string{"devices", "late", "zero-size", "record-stream", "oom"}; !slices.Equal(codes(tr), want) {
			t.Errorf("notes %q, want %q", codes(tr), want)
		}
		if tr.Format != "stweaver-record" || tr.Allocator != "stweaver" || tr.Reserved != 1<<41 || !tr.Late || tr.Device != 0 ||
			!slices.Equal(tr.Streams, []uint64{0, 77}) {
			t.Errorf("%s, %s, reserved %d, late %v, device %d, streams %v", tr.Format, tr.Allocator, tr.Reserved, tr.Late, tr.Device, tr.Streams)
		}
	}
}

func TestStwpDevice(t *testing.T) {
	b := recordingOf(func(*testkit.Recording) {})
	tr, err := Read("x", strings.NewReader(string(b)), Options{Device: 1})
	if err != nil || lifeline(tr) != "5[0,never,never)" || len(tr.Marks) != 5 || tr.Reserved != -1 {
		t.Errorf("%v %+v", err, tr)
	}
	_, err = Read("x", strings.NewReader(string(b)), Options{Device: 2})
	if want := "x: stweaver-record: no allocations of device 2 (device 0 has 10 events)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestStwpIDs: an id may change its meaning.
func TestStwpIDs(t *testing.T) {
	r := new(testkit.Recording).Stream(5, 1).Name(9, "a").Mark(2, 9, 0).Malloc(0, 512, 1, 5)
	r.Stream(5, 2).Name(9, "b\xff").Mark(2, 9, 0).Malloc(0, 1024, 2, 5).Stream(6, 1).Malloc(0, 2048, 3, 6)
	tr, err := readBytes(t, r.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := []ir.StreamID{tr.Requests[0].Stream, tr.Requests[1].Stream, tr.Requests[2].Stream}; !slices.Equal(got, []ir.StreamID{0, 1, 0}) {
		t.Errorf("streams %v of %v", got, tr.Streams)
	}
	if a, b := tr.Name(tr.Marks[0].Name), tr.Name(tr.Marks[1].Name); a != "a" || b != "b\ufffd" {
		t.Errorf("names %q, %q", a, b)
	}
}

// TestStwpReserved: what the allocator held counts if nothing was asked for after it was told.
func TestStwpReserved(t *testing.T) {
	r := new(testkit.Recording).Stream(0, 0).Malloc(0, 512, 512, 0).Held(0, 1024).Free(0, 512)
	if tr, err := readBytes(t, r.Bytes()); err != nil || tr.Reserved != 1024 {
		t.Errorf("%v", err)
	}
	r = new(testkit.Recording).Stream(0, 0).Malloc(0, 512, 512, 0).Held(0, 1024).Malloc(0, 1024, 4096, 0)
	if tr, err := readBytes(t, r.Bytes()); err != nil || tr.Reserved != -1 {
		t.Errorf("%v", err)
	}
}

// TestStwpCut: cut anywhere, a file gives the events of its whole blocks and says so, or says that it has none.
func TestStwpCut(t *testing.T) {
	r := &testkit.Recording{PerBlock: 4}
	r.Stream(0, 0)
	for i := uint64(1); i <= 20; i++ {
		r.Malloc(0, 512*i, i, 0)
	}
	whole := r.Bytes()
	blocks := r.Blocks()
	for n := range len(whole) {
		tr, err := readBytes(t, whole[:n])
		var e *Error
		switch {
		case n <= 3:
			if err == nil {
				t.Errorf("%d bytes were read", n)
			}
		case n < blocks[1]:
			if !errors.As(err, &e) || e.Format != "stweaver-record" || n < 64 != errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes: %v", n, err)
			}
		default:
			k := 1
			for k+1 < len(blocks) && blocks[k+1] <= n {
				k++
			}
			if err != nil || len(tr.Requests) != min(4*k-1, 20) || !slices.Equal(codes(tr), []string{"cut"}) {
				t.Errorf("%d bytes: %v", n, err)
			} else if rest := n > blocks[k]; rest != strings.Contains(tr.Notes[0].Text, "not whole") ||
				!strings.Contains(tr.Notes[0].Text, fmt.Sprintf("up to byte %d are", blocks[k])) {
				t.Errorf("%d bytes: %s", n, tr.Notes[0].Text)
			}
		}
	}
}

// TestStwpDamaged: a changed bit is seen, wherever it is, unless the file is none of ours any more.
func TestStwpDamaged(t *testing.T) {
	whole := recordingOf(func(r *testkit.Recording) { r.PerBlock = 8 })
	want, err := readBytes(t, whole)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(whole) {
		b := slices.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		tr, err := readBytes(t, b)
		if err == nil && !slices.Contains(codes(tr), "cut") {
			t.Errorf("bit %d was changed and nothing was seen", i)
		}
		if err == nil && len(tr.Requests) > len(want.Requests) {
			t.Errorf("bit %d made %d requests", i, len(tr.Requests))
		}
	}
}

func TestStwpEnded(t *testing.T) {
	for reason, want := range map[uint32]string{
		1: "because the file could not be written as fast as events came",
		2: "because it could not be written (no space left on device)",
		3: "because the file had reached its limit",
		9: "for a reason that this version does not know",
	} {
		tr, err := readBytes(t, recordingOf(func(r *testkit.Recording) { r.Reason, r.Errno, r.Lost = reason, 28, 1234 }))
		text := fmt.Sprintf("recording ended after 16 events, %s; 1234 later events are not in it", want)
		if err != nil || tr.Notes[0] != (ir.Note{Level: ir.Warn, Code: "cut", Text: text}) {
			t.Errorf("%v %v", err, tr)
		}
	}
}

func TestStwpRefused(t *testing.T) {
	valid := recordingOf(func(*testkit.Recording) {})
	poke := func(at int, b ...byte) []byte {
		out := slices.Clone(valid)
		copy(out[at:], b)
		return out
	}
	one := func() *testkit.Recording { return new(testkit.Recording).Stream(0, 0).Malloc(0, 512, 1, 0) }
	for want, b := range map[string][]byte{
		"offset 0: its first bytes were changed on the way (copy it again, in binary mode)":                                                     poke(4, '\n'),
		"offset 8: version 2.0 of the format; this reads version 1 (use the stweaver that belongs to the recorder)":                             poke(8, 2),
		"offset 12: a header of 63 bytes (" + stwpDamaged + ")":                                                                                 poke(12, 63),
		"offset 12: a header of 1000064 bytes (" + stwpDamaged + ")":                                                                            poke(12, 0x80, 0x42, 0x0f),
		"offset 64: neither a block nor the trailer begins here (" + stwpDamaged + ")":                                                          poke(64, 'X'),
		"offset 64: a block of 0 units (" + stwpDamaged + ")":                                                                                   poke(68, 0),
		"offset 64: a block of 65535 units (" + stwpDamaged + ")":                                                                               poke(68, 255, 255),
		"offset 64: the checksum is wrong (" + stwpDamaged + ")":                                                                                poke(100, 99),
		"offset 152: the file goes on after its end (one recording a file)":                                                                     append(one().Bytes(), 0),
		"offset 112: stream 4 is not defined (" + stwpDamaged + ")":                                                                             one().Malloc(0, 1, 1, 4).Bytes(),
		"offset 112: name 4 is not defined (" + stwpDamaged + ")":                                                                               one().Mark(2, 4, 0).Bytes(),
		"offset 112: a mark of kind 5 (use the stweaver that belongs to the recorder)":                                                          one().Mark(5, 0, 0).Bytes(),
		"offset 112: a unit of kind 9 (use the stweaver that belongs to the recorder)":                                                          one().Unit(9, 0, 0, 0, 0).Bytes(),
		"offset 112: a unit of kind 0 (use the stweaver that belongs to the recorder)":                                                          one().Unit(0, 0, 0, 0, 0).Bytes(),
		"offset 112: a name of 17 bytes with id 1 (" + stwpDamaged + ")":                                                                        one().Unit(7, 0, 1, 17, 0).Free(0, 1).Bytes(),
		"offset 112: a name of 1 bytes with id 0 (" + stwpDamaged + ")":                                                                         one().Name(0, "x").Bytes(),
		"offset 128: a size that no request follows (" + stwpDamaged + ")":                                                                      one().Unit(8, 0, 0, 0, 7).Free(0, 512).Bytes(),
		"offset 112: a size of 18446744073709551615 bytes (" + stwpDamaged + ")":                                                                one().Unit(8, 0, 0, 0, 1<<64-1).Bytes(),
		"offset 128: size 1152921504606846977 is above the limit of 2^60 bytes":                                                                 one().Unit(8, 0, 0, 0, 1<<60+1).Malloc(0, 1, 0, 0).Bytes(),
		"no whole block of events (the process died early, the file was cut off, or the program asked for no memory: record again, and longer)": new(testkit.Recording).Bytes(),
		"no allocations in 1 events (the program asked for no memory through the recorder: begin to record before the first request)":           new(testkit.Recording).Free(0, 512).Bytes(),
	} {
		tr, err := readBytes(t, b)
		if err == nil || err.Error() != "test: stweaver-record: "+want {
			t.Errorf("%v %v\nwant %s", tr, err, want)
		}
	}
}

// TestStwpRefusedRequest: a request that was refused says nothing about memory, whatever its size.
func TestStwpRefusedRequest(t *testing.T) {
	b := new(testkit.Recording).Stream(0, 0).Malloc(0, 512, 1, 0).Unit(8, 0, 0, 0, 1<<62).Malloc(0, 0, 0, 0).Bytes()
	if tr, err := readBytes(t, b); err != nil || lifeline(tr) != "1[0,never,never)" {
		t.Errorf("%v", err)
	}
}

// TestStwpTwice: reading gives the same trace each time.
func TestStwpTwice(t *testing.T) {
	b := recordingOf(func(*testkit.Recording) {})
	one, _ := readBytes(t, b)
	two, _ := readBytes(t, b)
	if !reflect.DeepEqual(one, two) {
		t.Error("two readings differ")
	}
}

// mendSums makes the checksums, and what the trailer counts, fit what is in the file.
func mendSums(b []byte) {
	if len(b) < 64 {
		return
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	crc, events := crc32.Checksum(b[:64], table), uint64(0)
	for at := 64; at+16 <= len(b); {
		end := at + 16
		switch string(b[at : at+4]) {
		case "STWE":
			if end = at + 40; end > len(b) {
				return
			}
			binary.LittleEndian.PutUint64(b[at+16:], events)
			binary.LittleEndian.PutUint64(b[at+32:], uint64(end))
		case "STWB":
			end += 16 * int(binary.LittleEndian.Uint32(b[at+4:])%4097)
			for i := at + 16; i < min(end, len(b)); i += 16 {
				switch kind := b[i] & 15; {
				case kind >= 1 && kind <= 5:
					events++
				case kind == 7 && i+16 <= len(b):
					i += int(min(binary.LittleEndian.Uint64(b[i:])>>24, 1<<20)+15) / 16 * 16
				}
			}
		default:
			return
		}
		if end > len(b) {
			return
		}
		clear(b[at+8 : at+12])
		crc = crc32.Update(crc, table, b[at:end])
		binary.LittleEndian.PutUint32(b[at+8:], crc)
		at = end
	}
}
