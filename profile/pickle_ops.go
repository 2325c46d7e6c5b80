package profile

import (
	"encoding/binary"
	"fmt"
)

// Opcodes that are executed, as pickletools names them.
const (
	opMARK         = '('
	opSTOP         = '.'
	opPOP          = '0'
	opPOPMARK      = '1'
	opDUP          = '2'
	opBINFLOAT     = 'G'
	opBININT       = 'J'
	opBININT1      = 'K'
	opBININT2      = 'M'
	opNONE         = 'N'
	opBINSTRING    = 'T'
	opSHORTSTRING  = 'U'
	opBINUNICODE   = 'X'
	opBINBYTES     = 'B'
	opSHORTBYTES   = 'C'
	opAPPEND       = 'a'
	opDICT         = 'd'
	opAPPENDS      = 'e'
	opBINGET       = 'h'
	opLONGBINGET   = 'j'
	opLIST         = 'l'
	opBINPUT       = 'q'
	opLONGBINPUT   = 'r'
	opSETITEM      = 's'
	opTUPLE        = 't'
	opSETITEMS     = 'u'
	opEMPTYLIST    = ']'
	opEMPTYTUPLE   = ')'
	opEMPTYDICT    = '}'
	opPROTO        = 0x80
	opTUPLE1       = 0x85
	opTUPLE2       = 0x86
	opTUPLE3       = 0x87
	opNEWTRUE      = 0x88
	opNEWFALSE     = 0x89
	opLONG1        = 0x8a
	opLONG4        = 0x8b
	opSHORTUNICODE = 0x8c
	opBINUNICODE8  = 0x8d
	opBINBYTES8    = 0x8e
	opMEMOIZE      = 0x94
	opFRAME        = 0x95
	opBYTEARRAY8   = 0x96
)

// refused are the opcodes that look something up or call it, and those that only
// protocols 0 and 1 write, or that plain data never needs.
var refused = map[byte]struct {
	name string
	code bool // would import, construct or call
}{
	'c': {"GLOBAL", true}, 0x93: {"STACK_GLOBAL", true}, 'R': {"REDUCE", true}, 'b': {"BUILD", true},
	'i': {"INST", true}, 'o': {"OBJ", true}, 0x81: {"NEWOBJ", true}, 0x92: {"NEWOBJ_EX", true},
	'P': {"PERSID", true}, 'Q': {"BINPERSID", true},
	0x82: {"EXT1", true}, 0x83: {"EXT2", true}, 0x84: {"EXT4", true},
	0x97: {"NEXT_BUFFER", true}, 0x98: {"READONLY_BUFFER", true},
	'I': {"INT", false}, 'L': {"LONG", false}, 'F': {"FLOAT", false}, 'S': {"STRING", false}, 'V': {"UNICODE", false},
	'g': {"GET", false}, 'p': {"PUT", false},
	0x8f: {"EMPTY_SET", false}, 0x90: {"ADDITEMS", false}, 0x91: {"FROZENSET", false},
}

// executed names the opcodes that can find the stack too short.
var executed = map[byte]string{
	opPOP: "POP", opPOPMARK: "POP_MARK", opDUP: "DUP", opAPPEND: "APPEND", opAPPENDS: "APPENDS",
	opDICT: "DICT", opLIST: "LIST", opTUPLE: "TUPLE", opTUPLE1: "TUPLE1", opTUPLE2: "TUPLE2", opTUPLE3: "TUPLE3",
	opSETITEM: "SETITEM", opSETITEMS: "SETITEMS", opBINPUT: "BINPUT", opLONGBINPUT: "LONG_BINPUT", opMEMOIZE: "MEMOIZE",
}

func opName(op byte) string {
	if name, ok := executed[op]; ok {
		return name
	}
	return fmt.Sprintf("opcode 0x%02x", op)
}

