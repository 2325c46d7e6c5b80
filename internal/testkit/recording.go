package testkit

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Recording writes a .stwp file as runtime/stw_record.h specifies it, unit by unit and with any mistake
// that a test wants in it.
type Recording struct {
	PerBlock int    // units after which a block is closed; 0: 4096
	Reason   uint32 // of the trailer
	Errno    uint32
	Lost     uint64
	Open     bool // no trailer
	file     []byte
	block    []byte
	crc      uint32
	events   uint64
	blocks   []int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r *Recording) begin() {
	if r.file == nil {
		r.file = append([]byte("\x93STP\r\n\x1a\n\x01\x00\x00\x00\x40\x00\x00\x00stweaver"), make([]byte, 40)...)
		r.crc = crc32.Checksum(r.file, castagnoli)
		if r.PerBlock == 0 {
			r.PerBlock = 4096
		}
	}
}

// Unit adds a unit of any kind.
func (r *Recording) Unit(kind, device, id uint64, n, v uint64) *Recording {
	r.begin()
	room := 1
	if kind == 8 { // a size lies in one block with its request
		room = 2
	}
	if len(r.block)+16*room > 16*r.PerBlock {
		r.Flush()
	}
	r.block = binary.LittleEndian.AppendUint64(r.block, kind|device<<4|id<<12|n<<24)
	r.block = binary.LittleEndian.AppendUint64(r.block, v)
	if kind >= 1 && kind <= 5 {
		r.events++
	}
	return r
}

// Flush ends the block.
func (r *Recording) Flush() *Recording {
	if len(r.block) > 0 {
		r.blocks = append(r.blocks, len(r.file))
		head := binary.LittleEndian.AppendUint32([]byte("STWB"), uint32(len(r.block)/16))
		r.seal(append(append(head, make([]byte, 8)...), r.block...))
		r.block = nil
	}
	return r
}

// seal appends b, whose checksum is to be at 8.
func (r *Recording) seal(b []byte) {
	r.crc = crc32.Update(r.crc, castagnoli, b)
	binary.LittleEndian.PutUint32(b[8:], r.crc)
	r.file = append(r.file, b...)
}

// Stream gives a stream an id.
func (r *Recording) Stream(id, handle uint64) *Recording { return r.Unit(6, 0, id, 0, handle) }

// Malloc adds a request of less than 2^40 bytes.
func (r *Recording) Malloc(device, addr, size, stream uint64) *Recording {
	return r.Unit(1, device, stream, size, addr)
}

// Free adds a free.
func (r *Recording) Free(device, addr uint64) *Recording { return r.Unit(2, device, 0, 0, addr) }

// Use adds a record_stream.
func (r *Recording) Use(device, addr, stream uint64) *Recording {
	return r.Unit(3, device, stream, 0, addr)
}

// Mark adds a mark; kind as ir.MarkKind, name an id.
func (r *Recording) Mark(kind, name uint64, value int64) *Recording {
	return r.Unit(4, kind, name, 0, uint64(value))
}

// Held says what the allocator has held.
func (r *Recording) Held(device, bytes uint64) *Recording { return r.Unit(5, device, 0, 0, bytes) }

// Name gives a text an id.
func (r *Recording) Name(id uint64, text string) *Recording {
	r.begin()
	if len(r.block)/16+1+(len(text)+15)/16 > r.PerBlock {
		r.Flush()
	}
	r.Unit(7, 0, id, uint64(len(text)), 0)
	r.block = append(append(r.block, text...), make([]byte, (16-len(text)%16)%16)...)
	return r
}

// Blocks returns where each block begins, and the trailer, if there is one.
func (r *Recording) Blocks() []int { return r.blocks }

// Bytes ends the file and returns it.
func (r *Recording) Bytes() []byte {
	r.begin()
	r.Flush()
	if r.Open {
		return r.file
	}
	r.blocks = append(r.blocks, len(r.file))
	b := binary.LittleEndian.AppendUint32([]byte("STWE"), r.Reason)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, r.Errno)
	b = binary.LittleEndian.AppendUint64(b, r.events)
	b = binary.LittleEndian.AppendUint64(b, r.Lost)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(r.file)+40))
	r.seal(b)
	return r.file
}

// WriteRecording writes a recording of the same model as WriteSnapshot's, with iteration marks.
func WriteRecording(w io.Writer, requests int) (Synth, error) {
	r := new(Recording).Stream(0, 0)
	prog := &program{layers: 64, weights: 64, requests: requests}
	prog.alloc = func(id int, size int64) { r.Malloc(0, uint64(id+1)<<24, uint64(size), 0) }
	prog.free = func(id int, _ int64) { r.Free(0, uint64(id+1)<<24) }
	prog.step = func(n int) { r.Mark(1, 0, int64(n)) }
	made, live, steps := prog.run()
	n, err := w.Write(r.Bytes())
	return Synth{int64(n), int(r.events), made, live, steps}, err
}
