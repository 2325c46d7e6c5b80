package plantest

import (
	"encoding/binary"
	"hash/crc32"

	"stweaver/runtime/model"
)

// Encode writes p as a plan file (runtime/stw_plan.h). It shares nothing with package ir's
// encoder, so that one can be held against the other.
func Encode(p *model.Plan) []byte {
	le := binary.LittleEndian
	var slots, entries, streams, marks []byte
	for _, s := range p.Slots {
		slots = le.AppendUint32(slots, s.Lo)
		slots = le.AppendUint32(slots, s.Hi)
		slots = le.AppendUint16(slots, uint16(s.List)|s.Varies) // one of them is 0
		slots = append(slots, byte(s.Stream), byte(s.Flags))
	}
	for _, e := range p.Entries {
		entries = le.AppendUint32(entries, e.Slot)
		entries = le.AppendUint32(entries, e.Life|firm(e)|uint32(e.NfMin)<<28|uint32(e.NfMax)<<30)
	}
	for _, s := range p.Streams {
		streams = le.AppendUint64(streams, s.Handle)
		streams = le.AppendUint64(streams, s.Begin)
		streams = le.AppendUint64(streams, s.End)
	}
	for _, m := range p.Marks {
		marks = le.AppendUint32(marks, m.Entry)
		marks = le.AppendUint32(marks, uint32(m.Kind))
		marks = le.AppendUint64(marks, uint64(m.Value))
		marks = le.AppendUint64(marks, m.Name)
	}
	bodies := [][]byte{slots, entries, streams, marks}
	kinds := []uint32{1, 2, 3, 4}
	if len(p.Needs) > 0 {
		bodies, kinds = append(bodies, needs(p)), append(kinds, 6)
	}
	const header, section = 128, 24
	size := header + section*len(bodies)
	bytes := make([]int, len(bodies))
	for i, b := range bodies {
		bytes[i] = len(b)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		bodies[i] = b
		size += len(b)
	}

	out := make([]byte, header, size)
	copy(out, "\x93STW\r\n\x1a\n")
	le.PutUint16(out[8:], 1)
	le.PutUint32(out[12:], header)
	le.PutUint64(out[16:], uint64(size))
	le.PutUint32(out[28:], uint32(len(bodies)))
	le.PutUint64(out[64:], p.Capacity)
	le.PutUint64(out[72:], p.Arena)
	le.PutUint64(out[80:], p.Arena)
	for i, v := range []int{model.Unit, len(p.Streams), len(p.Slots), len(p.Entries), int(p.LoopStart), len(p.Marks), int(p.SharedAge)} {
		le.PutUint32(out[88+4*i:], uint32(v))
	}
	at := header + section*len(bodies)
	for i, b := range bodies {
		out = le.AppendUint32(out, kinds[i])
		out = le.AppendUint32(out, kinds[i]/6)
		out = le.AppendUint64(out, uint64(at))
		out = le.AppendUint64(out, uint64(bytes[i]))
		at += len(b)
	}
	for _, b := range bodies {
		out = append(out, b...)
	}
	Seal(out)
	return out
}

// Seal writes the checksum of a plan file that was changed, if it is long enough to have one.
func Seal(file []byte) {
	if len(file) < 28 {
		return
	}
	binary.LittleEndian.PutUint32(file[24:], 0)
	binary.LittleEndian.PutUint32(file[24:], crc32.Checksum(file, crc32.MakeTable(crc32.Castagnoli)))
}

func firm(e model.Entry) uint32 {
	if e.Firm {
		return 1 << 27
	}
	return 0
}

func needs(p *model.Plan) []byte {
	le := binary.LittleEndian
	out := le.AppendUint32(nil, uint32(len(p.Needs)))
	at := 0
	for _, l := range p.Needs {
		out = le.AppendUint32(out, uint32(at))
		at += len(l)
	}
	out = le.AppendUint32(out, uint32(at))
	for _, l := range p.Needs {
		for _, r := range l {
			out = le.AppendUint32(out, r[0])
			out = le.AppendUint32(out, r[1])
		}
	}
	return out
}
