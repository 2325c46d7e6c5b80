package model

// The order of streams, as MATCHER.md says: which stream has to wait for which, and when. The C core has
// numbers of words and atoms in flat arrays; here a line has one number for each atom.

// EventOptions describe a backend that orders streams, and whose answers are known in advance.
type EventOptions struct {
	On        bool   // it has event functions
	Lag       uint64 // an event is done when that many have been recorded after it
	FailEvery uint64 // every so many calls of the three functions one fails; 0: none
	Keep      bool   // the calls are kept
}

// EventCall is one call of an event function: what the backend was asked, and what it answered.
type EventCall struct {
	What   byte // 'r': record on Stream, 'w': Stream waits for Event, 'd': is Event done?
	Answer int8 // 1: yes, or it was done; 0: not yet; -1: failure
	_      [2]byte
	Event  uint32
	Stream uint64 // raw handle; 0 where it was not said
}

// orderedStreams is how many streams take part.
const orderedStreams = 256

const (
	keptEvents = 16
	leastAge   = 128
	defaultAge = 500
	mostEvery  = 256
)

const never = ^uint64(0)

type order struct {
	shared          bool
	age, every, due uint64 // an event is old at that age
	frees           uint64
	lines           []*line
	known           map[[2]uint64]uint64 // by waiting and waited for handle
}

type line struct {
	handle               uint64
	number               map[int]uint64 // by atom
	last, since, reached uint64
	events               []stamp
}

type stamp struct {
	id            uint32
	covers, asked uint64
	clock         map[uint64]uint64 // by handle
}

func newOrder(shared bool, sharedAge uint32) *order {
	o := &order{shared: shared, age: defaultAge, due: never, known: make(map[[2]uint64]uint64)}
	if shared {
		o.age = max(uint64(sharedAge)-1, leastAge)
	}
	o.every = min(o.age/8, mostEvery)
	o.age -= o.every
	return o
}

func (o *order) line(handle uint64) *line {
	for _, l := range o.lines {
		if l.handle == handle {
			return l
		}
	}
	l := &line{handle: handle, number: make(map[int]uint64)}
	o.lines = append(o.lines, l)
	return l
}

func (l *line) covered() uint64 {
	if len(l.events) == 0 {
		return 0
	}
	return l.events[len(l.events)-1].covers
}

// covering is the index of the oldest event that covers t.
func (l *line) covering(t uint64) (int, bool) {
	for i, e := range l.events {
		if e.covers >= t {
			return i, true
		}
	}
	return 0, false
}

// ask is a call of the backend.
func (a *Allocator) ask(what byte, stream uint64, event uint32, answer int8) int8 {
	a.asked++
	if f := a.opts.Events.FailEvery; f != 0 && a.asked%f == 0 {
		answer = -1
		a.stats.EventFailures++
	}
	if a.opts.Events.Keep {
		a.calls = append(a.calls, EventCall{What: what, Answer: answer, Event: event, Stream: stream})
	}
	return answer
}

// EventCalls are all calls so far, where they are kept.
func (a *Allocator) EventCalls() []EventCall { return a.calls }

// streamIndex is the place of a handle among those seen.
func (a *Allocator) streamIndex(handle uint64) int {
	i, ok := a.seen[handle]
	if !ok {
		i = len(a.seen)
		a.seen[handle] = i
		a.handles = append(a.handles, handle)
	}
	return i
}

// answered is the number of requests without the one under way.
func (a *Allocator) answered() uint64 {
	if a.underWay {
		return a.stats.Requests - 1
	}
	return a.stats.Requests
}

func (a *Allocator) note(l *line) {
	o := a.order
	if l.last <= l.covered() {
		l.since = a.answered()
		o.due = min(o.due, l.since+o.every)
	}
	l.last = o.frees
}

func (a *Allocator) record(l *line) bool {
	o := a.order
	if a.ask('r', l.handle, a.recorded+1, 1) < 0 {
		l.since = a.answered()
		return false
	}
	a.recorded++
	a.stats.EventRecords++
	clock := map[uint64]uint64{}
	for k, v := range o.known {
		if k[0] == l.handle {
			clock[k[1]] = v
		}
	}
	clock[l.handle] = o.frees
	l.events = append(l.events, stamp{a.recorded, o.frees, a.answered(), clock})
	if len(l.events) > keptEvents {
		l.events = l.events[1:]
	}
	return true
}

