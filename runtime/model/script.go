package model

import "fmt"

// OpKind says what an Op does.
type OpKind uint8

// Op kinds.
const (
	OpAlloc    OpKind = iota + 1 // request ID: Size bytes of Stream
	OpFree                       // the end of request ID
	OpMark                       // a mark of kind Mark: iteration Size, or the phase Names[ID]
	OpSnapshot                   // the counters are recorded here; no part of the program
)

// Op is one operation of a program on its allocator. It is pointer-free, 24 bytes, and read
// as it is by the C driver (runtime/replay_driver.h).
type Op struct {
	Size   int64  // alloc: bytes asked for, > 0. Iteration mark: its number
	Stream uint64 // alloc: raw stream handle. Free: of another stream that used it, too (record_stream), 0: none
	ID     uint32 // alloc and free: the request. Phase mark: index in Script.Names
	Kind   OpKind
	Mark   MarkKind
	_      [2]byte
}

// AllocOp is the allocation of request id.
func AllocOp(id uint32, size int64, stream uint64) Op {
	return Op{Kind: OpAlloc, ID: id, Size: size, Stream: stream}
}

// FreeOp is the end of request id.
func FreeOp(id uint32) Op { return Op{Kind: OpFree, ID: id} }

// MarkedFreeOp is the end of request id, which work of stream, a raw handle other than 0, has used, too.
func MarkedFreeOp(id uint32, stream uint64) Op { return Op{Kind: OpFree, ID: id, Stream: stream} }

// IterationOp is the mark "iteration value begins".
func IterationOp(value int64) Op {
	return Op{Kind: OpMark, Mark: MarkIteration, Size: value}
}

// PhaseOp is the mark "the phase Names[name] begins".
func PhaseOp(name uint32) Op { return Op{Kind: OpMark, Mark: MarkPhase, ID: name} }

// SnapshotOp asks for the counters.
func SnapshotOp() Op { return Op{Kind: OpSnapshot} }

// Script is a list of operations in the order the allocator sees them. Requests have dense
// ids in [0, IDs); each is allocated at most once and freed at most once after that.
type Script struct {
	Ops    []Op
	Names  []string // of phases
	Starts []int    // index in Ops where each iteration begins, ascending; what is before the first is start-up
	IDs    uint32
}

// Check returns an error that names the first operation which breaks the rules of a Script.
func (s *Script) Check() error {
	const allocated, freed = 1, 2
	state := make([]uint8, s.IDs)
	for i, op := range s.Ops {
		switch op.Kind {
		case OpAlloc, OpFree:
			if op.ID >= s.IDs {
				return fmt.Errorf("model: script: op %d: request %d of %d", i, op.ID, s.IDs)
			}
		}
		switch {
		case op.Kind == OpAlloc && op.Size <= 0:
			return fmt.Errorf("model: script: op %d: request %d asks for %d bytes", i, op.ID, op.Size)
		case op.Kind == OpAlloc && state[op.ID] != 0:
			return fmt.Errorf("model: script: op %d: request %d is allocated twice", i, op.ID)
		case op.Kind == OpAlloc:
			state[op.ID] = allocated
		case op.Kind == OpFree && state[op.ID] != allocated:
			return fmt.Errorf("model: script: op %d: request %d is freed while not live", i, op.ID)
		case op.Kind == OpFree:
			state[op.ID] = freed
		case op.Kind == OpMark && op.Mark == MarkIteration, op.Kind == OpSnapshot:
		case op.Kind == OpMark && op.Mark == MarkPhase:
			if int64(op.ID) >= int64(len(s.Names)) {
				return fmt.Errorf("model: script: op %d: phase name %d of %d", i, op.ID, len(s.Names))
			}
		default:
			return fmt.Errorf("model: script: op %d: unknown kind %d, mark %d", i, op.Kind, op.Mark)
		}
	}
	for i, at := range s.Starts {
		if at < 0 || at > len(s.Ops) || i > 0 && at < s.Starts[i-1] {
			return fmt.Errorf("model: script: iteration %d begins at op %d of %d, or before the one ahead of it", i, at, len(s.Ops))
		}
	}
	return nil
}

// Result is what a run of a script showed. Where a request got no address its Addr is the
// zero one and its class says so.
type Result struct {
	Addrs     []Addr   // by request id
	Answers   []Answer // by request id
	Snapshots []Stats  // in the order of the OpSnapshot operations
	Stats     Stats    // at the end, before anything is given back
}

// Run executes s, which must pass its Check. What the script does not free stays live.
func (a *Allocator) Run(s *Script) *Result {
	r := &Result{Addrs: make([]Addr, s.IDs), Answers: make([]Answer, s.IDs)}
	ok := make([]bool, s.IDs)
	for _, op := range s.Ops {
		switch op.Kind {
		case OpAlloc:
			r.Addrs[op.ID], ok[op.ID] = a.Malloc(uint64(op.Size), op.Stream)
			r.Answers[op.ID] = a.last
		case OpFree:
			if ok[op.ID] && op.Stream != 0 {
				a.RecordStream(r.Addrs[op.ID], op.Stream)
			}
			if ok[op.ID] && !a.Free(r.Addrs[op.ID]) {
				panic(fmt.Sprintf("BUG: model: request %d is not live at its free", op.ID))
			}
		case OpMark:
			name := ""
			if op.Mark == MarkPhase {
				name = s.Names[op.ID]
			}
			a.Mark(op.Mark, op.Size, name)
		case OpSnapshot:
			r.Snapshots = append(r.Snapshots, a.Stats())
		}
	}
	r.Stats = a.Stats()
	return r
}
