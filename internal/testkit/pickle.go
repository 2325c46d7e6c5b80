package testkit

import (
	"encoding/binary"
	"io"
	"math"
	"math/bits"
)

// Pickler writes pickles of plain data in protocols 2 to 5, as CPython's pickler does: the
// memo in the same order, long integers in their shortest form, frames from protocol 4 on.
// It is for tests: readers can be fed what no installed torch writes any more.
//
// Value writes whole values. The other methods write one opcode each, for streams of
// events that should not be held in memory. Errors of the writer are kept for Close.
type Pickler struct {
	w       io.Writer
	proto   int
	frame   []byte
	memo    int
	shared  map[any]int // memo number by *List, *Dict or string
	err     error
	written int64
}

// List, Tuple and Dict are the containers of Value. The same *List or *Dict written twice
// is one object to the reader.
type (
	List  struct{ Items []any }
	Tuple []any
	Dict  struct {
		Keys []string
		Vals []any
	}
	// Raw is written as it is: for opcodes the Pickler does not know.
	Raw []byte
)

// Set appends a key; it does not look for an earlier one.
func (d *Dict) Set(key string, val any) *Dict {
	d.Keys, d.Vals = append(d.Keys, key), append(d.Vals, val)
	return d
}

// NewPickler starts a pickle of the given protocol.
func NewPickler(w io.Writer, proto int) *Pickler {
	p := &Pickler{w: w, proto: proto, shared: make(map[any]int)}
	p.write([]byte{0x80, byte(proto)})
	return p
}

// frameTarget is the size at which CPython ends a frame.
const frameTarget = 64 << 10

func (p *Pickler) write(b []byte) {
	if p.err == nil {
		var n int
		n, p.err = p.w.Write(b)
		p.written += int64(n)
	}
}

func (p *Pickler) flush() {
	if p.proto >= 4 {
		p.write(binary.LittleEndian.AppendUint64([]byte{0x95}, uint64(len(p.frame))))
	}
	p.write(p.frame)
	p.frame = p.frame[:0]
}

// Op writes raw bytes that are whole opcodes.
func (p *Pickler) Op(b ...byte) {
	if len(p.frame) >= frameTarget {
		p.flush()
	}
	p.frame = append(p.frame, b...)
}

// Close ends the pickle and returns its length in bytes.
func (p *Pickler) Close() (int64, error) {
	p.Op('.')
	p.flush()
	return p.written, p.err
}

// Memoize numbers what is on top of the stack.
func (p *Pickler) Memoize() int {
	n := p.memo
	p.memo++
	switch {
	case p.proto >= 4:
		p.Op(0x94)
	case n < 256:
		p.Op('q', byte(n))
	default:
		p.Op(binary.LittleEndian.AppendUint32([]byte{'r'}, uint32(n))...)
	}
	return n
}

// Get pushes what was numbered n.
func (p *Pickler) Get(n int) {
	if n < 256 {
		p.Op('h', byte(n))
	} else {
		p.Op(binary.LittleEndian.AppendUint32([]byte{'j'}, uint32(n))...)
	}
}

// Str pushes a string. Like a constant of Python's, equal strings are one object.
func (p *Pickler) Str(s string) {
	if n, ok := p.shared[s]; ok {
		p.Get(n)
		return
	}
	p.FreshStr(s)
	p.shared[s] = p.memo - 1
}

// FreshStr pushes a string as a new object.
func (p *Pickler) FreshStr(s string) {
	if p.proto >= 4 && len(s) < 256 {
		p.Op(append([]byte{0x8c, byte(len(s))}, s...)...)
	} else {
		p.Op(append(binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(s))), s...)...)
	}
	p.Memoize()
}

// Int pushes a signed integer.
func (p *Pickler) Int(v int64) {
	switch {
	case v >= 0 && v < 256:
		p.Op('K', byte(v))
	case v >= 0 && v < 65536:
		p.Op('M', byte(v), byte(v>>8))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		p.Op(binary.LittleEndian.AppendUint32([]byte{'J'}, uint32(v))...)
	default:
		n := (bits.Len64(uint64(max(v, ^v))))/8 + 1
		p.Op(append([]byte{0x8a, byte(n)}, binary.LittleEndian.AppendUint64(nil, uint64(v))[:n]...)...)
	}
}

// Uint pushes an unsigned integer; from 2^63 up it takes nine bytes.
func (p *Pickler) Uint(v uint64) {
	if v <= math.MaxInt64 {
		p.Int(int64(v))
		return
	}
	p.Op(append(binary.LittleEndian.AppendUint64([]byte{0x8a, 9}, v), 0)...)
}

// batch is the number of items CPython puts before one APPENDS or SETITEMS.
const batch = 1000

// Value pushes v: nil, bool, int, int64, uint64, float64, string, *List, *Dict, Tuple, Raw.
func (p *Pickler) Value(v any) {
	switch v := v.(type) {
	case nil:
		p.Op('N')
	case bool:
		if v {
			p.Op(0x88)
		} else {
			p.Op(0x89)
		}
	case int:
		p.Int(int64(v))
	case int64:
		p.Int(v)
	case uint64:
		p.Uint(v)
	case float64:
		p.Op(binary.BigEndian.AppendUint64([]byte{'G'}, math.Float64bits(v))...)
	case string:
		p.Str(v)
	case Raw:
		p.Op(v...)
	case Tuple:
		if len(v) > 3 {
			p.Op('(')
		}
		for _, item := range v {
			p.Value(item)
		}
		p.Op([]byte{')', 0x85, 0x86, 0x87, 't'}[min(len(v), 4)])
		if len(v) > 0 {
			p.Memoize()
		}
	case *List:
		if p.again(v) {
			return
		}
		p.Op(']')
		p.shared[v] = p.Memoize()
		for i := 0; i < len(v.Items); i += batch {
			p.items(v.Items[i:min(i+batch, len(v.Items))], 'a', 'e')
		}
	case *Dict:
		if p.again(v) {
			return
		}
		p.Op('}')
		p.shared[v] = p.Memoize()
		if len(v.Keys) > 1 {
			p.Op('(')
		}
		for i, k := range v.Keys {
			p.Str(k)
			p.Value(v.Vals[i])
		}
		switch {
		case len(v.Keys) == 1:
			p.Op('s')
		case len(v.Keys) > 1:
			p.Op('u')
		}
	default:
		panic("BUG: testkit: no pickle for this type")
	}
}

func (p *Pickler) again(v any) bool {
	n, ok := p.shared[v]
	if ok {
		p.Get(n)
	}
	return ok
}

func (p *Pickler) items(items []any, one, many byte) {
	if len(items) == 1 {
		p.Value(items[0])
		p.Op(one)
		return
	}
	p.Op('(')
	for _, item := range items {
		p.Value(item)
	}
	p.Op(many)
}