func (a *Allocator) runDue() {
	o, now := a.order, a.answered()
	if now < o.due {
		return
	}
	o.due = never
	for _, l := range o.lines {
		if l.last <= l.covered() {
			continue
		}
		if l.since+o.every > now || !a.record(l) {
			o.due = min(o.due, l.since+o.every)
		}
	}
}

// wait makes later work of b begin after the free of number t of l's stream.
func (a *Allocator) wait(b uint64, l *line, t uint64) bool {
	o, now := a.order, a.answered()
	i, ok := l.covering(t)
	if !ok {
		if !a.record(l) {
			return false
		}
		i = len(l.events) - 1
	}
	for i+1 < len(l.events) && now-l.events[i+1].asked >= o.age {
		i++
	}
	e := l.events[i]
	if a.ask('w', b, e.id, 1) < 0 {
		return false
	}
	for x, v := range e.clock {
		k := [2]uint64{b, x}
		o.known[k] = max(o.known[k], v)
	}
	a.stats.EventWaits++
	a.stats.WaitedAge += now - e.asked
	if now-e.asked < o.age {
		a.stats.YoungWaits++
	}
	return true
}

func (a *Allocator) isReached(l *line, t uint64) bool {
	if l.reached >= t {
		return true
	}
	i, ok := l.covering(t)
	if !ok {
		if !a.record(l) {
			return false
		}
		i = len(l.events) - 1
	}
	answer := int8(0)
	if uint64(a.recorded) >= uint64(l.events[i].id)+a.opts.Events.Lag {
		answer = 1
	}
	if a.ask('d', 0, l.events[i].id, answer) <= 0 {
		return false
	}
	l.reached = l.events[i].covers
	return true
}

// atoms of the arena that r covers.
func (a *Allocator) atoms(r interval) (from, to int) {
	for a.occupied.edges[from] < r.begin {
		from++
	}
	for to = from; a.occupied.edges[to] < r.end; to++ {
	}
	return from, to
}

// place finds room for a guest of stream b, which the plan knows, in `most` ranges.
func (a *Allocator) place(b uint64, needed []bool, z uint64, most int) (interval, bool) {
	o, s := a.order, a.plan.Streams[a.planStream(b)]
	if o == nil || a.streamIndex(b) >= orderedStreams {
		return a.occupied.run(s, needed, z, most)
	}
	dear := append([]bool(nil), needed...)
	for _, l := range o.lines {
		if l.handle == b {
			continue
		}
		cheap := max(o.known[[2]uint64{b, l.handle}], l.reached)
		for _, e := range l.events {
			if a.answered()-e.asked >= o.age {
				cheap = max(cheap, e.covers)
			}
		}
		for i, t := range l.number {
			if t > cheap {
				dear[i] = true
			}
		}
	}
	if r, ok := a.occupied.run(s, dear, z, most); ok {
		return r, true
	}
	return a.occupied.run(s, needed, z, most)
}

// takeArena takes r, which is free, for z bytes of b, if there is memory for them and b can be made to wait for
// everyone it has to.
func (a *Allocator) takeArena(b uint64, r interval, z uint64) bool {
	if !a.commitArena(r, z) {
		return false
	}
	o := a.order
	if o == nil {
		a.occupied.take(r)
		return true
	}
	a.runDue()
	if a.streamIndex(b) >= orderedStreams {
		return false
	}
	if o.shared {
		o.line(b)
	}
	from, to := a.atoms(r)
	for {
		var which *line
		var t uint64
		for _, l := range o.lines {
			var u uint64
			for i := from; i < to && l.handle != b; i++ {
				u = max(u, l.number[i])
			}
			if u > max(o.known[[2]uint64{b, l.handle}], l.reached) && u > t {
				which, t = l, u
			}
		}
		if t == 0 {
			a.occupied.take(r)
			return true
		}
		if !a.wait(b, which, t) {
			return false
		}
	}
}

// freedArena notes the free of a block that covers r.
func (a *Allocator) freedArena(b live, r interval) {
	o := a.order
	if o == nil {
		return
	}
	o.frees++
	streams := b.marks
	if o.shared {
		streams = append([]uint64{b.stream}, streams...)
	}
	from, to := a.atoms(r)
	for _, s := range streams {
		l := o.line(s)
		a.note(l)
		for i := from; i < to; i++ {
			l.number[i] = o.frees
		}
	}
}
