package profile

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// unpickler is a pickle machine for plain data, protocols 2 to 5.
//
// A pickle is a program for a stack machine. The opcodes that snapshots need push numbers,
// strings, empty lists and dicts, and fill these from the stack:
//
//	EMPTY_DICT MEMOIZE MARK "action" "alloc" "addr" 139…  SETITEMS
//	   |          |       |
//	   |          |       +-- height of the stack, for SETITEMS to take all above it
//	   |          +---------- the dict gets a number, by which BINGET pushes it again
//	   +--------------------- pushed; stays on the stack beneath the mark
//
// Opcodes that name a class or call something are refused by name: nothing is ever looked
// up or run. Nothing recurses, so depth costs only stack; lengths are checked against
// limits before memory is taken, and buffers grow with what really arrives.
//
// Two things keep a snapshot small. Objects that the memo shares stay one object. And a
// dict is no map: as soon as its keys are known, records.go makes a fixed record of it, or
// drops it, so that a million events are a million records and nothing else.
type unpickler struct {
	r        io.Reader
	buf      []byte
	pos, end int   // unread: buf[pos:end]
	off      int64 // offset of buf[0] in the content
	rerr     error // why the last read gave less

	stack []value
	marks []int // heights of the stack
	memo  slab[value]
	limits

	*records
}

// value is one item of the stack. n is the payload by kind.
type value struct {
	n uint64
	k kind
}

type kind uint8

const (
	kNone  kind = iota
	kBool       // 0 or 1
	kInt        // an int64
	kUint       // a uint64 above MaxInt64
	kFloat      // its bits
	kStr        // index in records.strs
	kBytes      // content dropped
	kPair       // a tuple of two integers; index in records.pairs
	kList       // a list or another tuple; index in records.lists
	kDict       // index in records.dicts
	kRun        // only inside lists: events [n>>32, n&0xffffffff)
	kUnset      // only inside the memo: a number left out
)

// String is Python's name for the kind.
func (k kind) String() string {
	return [...]string{"None", "bool", "int", "int", "float", "str", "bytes", "tuple", "list", "dict", "run", "unset"}[k]
}

// Limits of a pickle. A snapshot of 10 GB stays below them; a stream that was built to
// exhaust memory does not.
const maxString = 16 << 20 // bytes of one string

type limits struct {
	stack   int // values on the stack
	marks   int // open marks: depth of nesting
	objects int // memo entries, and containers of each kind
}

var defaultLimits = limits{stack: 1 << 24, marks: 1 << 12, objects: 1 << 26}

func newUnpickler(r io.Reader) *unpickler {
	return &unpickler{r: r, buf: make([]byte, 256<<10), limits: defaultLimits, records: newRecords()}
}

// offset of the next unread byte.
func (u *unpickler) offset() int64 { return u.off + int64(u.pos) }

// fill makes n bytes available at buf[pos:], or fails.
func (u *unpickler) fill(n int) error {
	if u.pos > 0 {
		copy(u.buf, u.buf[u.pos:u.end])
		u.off += int64(u.pos)
		u.end -= u.pos
		u.pos = 0
	}
	for u.end < n {
		if u.end == len(u.buf) { // a long string: grow with what arrives
			u.buf = append(u.buf, make([]byte, len(u.buf))...)
		}
		if u.rerr != nil {
			return readFault(u.rerr, u.off+int64(u.end))
		}
		var k int
		k, u.rerr = u.r.Read(u.buf[u.end:])
		u.end += k
	}
	return nil
}

// take returns the next n bytes, good until the next call.
func (u *unpickler) take(n int) ([]byte, error) {
	if u.end-u.pos < n {
		if err := u.fill(n); err != nil {
			return nil, err
		}
	}
	b := u.buf[u.pos : u.pos+n]
	u.pos += n
	return b, nil
}

// skip drops n bytes.
func (u *unpickler) skip(n uint64) error {
	for n > 0 {
		step := int(min(n, 64<<10))
		if _, err := u.take(step); err != nil {
			return err
		}
		n -= uint64(step)
	}
	return nil
}

func (u *unpickler) push(v value) { u.stack = append(u.stack, v) }

// base is the height below which the current opcode must not reach.
func (u *unpickler) base() int {
	if len(u.marks) == 0 {
		return 0
	}
	return u.marks[len(u.marks)-1]
}

var errUnderflow = errors.New("underflow")

// pops takes n values off the stack; they stay readable until the next push.
func (u *unpickler) pops(n int) ([]value, error) {
	h := len(u.stack) - n
	if h < u.base() {
		return nil, errUnderflow
	}
	items := u.stack[h:]
	u.stack = u.stack[:h]
	return items, nil
}

// popMark takes everything above the last mark.
func (u *unpickler) popMark() ([]value, error) {
	if len(u.marks) == 0 {
		return nil, errUnderflow
	}
	h := u.base()
	u.marks = u.marks[:len(u.marks)-1]
	items := u.stack[h:]
	u.stack = u.stack[:h]
	return items, nil
}

// top is the value that an opcode works on in place.
func (u *unpickler) top() (value, error) {
	if len(u.stack) <= u.base() {
		return value{}, errUnderflow
	}
	return u.stack[len(u.stack)-1], nil
}

