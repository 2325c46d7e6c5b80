package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"stweaver/internal/testkit"
)

func gz(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zst(t testing.TB, b []byte, o ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, o...)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(b)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// samples has a small file of each format, in the order of the table.
func samples(t testing.TB) [][]byte {
	return [][]byte{
		new(testkit.Recording).Stream(0, 0).Malloc(0, 512, 512, 0).Free(0, 512).Bytes(),
		pickle(t, snap(nil, []ev{alloc(addrX, 512), ask(addrX, 512), done(addrX, 512)}), 4),
		[]byte(chromeFileOf(mem("1", 0, 512, 512), mem("2", 1, 512, -512))),
		[]byte("1 0x10 512 0\n0 0x10 512 0\n"),
		[]byte("id,lower,upper,size\na,0,1,512\n"),
		[]byte("0 1 512\n"),
	}
}

// TestUnwrap: every format, in every wrapping, gives the same trace.
func TestUnwrap(t *testing.T) {
	for i, b := range samples(t) {
		plain, err := readBytes(t, b)
		if err != nil {
			t.Fatal(err)
		}
		if plain.Format != Formats()[i] {
			t.Errorf("sample %d is taken for %s", i, plain.Format)
		}
		if lifeline(plain) != "512[0,1,1)" {
			t.Errorf("%s: %s", plain.Format, lifeline(plain))
		}
		for name, wrapped := range map[string][]byte{
			"gzip": gz(t, b), "zstd": zst(t, b), "both": gz(t, zst(t, b)), "twice": zst(t, gz(t, b)),
			"two members": append(gz(t, b[:len(b)/2]), gz(t, b[len(b)/2:])...),
		} {
			got, err := readBytes(t, wrapped)
			if err != nil || !reflect.DeepEqual(got, plain) {
				t.Errorf("%s in %s: %v", plain.Format, name, err)
			}
		}
	}
}

func TestUnwrapRefused(t *testing.T) {
	b := samples(t)[3]
	long := []byte(strings.Repeat("1 0x10 512 0\n0 0x10 512 0\n", 50_000))
	damaged := gz(t, b)
	damaged[len(damaged)-6] ^= 1
	damagedPickle := gz(t, samples(t)[1])
	damagedPickle[len(damagedPickle)-6] ^= 1
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"three times":            {gz(t, gz(t, gz(t, b))), "compressed more than 2 times over"},
		"gzip cut":               {gz(t, long)[:1000], "the gzip stream ends in the middle"},
		"gzip header":            {gz(t, b)[:5], "the gzip stream ends in the middle"},
		"zstd cut":               {zst(t, long)[:100], "the zstd stream ends in the middle"},
		"checksum":               {damaged, "the gzip checksum is wrong"},
		"checksum after the end": {damagedPickle, "the gzip checksum is wrong"},
		"cut after the end":      {gz(t, samples(t)[1])[:len(damagedPickle)-3], "the gzip stream ends in the middle"},
		"gzip garbage":           {append([]byte{0x1f, 0x8b}, bytes.Repeat([]byte{0xff}, 100)...), "gzip"},
		"zstd garbage":           {append(slices.Clone(zstdMagic), bytes.Repeat([]byte{0xff}, 100)...), "zstd"},
		"huge window":            {append(slices.Clone(zstdMagic), 0x00, 0xf8 /* 2^41 and more */, 0, 0, 0, 0), "window is above 128 MiB"},
		"empty":                  {nil, "the file is empty"},
		"zip":                    {[]byte("PK\x03\x04...."), "a zip archive"},
		"page":                   {[]byte("<!DOCTYPE html><html>"), "an HTML page"},
		"noise":                  {[]byte{1, 2, 3, 4}, "no known format"},
		"prose":                  {[]byte("It was a dark and stormy night.\n"), "no known format"},
	} {
		_, err := readBytes(t, c.b)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestReadFile: from a file, with progress, and failing as files fail.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mem.log")
	text := strings.Repeat("1 0x10 512 0\n0 0x10 512 0\n", 100_000)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	var calls int
	var last int64
	tr, err := ReadFile(path, Options{Progress: func(done, total int64) {
		if done <= last || total != int64(len(text)) {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		calls, last = calls+1, done
	}})
	if err != nil || len(tr.Requests) != 100_000 {
		t.Fatal(err)
	}
	if calls < 2 || last != int64(len(text)) {
		t.Errorf("%d calls of progress, the last at %d of %d", calls, last, len(text))
	}
	_, err = ReadFile(path+".gone", Options{})
	if !errors.Is(err, os.ErrNotExist) || strings.Count(err.Error(), "mem.log") != 1 {
		t.Errorf("%v", err)
	}
	_, err = ReadFile(t.TempDir(), Options{})
	if err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("%v", err)
	}
}

// TestReaderFails: an error of the source is not taken for the end.
func TestReaderFails(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for i, b := range samples(t) {
		_, err := Read("x", io.MultiReader(bytes.NewReader(b[:len(b)-3]), failing{broken}), Options{})
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", Formats()[i], err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestSniff: formats are told apart by content, whatever comes first in the table.
func TestSniff(t *testing.T) {
	for text, want := range map[string]string{
		"0 381 92928\n1 379 256\n":                            "op-log",
		"1 0x10 5 0\n":                                        "stalloc-log",
		"loading, please, wait\n\n1 0x10 5 0\n":               "stalloc-log",
		"Iteration Index : 0\n1 0x10 5 0\n":                   "stalloc-log",
		"\xef\xbb\xbfid,lower,upper,size\n1,2,3,4\n":          "interval-csv",
		"\n\n  {\"traceEvents\":[" + mem("1", 0, 9, 9) + "]}": "chrome-trace",
	} {
		tr, err := readText(t, text)
		if err != nil || tr.Format != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"a.log: stalloc-log: line 12: bad (do better)": {Path: "a.log", Format: "stalloc-log", Line: 12, Offset: -1, Msg: "bad", Hint: "do better"},
		"-: torch-snapshot: offset 0: bad":             {Path: "-", Format: "torch-snapshot", Msg: "bad"},
		"x: bad":                                       {Path: "x", Offset: -1, Msg: "bad"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
