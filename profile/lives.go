package profile

import (
	"math"

	"stweaver/ir"
)

// lives replays the events of one allocator and keeps who lived where, and when.
//
//	address
//	  ^   |#### A ####|          #### C ####|   C's alloc while A was open: A's free was
//	  |        |## B ##...........|             lost, A is closed there (LostFree)
//	  |########|                                a free without an alloc: Before
//	  |#####################################    in the final state only: a ghost
//	  +----------------------------------------> tick
//
// An address is in one of four states: never seen, open, free requested (B: dots), closed.
// A free of an address never seen belongs to what lived before the recording. A free of a
// closed one cannot: its block would have overlapped the one that is on record. It is
// counted and changes nothing.
//
// Ticks are given out in the order of the calls, one for each event that has an effect.
type lives struct {
	before  []ir.Request // Alloc == Before, in the order their frees came
	during  []ir.Request // ordered by Alloc
	places  map[uint64]place
	tick    ir.Tick
	streams []uint64
	ids     map[uint64]ir.StreamID
	lastRaw uint64 // of the last stream looked up
	lastID  ir.StreamID
	flags   ir.RequestFlags                       // of every request
	poolOf  func(pool uint32, addr uint64) uint32 // numbers a claim's pool; nil: all are the default pool
	count   counts
}

// claim is what an event says about a block.
type claim struct {
	size   ir.Bytes
	stream uint64
	pool   uint32 // in the reader's own numbering
}

// counts is what a replay noticed, for the notes.
type counts struct {
	unmatched    int // frees of what lived before
	lostFree     int
	strayFree    int // frees of an address already closed
	twiceAsked   int // free requests for what was already requested
	otherSize    int // frees whose size differs from the allocation's
	zero         int // allocations of no bytes
	deferred     int // freed later than asked
	ghosts       int
	pending      int
	revived      int // resident at the end though the events closed them
	vanished     int // open in the events, not resident at the end
	otherEnd     int // resident at the end with another requested size
	brokenBlocks int // segments whose blocks do not tile them
}

type place struct {
	req   int32 // index in during; ^index in before
	state placeState
}

type placeState uint8

const (
	placeOpen placeState = iota + 1
	placeAsked
	placeClosed
)

func newLives() *lives {
	return &lives{places: make(map[uint64]place), ids: make(map[uint64]ir.StreamID)}
}

func (l *lives) stream(raw uint64) ir.StreamID {
	if len(l.streams) > 0 && raw == l.lastRaw {
		return l.lastID
	}
	id, ok := l.ids[raw]
	if !ok {
		id = ir.StreamID(len(l.streams))
		l.ids[raw] = id
		l.streams = append(l.streams, raw)
	}
	l.lastRaw, l.lastID = raw, id
	return id
}

// owner is the request that p is about.
func (l *lives) owner(p place) *ir.Request {
	if p.req < 0 {
		return &l.before[^p.req]
	}
	return &l.during[p.req]
}

// next hands out a tick.
func (l *lives) next() ir.Tick {
	t := l.tick
	l.tick++
	return t
}

// request makes a request of what an event at addr says.
func (l *lives) request(addr uint64, c claim) ir.Request {
	r := ir.Request{Size: c.size, Alloc: ir.Before, FreeRequested: ir.Never, Free: ir.Never, Stream: l.stream(c.stream), Flags: l.flags}
	if l.poolOf != nil {
		r.Pool = l.poolOf(c.pool, addr)
	}
	return r
}

// alloc records an allocation of c.size > 0 bytes at addr.
func (l *lives) alloc(addr uint64, c claim, site ir.NameID) {
	if p, ok := l.places[addr]; ok && p.state != placeClosed {
		old := l.owner(p)
		old.Free = l.next()
		if p.state == placeOpen {
			old.FreeRequested = old.Free
		}
		old.Flags |= ir.LostFree
		l.count.lostFree++
	}
	r := l.request(addr, c)
	r.Alloc, r.Site = l.next(), site
	l.places[addr] = place{int32(len(l.during)), placeOpen}
	l.during = append(l.during, r)
}

// open finds what a free of addr is about. It reports false where the free must be ignored.
func (l *lives) open(addr uint64, c claim) (place, bool) {
	p, ok := l.places[addr]
	if !ok {
		p = place{^int32(len(l.before)), placeOpen}
		l.before = append(l.before, l.request(addr, c))
		l.count.unmatched++
		return p, true
	}
	if p.state == placeClosed {
		l.count.strayFree++
		return p, false
	}
	if c.size != l.owner(p).Size {
		l.count.otherSize++
	}
	return p, true
}

// ask records that the program let go of addr; the memory is not reusable yet.
func (l *lives) ask(addr uint64, c claim) {
	p, ok := l.open(addr, c)
	if !ok {
		return
	}
	if p.state == placeAsked {
		l.count.twiceAsked++
		return
	}
	l.owner(p).FreeRequested = l.next()
	p.state = placeAsked
	l.places[addr] = p
}

