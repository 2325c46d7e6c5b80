package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"

	ogorek "github.com/kisielk/og-rek"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// content returns a file's bytes, unwrapped by the standard library.
func content(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasPrefix(b, gzipMagic) {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// oracle decodes a snapshot with another implementation.
func oracle(t testing.TB, b []byte) map[any]any {
	t.Helper()
	v, err := ogorek.NewDecoder(bytes.NewReader(b)).Decode()
	if err != nil {
		t.Fatal(err)
	}
	m, ok := v.(map[any]any)
	if !ok {
		t.Fatalf("the oracle gives a %T", v)
	}
	return m
}

func oracleInt(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case *big.Int:
		return int64(v.Uint64()) // signed or not, its bits
	case bool:
		if v {
			return 1
		}
	}
	return 0
}

// repickle makes our writer's values of the oracle's. Sharing is lost, order by key.
func repickle(v any) any {
	switch v := v.(type) {
	case map[any]any:
		d := &testkit.Dict{}
		for k := range v { // in any order
			if k != "frames" {
				d.Set(k.(string), repickle(v[k]))
			}
		}
		return d
	case []any:
		l := &testkit.List{}
		for _, item := range v {
			l.Items = append(l.Items, repickle(item))
		}
		return l
	case ogorek.Tuple:
		var t testkit.Tuple
		for _, item := range v {
			t = append(t, repickle(item))
		}
		return t
	case *big.Int:
		return v.Int64()
	}
	return v
}

// TestPickleOracle compares what is decoded with og-rek, event by event.
func TestPickleOracle(t *testing.T) {
	for _, name := range []string{"snapshots/tiny_36_allocs.pickle", "phantom/mixtral4.pickle.gz"} {
		b := content(t, dataFile(t, name))
		u := newUnpickler(bytes.NewReader(b))
		top, err := u.run()
		if err != nil {
			t.Fatal(err)
		}
		s := &snapshot{records: u.records}
		if err := s.open(top, -1); err != nil {
			t.Fatal(err)
		}
		all := oracle(t, b)
		events := all["device_traces"].([]any)[0].([]any)
		if len(events) != s.total {
			t.Fatalf("%s: %d events, og-rek has %d", name, s.total, len(events))
		}
		s.each(s.runs, func(i int, e *event) error {
			o := events[i].(map[any]any)
			if s.strs[e.act] != o["action"] || int64(e.addr) != oracleInt(o["addr"]) || e.size != oracleInt(o["size"]) ||
				int64(e.stream) != oracleInt(o["stream"]) || e.time != oracleInt(o["time_us"]) {
				t.Errorf("%s: event %d: %+v, og-rek has %v", name, i, *e, o)
			}
			return nil
		})
		segments := all["segments"].([]any)
		if len(segments) != len(s.segs) {
			t.Fatalf("%s: %d segments, og-rek has %d", name, len(s.segs), len(segments))
		}
		used := 0
		for _, g := range segments {
			for _, b := range g.(map[any]any)["blocks"].([]any) {
				if b.(map[any]any)["state"] == "active_allocated" {
					used++
				}
			}
		}
		got := 0
		for i := range s.blocks.n {
			if s.blocks.at(i).state == sActiveAllocated {
				got++
			}
		}
		if got != used {
			t.Errorf("%s: %d blocks in use, og-rek has %d", name, got, used)
		}
	}
}

// TestProtocols: one snapshot in every protocol gives one trace (reports 15).
func TestProtocols(t *testing.T) {
	b := content(t, dataFile(t, "snapshots/tiny_36_allocs.pickle"))
	want, err := readBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Requests { // og-rek forgets what is in a list that the memo shares
		want.Requests[i].Site = 0
	}
	want.Names = want.Names[:1]
	again := repickle(oracle(t, b))
	synthetic := snap([]*testkit.Dict{seg(0, addrX, blk{512, active}, blk{1024, pending})}, []ev{alloc(addrX, 100), ask(addrY, 7), done(addrY, 7)})
	wantSynthetic := mustSnap(t, synthetic)
	for proto := 2; proto <= 5; proto++ {
		for _, c := range []struct {
			v    any
			want *ir.Trace
		}{{again, want}, {synthetic, wantSynthetic}} {
			got, err := readBytes(t, pickle(t, c.v, proto))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("protocol %d:\ngot  %s\nwant %s", proto, lifeline(got), lifeline(c.want))
			}
		}
	}
}

