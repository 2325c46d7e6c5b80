package profile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"syscall"

	"stweaver/ir"
)

// The recording of STWeaver's own recorder. runtime/stw_record.h specifies the format; the constants
// below have its names.
//
// Blocks are read and checked one by one, each with the checksum that it carries on from the block
// before. What they hold becomes a flat list of events with streams and names resolved; then the
// device is chosen, and its events are replayed (stwp_replay.go).
//
// A file without a trailer is good up to its last whole block: its process died, or still runs. Whatever
// else is wrong means that the file was changed after it was written, and is refused.

const (
	stwpMagic      = "\x93STP\r\n\x1a\n"
	stwpMajor      = 1
	stwpHeader     = 64      // bytes
	stwpMaxHeader  = 4 << 10 // a later minor version may have more of it
	stwpBlockHead  = 16
	stwpUnit       = 16
	stwpTrailer    = 40
	stwpBlockUnits = 4096
	stwpIDs        = 4096

	stwpBlock = "STWB"
	stwpEnd   = "STWE"
)

// Kinds of units.
const (
	stwpMalloc = iota + 1
	stwpFree
	stwpUse
	stwpMark
	stwpHeld
	stwpStream
	stwpName
	stwpWide
)

// Why a recording ended before it was closed.
const (
	stwpClosed = iota
	stwpSlow
	stwpIO
	stwpFull
)

const stwpDamaged = "the file is damaged: copy it again, in binary mode"

func sniffStwp(head []byte) bool { return bytes.HasPrefix(head, []byte(stwpMagic[:4])) }

// stwpEvent is an event with its ids resolved.
type stwpEvent struct {
	v      uint64 // address, value of a mark, bytes held
	size   int64  // of a malloc
	ref    uint32 // malloc, use: index in streams; mark: NameID
	kind   uint8
	device uint8 // or kind of mark
}

// stwp is a file on its way to a trace.
type stwp struct {
	in        *bufio.Reader
	at        int64 // offset of what is read next
	crc       uint32
	buf       [stwpBlockHead + stwpBlockUnits*stwpUnit]byte
	allocator string

	events    slab[stwpEvent]
	streams   []uint64           // handles, one for each time that one got an id
	streamIDs [stwpIDs]uint32    // index in streams + 1
	nameIDs   [stwpIDs]ir.NameID // 0: not defined, but for id 0
	names     *names
	notes     ir.Trace // its notes
}

func readStwp(r *bufio.Reader, o Options) (*ir.Trace, error) {
	s := &stwp{in: r, names: newNames()}
	if err := s.header(); err != nil {
		return nil, err
	}
	for {
		more, err := s.block()
		if err != nil {
			return nil, err
		}
		if !more {
			return s.trace(o.Device)
		}
	}
}

// fill reads n bytes into buf[from:]. It reports false where the file ends before that, after reading what there is.
func (s *stwp) fill(from, n int) (read int, whole bool, err error) {
	read, err = io.ReadFull(s.in, s.buf[from:from+n])
	if err == io.EOF || err == io.ErrUnexpectedEOF { // a decompressor's are wrapped
		return read, false, nil
	}
	if err != nil {
		return read, false, readFault(err, s.at)
	}
	return read, true, nil
}