// free records that the memory at addr is reusable: the end of a free asked for earlier,
// or of one asked for in the same breath.
func (l *lives) free(addr uint64, c claim) {
	p, ok := l.open(addr, c)
	if !ok {
		return
	}
	r := l.owner(p)
	r.Free = l.next()
	if p.state == placeAsked {
		l.count.deferred++
	} else {
		r.FreeRequested = r.Free
	}
	p.state = placeClosed
	l.places[addr] = p
}

// resident tells that a block of c.size bytes at addr is in use at the end, of which
// requested were asked for (-1: unknown). What no event spoke of is a ghost. It reports
// whether an open request is accounted for by it.
func (l *lives) resident(addr uint64, c claim, requested int64) bool {
	p, ok := l.places[addr]
	switch {
	case !ok:
		l.places[addr] = place{^int32(len(l.before)), placeClosed}
		r := l.request(addr, c)
		r.Flags |= ir.Ghost | ir.Sized
		l.before = append(l.before, r)
		l.count.ghosts++
		return false
	case p.state == placeClosed:
		l.count.revived++
		return false
	}
	if requested >= 0 && ir.Bytes(requested) != l.owner(p).Size {
		l.count.otherEnd++
	}
	return true
}

// finish moves everything into t and adds the notes that every recording may need.
func (l *lives) finish(t *ir.Trace) error {
	if t.Requests = l.during; len(l.before) > 0 {
		t.Requests = append(l.before, l.during...)
	}
	t.Streams = l.streams
	t.Events = int64(l.tick)
	var sum ir.Bytes
	for i := range t.Requests {
		r := &t.Requests[i]
		if r.FreeRequested != ir.Never && r.Free == ir.Never {
			r.Flags |= ir.PendingFree
			l.count.pending++
		}
		if sum > math.MaxInt64-r.Rounded() {
			return fault("the sizes of all requests sum to more than 2^63 bytes").hint("the file is damaged or not a profile")
		}
		sum += r.Rounded()
	}
	if l.count.unmatched > 0 || l.count.ghosts > 0 {
		t.Late = true
	}
	l.count.note(t)
	return nil
}

// note words the counts.
func (c *counts) note(t *ir.Trace) {
	add := func(n int, level ir.NoteLevel, code, text string) {
		if n > 0 {
			t.Notef(level, code, text, n)
		}
	}
	add(c.unmatched, ir.Warn, "late", "%d frees of blocks that were allocated before the recording began")
	add(c.ghosts, ir.Warn, "ghost", "%d resident blocks that no event speaks of")
	add(c.lostFree, ir.Warn, "lost-free", "%d allocations at an address whose free was never recorded; the earlier owner is taken as freed there")
	add(c.strayFree, ir.Warn, "stray-free", "%d frees of an address that was already free are ignored")
	add(c.twiceAsked, ir.Warn, "stray-free", "%d free requests for blocks whose free was already requested are ignored")
	add(c.otherSize, ir.Warn, "size-mismatch", "%d frees give another size than the allocation; the allocation's is used")
	add(c.pending, ir.Info, "pending-free", "%d frees were requested and not completed when the recording ended")
	add(c.deferred, ir.Info, "deferred-free", "%d frees completed later than they were requested")
	add(c.zero, ir.Info, "zero-size", "%d requests of no bytes are left out")
	add(c.revived, ir.Warn, "end-state", "%d blocks are resident at the end though the events freed them; the events are believed")
	add(c.vanished, ir.Warn, "end-state", "%d requests are open in the events and not resident at the end; they are taken to live on")
	add(c.otherEnd, ir.Warn, "end-state", "%d blocks are resident at the end with another size than was allocated there; the events are believed")
	add(c.brokenBlocks, ir.Warn, "end-state", "%d segments are not exactly filled by their blocks")
}

// checkSize refuses sizes that no allocator serves.
func checkSize(size int64) error {
	if size < 0 {
		return fault("negative size %d", size)
	}
	if size > int64(ir.MaxSize) {
		return fault("size %d is above the limit of 2^60 bytes", size)
	}
	return nil
}

// judgePeak compares what was alive with what the allocator held, where both are known.
// Rounding differs by at most a few per cent between allocators; more is a contradiction.
func judgePeak(t *ir.Trace) {
	if t.Reserved < 0 {
		return
	}
	peak, at := t.LivePeak()
	if peak > t.Reserved+t.Reserved/32 {
		t.Notef(ir.Bad, "inconsistent", "%d bytes are alive at tick %d but the allocator never held more than %d: events are missing", peak, at, t.Reserved)
	}
}

// names builds a trace's name table.
type names struct {
	ids  map[string]ir.NameID
	list []string
}

func newNames() *names { return &names{map[string]ir.NameID{"": 0}, []string{""}} }

func (n *names) id(s string) ir.NameID {
	id, ok := n.ids[s]
	if !ok {
		id = ir.NameID(len(n.list))
		n.ids[s] = id
		n.list = append(n.list, s)
	}
	return id
}