// TestTorchScriptPickle: the C++ writer has protocol 2, all of a list on the stack before
// one APPENDS, and eight bytes for every integer beyond 32 bits.
func TestTorchScriptPickle(t *testing.T) {
	var b []byte
	str := func(s string) { b = append(binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s))), s...) }
	long := func(v int64) { b = binary.LittleEndian.AppendUint64(append(b, 0x8a, 8), uint64(v)) }
	memo := 0
	put := func() { b = append(b, 'q', byte(memo)); memo++ }
	b = append(b, 0x80, 2, '}')
	put()
	b = append(b, '(')
	str("device_traces")
	put()
	b = append(b, ']')
	put()
	b = append(b, '(', ']')
	put()
	b = append(b, '(')
	for i, action := range []string{"alloc", "free_requested", "free_completed", "alloc"} {
		b = append(b, '}', '(')
		str("action")
		str(action)
		str("addr")
		long(-0x7ff000000000)
		str("size")
		b = append(b, 'J', 0, 2, 0, 0)
		str("stream")
		b = append(b, 'J', 0, 0, 0, 0)
		str("time_us")
		long(1795964265284028 + int64(i))
		b = append(b, 'u')
	}
	b = append(b, 'e', 'e', 'u', '.')
	tr, err := readBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := lifeline(tr), "512[0,1,1); 512[2,never,never)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestLong: nine bytes are an unsigned address; ten name the field (reports 14).