func (s *stwp) header() error {
	b := s.buf[:stwpHeader]
	if _, whole, err := s.fill(0, stwpHeader); err != nil {
		return err
	} else if !whole {
		return fault("the file ends inside its header").at(0).because(io.ErrUnexpectedEOF).
			hint("the recorder had written nothing: record again")
	}
	if string(b[:len(stwpMagic)]) != stwpMagic {
		return fault("its first bytes were changed on the way").at(0).hint("copy it again, in binary mode")
	}
	major, minor := binary.LittleEndian.Uint16(b[8:]), binary.LittleEndian.Uint16(b[10:])
	if major != stwpMajor {
		return fault("version %d.%d of the format; this reads version %d", major, minor, stwpMajor).at(8).
			hint("use the stweaver that belongs to the recorder")
	}
	size := binary.LittleEndian.Uint32(b[12:])
	if size < stwpHeader || size > stwpMaxHeader {
		return fault("a header of %d bytes", size).at(12).hint(stwpDamaged)
	}
	s.allocator = string(bytes.TrimRight(b[16:48], "\x00"))
	if _, whole, err := s.fill(stwpHeader, int(size)-stwpHeader); err != nil {
		return err
	} else if !whole {
		return fault("the file ends inside its header").at(0).because(io.ErrUnexpectedEOF).hint("record again")
	}
	s.crc = crc32.Update(0, castagnoli, s.buf[:size])
	s.at = int64(size)
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// block reads the next block. It reports false after the trailer, and where the file ends without one.
func (s *stwp) block() (more bool, err error) {
	n, whole, err := s.fill(0, stwpBlockHead)
	if err != nil {
		return false, err
	}
	if !whole {
		return false, s.cut(n)
	}
	switch string(s.buf[:4]) {
	case stwpEnd:
		return false, s.trailer()
	case stwpBlock:
	default:
		return false, fault("neither a block nor the trailer begins here").at(s.at).hint(stwpDamaged)
	}
	units := binary.LittleEndian.Uint32(s.buf[4:])
	if units == 0 || units > stwpBlockUnits {
		return false, fault("a block of %d units", units).at(s.at).hint(stwpDamaged)
	}
	bytes := int(units) * stwpUnit
	n, whole, err = s.fill(stwpBlockHead, bytes)
	if err != nil {
		return false, err
	}
	if !whole {
		return false, s.cut(stwpBlockHead + n)
	}
	if err := s.checksum(stwpBlockHead + bytes); err != nil {
		return false, err
	}
	if err := s.units(s.buf[stwpBlockHead : stwpBlockHead+bytes]); err != nil {
		return false, err
	}
	s.at += int64(stwpBlockHead + bytes)
	return true, nil
}

// checksum takes the sum over buf[:n], in which it is stored at 8, on from that of what came before.
func (s *stwp) checksum(n int) error {
	want := binary.LittleEndian.Uint32(s.buf[8:])
	clear(s.buf[8:12])
	if crc32.Update(s.crc, castagnoli, s.buf[:n]) != want {
		return fault("the checksum is wrong").at(s.at).hint(stwpDamaged)
	}
	s.crc = want
	return nil
}

// cut notes that the file ends without a trailer, n bytes after its last whole block.
func (s *stwp) cut(n int) error {
	rest := ""
	if n > 0 {
		rest = fmt.Sprintf("; %d bytes of a block that is not whole are left out", n)
	}
	s.notes.Notef(ir.Warn, "cut", "the recording was not closed (its process died or still runs, or the file was cut off): its events up to byte %d are used%s", s.at, rest)
	return nil
}

func (s *stwp) trailer() error {
	n, whole, err := s.fill(stwpBlockHead, stwpTrailer-stwpBlockHead)
	if err != nil {
		return err
	}
	if !whole {
		return s.cut(stwpBlockHead + n)
	}
	if err := s.checksum(stwpTrailer); err != nil {
		return err
	}
	b := s.buf[:stwpTrailer]
	reason, errno := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[12:])
	events, lost := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	if events != uint64(s.events.n) {
		return fault("%d events were read and %d were written", s.events.n, events).at(s.at).hint(stwpDamaged)
	}
	if whole := binary.LittleEndian.Uint64(b[32:]); whole != uint64(s.at)+stwpTrailer {
		return fault("the file ends after %d bytes and was written with %d", s.at+stwpTrailer, whole).at(s.at).hint(stwpDamaged)
	}
	if _, err := s.in.Peek(1); err == nil {
		return fault("the file goes on after its end").at(s.at + stwpTrailer).hint("one recording a file")
	} else if !errors.Is(err, io.EOF) {
		return readFault(err, s.at+stwpTrailer)
	}
	why := "for a reason that this version does not know"
	switch reason {
	case stwpClosed:
		return nil
	case stwpSlow:
		why = "because the file could not be written as fast as events came"
	case stwpIO:
		why = fmt.Sprintf("because it could not be written (%s)", syscall.Errno(errno))
	case stwpFull:
		why = "because the file had reached its limit"
	}
	s.notes.Notef(ir.Warn, "cut", "recording ended after %d events, %s; %d later events are not in it", events, why, lost)
	return nil
}

// units turns the units of a block, which is at s.at, into events.
func (s *stwp) units(b []byte) error {
	wide := int64(-1)
	for i := 0; i < len(b); i += stwpUnit {
		word, v := binary.LittleEndian.Uint64(b[i:]), binary.LittleEndian.Uint64(b[i+8:])
		e := stwpEvent{v: v, kind: uint8(word & 15), device: uint8(word >> 4)}
		id, n := uint32(word>>12)&(stwpIDs-1), int64(word>>24)
		where := s.at + stwpBlockHead + int64(i)
		if wide >= 0 && e.kind != stwpMalloc {
			return fault("a size that no request follows").at(where).hint(stwpDamaged)
		}
		switch e.kind {
		case stwpMalloc, stwpUse:
			if e.ref = s.streamIDs[id] - 1; s.streamIDs[id] == 0 {
				return fault("stream %d is not defined", id).at(where).hint(stwpDamaged)
			}
			if e.size = n; wide >= 0 {
				e.size, wide = wide, -1
			}
			if e.kind == stwpMalloc && v != 0 {
				if err := checkSize(e.size); err != nil {
					return err.(*Error).at(where)
				}
			}
		case stwpFree, stwpHeld:
		case stwpMark:
			name := s.nameIDs[id]
			if name == 0 && id != 0 {
				return fault("name %d is not defined", id).at(where).hint(stwpDamaged)
			}
			if k := ir.MarkKind(e.device); k < ir.MarkIteration || k > ir.MarkLeave {
				return fault("a mark of kind %d", e.device).at(where).hint("use the stweaver that belongs to the recorder")
			}
			e.ref = uint32(name)
		case stwpStream:
			s.streams = append(s.streams, v)
			s.streamIDs[id] = uint32(len(s.streams))
			continue
		case stwpName:
			text := b[i+stwpUnit:]
			if n == 0 || id == 0 || n > int64(len(text)) {
				return fault("a name of %d bytes with id %d", n, id).at(where).hint(stwpDamaged)
			}
			s.nameIDs[id] = s.names.id(strings.ToValidUTF8(string(text[:n]), "\ufffd"))
			i += int(n+stwpUnit-1) / stwpUnit * stwpUnit
			continue
		case stwpWide:
			if wide = int64(v); wide < 0 {
				return fault("a size of %d bytes", v).at(where).hint(stwpDamaged)
			}
			continue
		default:
			return fault("a unit of kind %d", e.kind).at(where).hint("use the stweaver that belongs to the recorder")
		}
		s.events.add(e)
	}
	if wide >= 0 {
		return fault("a size that no request follows").at(s.at + stwpBlockHead + int64(len(b))).hint(stwpDamaged)
	}
	return nil
}
