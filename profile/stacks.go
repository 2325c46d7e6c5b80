package profile

import (
	"hash/maphash"
	"slices"
	"strings"

	"stweaver/ir"
)

// stackTable keeps whole call stacks where they are asked for: each distinct one once, as numbers of
// frames, innermost first. Only Python frames are kept; what lies below them is the same for all. A list
// of frames is interned when it is read; one that grows piece by piece is interned piece by piece.
type stackTable struct {
	seed    maphash.Seed
	start   []uint32 // of each stack in frames; stack 0 is empty
	frames  []uint32
	byHash  map[uint64][]uint32 // stacks of a hash
	batch   []uint32            // frames under way
	scratch []byte
}

func newStackTable() *stackTable {
	return &stackTable{seed: maphash.MakeSeed(), start: []uint32{0}, byHash: make(map[uint64][]uint32)}
}

// extend is the stack that id becomes with the frames of the batch, which is empty then.
func (s *stackTable) extend(id uint32) uint32 {
	if len(s.batch) == 0 {
		return id
	}
	if id != 0 {
		s.batch = append(slices.Clone(s.of(id)), s.batch...)
	}
	id = s.intern(s.batch)
	s.batch = s.batch[:0]
	return id
}

func (s *stackTable) of(id uint32) []uint32 {
	end := uint32(len(s.frames))
	if int(id)+1 < len(s.start) {
		end = s.start[id+1]
	}
	return s.frames[s.start[id]:end]
}

// intern finds frames among the stacks, or adds them. Numbers follow first appearance.
func (s *stackTable) intern(frames []uint32) uint32 {
	s.scratch = s.scratch[:0]
	for _, f := range frames {
		s.scratch = append(s.scratch, byte(f), byte(f>>8), byte(f>>16), byte(f>>24))
	}
	h := maphash.Bytes(s.seed, s.scratch)
	for _, id := range s.byHash[h] {
		if slices.Equal(s.of(id), frames) {
			return id
		}
	}
	id := uint32(len(s.start))
	s.start = append(s.start, uint32(len(s.frames)))
	s.frames = append(s.frames, frames...)
	s.byHash[h] = append(s.byHash[h], id)
	return id
}

// python tells whether frame i is Python code.
func (r *records) python(i uint32) bool {
	return strings.HasSuffix(r.strs[r.frames.at(int(i)).file], ".py")
}

// stacks makes the trace's table: of has the stack of each request during the recording, behind those of
// before it.
func (s *snapshot) stacks(t *ir.Trace, of []uint32) *ir.Stacks {
	out := &ir.Stacks{Of: make([]uint32, len(t.Requests)), Start: s.records.stacks.start}
	copy(out.Of[len(t.Requests)-len(of):], of)
	for _, f := range s.records.stacks.frames {
		out.Names = append(out.Names, s.site(f+1))
	}
	return out
}