func TestLong(t *testing.T) {
	for _, addr := range []uint64{1<<63 - 1, 1 << 63, 1<<63 + 512, 1<<64 - 1} {
		tr := mustSnap(t, snap(nil, []ev{alloc(addr, 512), ask(addr, 512), done(addr, 512)}))
		if got, want := lifeline(tr), "512[0,1,1)"; got != want {
			t.Errorf("%#x: %s, want %s", addr, got, want)
		}
		s := snap(nil, []ev{alloc(addrX, 512)})
		l := s.Vals[1].(*testkit.List).Items[0].(*testkit.List).Items[0].(*testkit.Dict)
		l.Vals[3] = addr // the stream
		if tr := mustSnap(t, s); len(tr.Streams) != 1 || tr.Streams[0] != addr {
			t.Errorf("streams %x, want %x", tr.Streams, addr)
		}
	}
	for _, c := range []struct {
		raw  testkit.Raw
		want string
	}{
		{append([]byte{0x8a, 10}, make([]byte, 10)...), `field "addr" is an integer of 10 bytes`},
		{append([]byte{0x8b, 200, 0, 0, 0}, make([]byte, 200)...), `field "addr" is an integer of 200 bytes`},
		{[]byte{0x8a, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1}, `field "addr" is an integer beyond 64 bits`},
		{[]byte{0x8a, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0xff}, `field "addr" is an integer beyond 64 bits`},
		{[]byte{0x8b, 0xff, 0xff, 0xff, 0xff}, `field "addr" is an integer of 4294967295 bytes`},
	} {
		d := (&testkit.Dict{}).Set("action", "alloc").Set("addr", c.raw)
		_, err := readBytes(t, pickle(t, d, 4))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	for _, c := range []struct {
		bytes []byte
		want  int64
	}{{nil, 0}, {[]byte{0xff}, -1}, {[]byte{0x80}, -128}, {[]byte{0x7f}, 127}, {[]byte{0, 1}, 256}, {[]byte{0, 0xff}, -256},
		{[]byte{0, 0, 0, 0, 0, 0, 0, 0x80}, -1 << 63}, {[]byte{1, 0, 0, 0, 0, 0, 0, 0, 0}, 1}} {
		if v, ok := long(c.bytes); !ok || v.k != kInt || int64(v.n) != c.want {
			t.Errorf("long(% x) = %d %v, want %d", c.bytes, int64(v.n), ok, c.want)
		}
	}
}

// TestRefusedOpcodes: whatever could look up a class or call one is refused by name.
func TestRefusedOpcodes(t *testing.T) {
	for op, r := range refused {
		_, err := readBytes(t, []byte{0x80, 4, 'N', 'N', 'N', op, 'x', '\n', 'y', '\n', '.'})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Msg, r.name) || e.Offset != 5 {
			t.Errorf("%s: %v", r.name, err)
			continue
		}
		if r.code != strings.Contains(e.Msg, "refused") {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	// Every other byte either works or is named.
	for op := range 256 {
		_, err := readBytes(t, []byte{0x80, 4, byte(op)})
		if err == nil {
			t.Errorf("opcode %#x alone is a snapshot", op)
		}
	}
	for content, want := range map[string]string{
		"\x80\x06N.":                    "pickle protocol 6 is not supported",
		"\x80\x01N.":                    "pickle protocol 1 is not supported",
		"\x80\x04cos\nsystem\n(X":       "GLOBAL",
		"\x80\x04.":                     "STOP with nothing on the stack",
		"\x80\x04a.":                    "APPEND finds too little",
		"\x80\x04(u":                    "SETITEMS finds",
		"\x80\x04](u.":                  "keys are set in a list",
		"\x80\x04}(K\x01e.":             "items are appended to a dict",
		"\x80\x04}(K\x01u.":             "a key without a value",
		"\x80\x04h\x05.":                "memo entry 5 was never stored",
		"\x80\x04Nr\xff\xff\xff\xff.":   "memo entry 4294967295 follows",
		"\x80\x04X\xff\xff\xff\xffabc.": "a string of 4294967295 bytes",
		"\x80\x04\x8d\x00\x00\x00\x00\x00\x00\x00\x7f.": "a string of",
		"\x80\x04B\xff\xff\xff\x7fabc.":                 "ends in the middle",
	} {
		_, err := readBytes(t, []byte(content))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
}

// TestTruncated: a snapshot cut at any byte says that it is cut.
func TestTruncated(t *testing.T) {
	s := snap([]*testkit.Dict{seg(0, addrX, blk{512, active})}, []ev{alloc(addrX, 100), ask(addrX, 100), done(addrX, 100)})
	for _, proto := range []int{2, 4} {
		b := pickle(t, s, proto)
		for n := 2; n < len(b); n++ {
			_, err := readBytes(t, b[:n])
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "ends in the middle") {
				t.Fatalf("protocol %d, %d of %d bytes: %v", proto, n, len(b), err)
			}
		}
	}
}

// TestDeep: nesting and floods of objects are refused, not followed.
func TestDeep(t *testing.T) {
	for _, op := range []string{"(", "N", "]", "}", "]0", "}0", "N\x940"} {
		u := newUnpickler(strings.NewReader("\x80\x04" + strings.Repeat(op, 1000) + "."))
		u.limits = limits{stack: 500, marks: 200, objects: 300}
		_, err := u.run()
		if err == nil || !strings.Contains(err.Error(), "too deep or too many") {
			t.Errorf("%q: %v", op, err)
		}
	}
	// A list inside itself is only odd.
	_, err := readBytes(t, []byte("\x80\x02]q\x00h\x00a."))
	if err == nil || !strings.Contains(err.Error(), "not of segments") {
		t.Errorf("%v", err)
	}
}

// TestSmallReads: content may arrive byte by byte.
func TestSmallReads(t *testing.T) {
	b := pickle(t, snap(nil, []ev{alloc(addrX, 100), ask(addrX, 100), done(addrX, 100)}).Set("note", strings.Repeat("long ", 100_000)), 4)
	tr, err := Read("test", oneByte{bytes.NewReader(b)}, DefaultOptions())
	if err != nil || lifeline(tr) != "100[0,1,1)" {
		t.Fatalf("%v, %v", tr, err)
	}
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1)]) }