// run executes the program and returns what it leaves on top.
func (u *unpickler) run() (value, error) {
	for {
		at := u.offset()
		b, err := u.take(1)
		if err != nil {
			return value{}, err
		}
		op := b[0]
		if op == opSTOP {
			v, err := u.top()
			if err != nil {
				return value{}, fault("STOP with nothing on the stack").at(at)
			}
			return v, nil
		}
		if err := u.step(op); err != nil {
			if err == errUnderflow {
				return value{}, fault("%s finds too little on the stack", opName(op)).at(at).hint("the file is damaged")
			}
			var e *Error
			if errors.As(err, &e) && e.Offset < 0 {
				e.Offset = at
			}
			return value{}, err
		}
		if len(u.stack) > u.limits.stack || len(u.marks) > u.limits.marks ||
			max(u.memo.n, u.lists.n, u.dicts.n) > u.limits.objects {
			return value{}, fault("nested too deep or too many objects").at(at).hint("the file is damaged, or no snapshot")
		}
	}
}

// step executes one opcode.
func (u *unpickler) step(op byte) error {
	switch op {
	case opPROTO:
		b, err := u.take(1)
		if err == nil && (b[0] < 2 || b[0] > 5) {
			err = fault("pickle protocol %d is not supported", b[0]).hint("write it with pickle protocol 2 to 5")
		}
		return err
	case opFRAME:
		return u.skip(8)
	case opMARK:
		u.marks = append(u.marks, len(u.stack))
	case opNONE:
		u.push(value{})
	case opNEWTRUE:
		u.push(value{1, kBool})
	case opNEWFALSE:
		u.push(value{0, kBool})
	case opBININT, opBININT1, opBININT2, opBINFLOAT, opLONG1, opLONG4:
		return u.number(op)
	case opSHORTUNICODE, opBINUNICODE, opBINUNICODE8, opSHORTSTRING, opBINSTRING:
		return u.text(op)
	case opSHORTBYTES, opBINBYTES, opBINBYTES8, opBYTEARRAY8:
		n, err := u.length(op)
		if err == nil {
			err = u.skip(n)
		}
		u.push(value{0, kBytes})
		return err
	case opBINGET: // with stacks, this one and the next are the commonest
		b, err := u.take(1)
		if err != nil {
			return err
		}
		return u.recall(int(b[0]))
	case opLONGBINGET:
		b, err := u.take(4)
		if err != nil {
			return err
		}
		return u.recall(int(binary.LittleEndian.Uint32(b)))
	case opMEMOIZE, opBINPUT, opLONGBINPUT:
		return u.remember(op)
	case opPOP:
		if len(u.stack) == u.base() && len(u.marks) > 0 {
			u.marks = u.marks[:len(u.marks)-1]
			return nil
		}
		_, err := u.pops(1)
		return err
	case opPOPMARK:
		_, err := u.popMark()
		return err
	case opDUP:
		v, err := u.top()
		u.push(v)
		return err
	default:
		return u.container(op)
	}
	return nil
}

// number pushes an integer or a float.
func (u *unpickler) number(op byte) error {
	switch op {
	case opBININT1:
		b, err := u.take(1)
		if err == nil {
			u.push(value{uint64(b[0]), kInt})
		}
		return err
	case opBININT2:
		b, err := u.take(2)
		if err == nil {
			u.push(value{uint64(binary.LittleEndian.Uint16(b)), kInt})
		}
		return err
	case opBININT:
		b, err := u.take(4)
		if err == nil {
			u.push(value{uint64(int64(int32(binary.LittleEndian.Uint32(b)))), kInt})
		}
		return err
	case opBINFLOAT:
		b, err := u.take(8)
		if err == nil {
			u.push(value{binary.BigEndian.Uint64(b), kFloat})
		}
		return err
	}
	n, err := u.length(op)
	if err != nil {
		return err
	}
	if n > 9 {
		return fault("%s is an integer of %d bytes", u.field(), n).hint("no address, size or stream is longer than 64 bits")
	}
	b, err := u.take(int(n))
	if err != nil {
		return err
	}
	v, ok := long(b)
	if !ok {
		return fault("%s is an integer beyond 64 bits", u.field()).hint("no address, size or stream is longer than 64 bits")
	}
	u.push(v)
	return nil
}

// long decodes little-endian two's complement of up to 9 bytes. Python needs the ninth for
// unsigned values of 2^63 and more; it must then be zero.
func long(b []byte) (value, bool) {
	var n uint64
	for i := min(len(b), 8) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	if len(b) == 9 {
		if b[8] != 0 {
			return value{}, false
		}
		if n > math.MaxInt64 {
			return value{n, kUint}, true
		}
		return value{n, kInt}, true
	}
	if len(b) > 0 && len(b) < 8 && b[len(b)-1]&0x80 != 0 {
		n |= ^uint64(0) << (8 * len(b))
	}
	return value{n, kInt}, true
}

// field names what the value being read belongs to: its key lies beneath it.
func (u *unpickler) field() string {
	if v, err := u.top(); err == nil && v.k == kStr {
		return "field " + quote(u.str(v))
	}
	return "a value"
}