// refuse words why op is not executed.
func refuse(op byte) error {
	switch r, ok := refused[op]; {
	case !ok:
		return fault("unknown pickle opcode 0x%02x", op).hint("the file is damaged, or not a pickle")
	case r.code:
		return fault("refused: pickle opcode %s would run code or look up a class", r.name).
			hint("a snapshot is plain dicts, lists, strings and numbers; this is another kind of pickle")
	default:
		return fault("pickle opcode %s is not supported", r.name).hint("write it with pickle protocol 2 to 5")
	}
}

// length reads the count that follows op.
func (u *unpickler) length(op byte) (uint64, error) {
	switch op {
	case opLONG1, opSHORTUNICODE, opSHORTBYTES, opSHORTSTRING, opBINPUT, opBINGET:
		b, err := u.take(1)
		if err != nil {
			return 0, err
		}
		return uint64(b[0]), nil
	case opBINUNICODE8, opBINBYTES8, opBYTEARRAY8:
		b, err := u.take(8)
		if err != nil {
			return 0, err
		}
		return binary.LittleEndian.Uint64(b), nil
	}
	b, err := u.take(4)
	if err != nil {
		return 0, err
	}
	return uint64(binary.LittleEndian.Uint32(b)), nil
}

// text pushes a string.
func (u *unpickler) text(op byte) error {
	n, err := u.length(op)
	if err != nil {
		return err
	}
	if n > maxString {
		return fault("a string of %d bytes", n).hint(fmt.Sprintf("the limit is %d MiB", maxString>>20))
	}
	b, err := u.take(int(n))
	if err == nil {
		u.push(value{uint64(u.intern(b)), kStr})
	}
	return err
}

// recall pushes entry i of the memo.
func (u *unpickler) recall(i int) error {
	if i >= u.memo.n || u.memo.at(i).k == kUnset {
		return fault("memo entry %d was never stored", i).hint("the file is damaged")
	}
	u.push(*u.memo.at(i))
	return nil
}

// remember puts the top into the memo.
func (u *unpickler) remember(op byte) error {
	if op == opMEMOIZE {
		v, err := u.top()
		if err == nil {
			u.memo.add(v)
		}
		return err
	}
	n, err := u.length(op)
	if err != nil {
		return err
	}
	i := int(n)
	v, err := u.top()
	if err != nil {
		return err
	}
	if i > u.memo.n+maxMemoGap {
		return fault("memo entry %d follows %d others", i, u.memo.n).hint("the file is damaged")
	}
	for u.memo.n < i {
		u.memo.add(value{0, kUnset})
	}
	if i == u.memo.n {
		u.memo.add(v)
	} else {
		*u.memo.at(i) = v
	}
	return nil
}

// maxMemoGap is how many numbers a writer may leave out at once; real ones leave none.
const maxMemoGap = 1 << 12

// container makes or fills a list, tuple or dict.
func (u *unpickler) container(op byte) error {
	var items []value
	var err error
	switch op {
	case opEMPTYLIST, opEMPTYTUPLE:
		u.push(u.newList())
		return nil
	case opEMPTYDICT:
		u.push(u.newDict())
		return nil
	case opTUPLE1, opTUPLE2, opTUPLE3:
		items, err = u.pops(int(op) - opTUPLE1 + 1)
	case opAPPEND:
		items, err = u.pops(1)
	case opSETITEM:
		items, err = u.pops(2)
	case opAPPENDS, opSETITEMS, opLIST, opTUPLE, opDICT:
		items, err = u.popMark()
	default:
		return refuse(op)
	}
	if err != nil {
		return err
	}
	switch op {
	case opTUPLE1, opTUPLE2, opTUPLE3, opTUPLE, opLIST:
		v, ok := u.pair(items)
		if !ok || op == opLIST {
			v = u.newList()
			u.extend(v, items)
		}
		u.push(v)
		return nil
	case opDICT:
		v := u.newDict()
		err := u.set(v, items)
		u.push(v)
		return err
	}
	into, err := u.top()
	switch {
	case err != nil:
		return err
	case op == opAPPEND || op == opAPPENDS:
		if into.k != kList {
			return fault("items are appended to a %s", into.k)
		}
		u.extend(into, items)
		return nil
	case into.k != kDict:
		return fault("keys are set in a %s", into.k)
	}
	return u.set(into, items)
}
