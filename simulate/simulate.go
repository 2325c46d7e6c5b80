package simulate

import (
	"fmt"
	"slices"
	"strings"

	"stweaver/ir"
)

// request is what a model is asked for.
type request struct {
	size    ir.Bytes // a multiple of ir.Align, in (0, ir.MaxSize]
	stream  ir.StreamID
	private uint32 // pool
	entry   uint32 // of the plan, or ir.NoEntry
}

// model is an allocator of one device. One that has no room for a request returns nil, and may have given
// back cached memory meanwhile.
type model interface {
	malloc(r request) *block
	free(b *block)
}

// releaser is a model that can be asked to give back what it has cached.
type releaser interface{ release() }

// kind is a line of the table of allocators.
type kind struct {
	name, about string
	planned     bool // needs Options.Plan
	make        func(d *driver, o *Options) model
}

var kinds = []kind{
	{"native", "PyTorch's caching allocator, default settings", false, newNative},
	{"expandable", "PyTorch's caching allocator with expandable_segments:True", false, newExpandable},
	{"best-fit", "ideal best fit: one growing range a stream, no pools, no pages", false, newBestFit},
	{"windows", "a static plan, dynamic requests in published reusable space, the rest in a heap", true, newWindows},
}

// Names returns the names of the allocators, in the order of their table.
func Names() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// Planned reports whether the allocator name needs a plan.
func Planned(name string) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name && k.planned })
}

// About says in a few words what the allocator name is, "" where there is none.
func About(name string) string {
	for _, k := range kinds {
		if k.name == name {
			return k.about
		}
	}
	return ""
}

// Unlimited is the most memory that a simulation hands out where Options set no limit; with it no
// sum of sizes overflows.
const Unlimited ir.Bytes = 1 << 62

// Options of a run. The zero value has no limit.
type Options struct {
	Limit ir.Bytes // memory of the device; 0: Unlimited
	// Plan and Cuts are for the allocators that are Planned. Events name their entries in Plan; Cuts are the
	// entries of its loop before which a module or phase begins or ends, ascending.
	Plan *ir.Plan
	Cuts []uint32
}

// Result is what a run took. Bytes of requests are rounded to ir.Align.
type Result struct {
	Requests      int      // served
	PeakAllocated ir.Bytes // most bytes of live requests: the same for every allocator
	PeakOccupied  ir.Bytes // most bytes of blocks in use: with what a block is larger than its request
	PeakReserved  ir.Bytes // most bytes taken from the driver
	Reserved      ir.Bytes // at the end
	DriverCalls   int      // that take, map, unmap or give back memory
	OOM           bool     // a request found no room and the run ended there
	Failed        ir.Bytes // with OOM: the size of that request
}

// Efficiency is peak allocated / peak reserved; 1 of nothing.
func (r *Result) Efficiency() float64 {
	if r.PeakReserved == 0 {
		return 1
	}
	return float64(r.PeakAllocated) / float64(r.PeakReserved)
}

// Events are the requests of a recording in their order, with what was live before it first, and its releases.
// IDs are indices into t.Requests.
func Events(t *ir.Trace) []ir.Event {
	at := make([]int32, t.Events) // +(r+1) alloc, -(r+1) free, 0 neither
	events := make([]ir.Event, 0, 2*len(t.Requests))
	alloc := func(i int) {
		r := &t.Requests[i]
		events = append(events, ir.Event{Kind: ir.EvAlloc, ID: uint32(i), Size: r.Size, Stream: r.Stream, Pool: r.Pool, Entry: ir.NoEntry})
	}
	for i := range t.Requests {
		if r := &t.Requests[i]; r.Alloc == ir.Before {
			alloc(i)
		} else {
			at[r.Alloc] = int32(i + 1)
		}
		if f := t.Requests[i].Free; f != ir.Never {
			at[f] = -int32(i + 1)
		}
	}
	releases := t.Releases
	release := func(until ir.Tick) {
		for ; len(releases) > 0 && releases[0] <= until; releases = releases[1:] {
			events = append(events, ir.Event{Kind: ir.EvRelease, Entry: ir.NoEntry})
		}
	}
	for k, v := range at {
		release(ir.Tick(k))
		if v > 0 {
			alloc(int(v - 1))
		} else if v < 0 {
			events = append(events, ir.Event{Kind: ir.EvFree, ID: uint32(-v - 1), Stream: t.Requests[-v-1].Stream, Entry: ir.NoEntry})
		}
	}
	release(ir.Tick(t.Events))
	return events
}

// Run runs events through the allocator name. It may be called concurrently, also with the same events.
// The error says what is wrong with the name or the events; running out of memory is a Result.
func Run(name string, events []ir.Event, o Options) (Result, error) {
	return run(name, events, o, nil)
}

// run tells watch, if set, of each block as it is handed out and taken back.
func run(name string, events []ir.Event, o Options, watch func(id uint32, b *block, d *driver)) (Result, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return Result{}, fmt.Errorf("simulate: no allocator %q; there are %s", name, strings.Join(Names(), ", "))
	}
	if o.Limit < 0 || o.Limit > Unlimited {
		return Result{}, fmt.Errorf("simulate: a limit of %d bytes", o.Limit)
	}
	if kinds[i].planned && o.Plan == nil {
		return Result{}, fmt.Errorf("simulate: %s needs a plan", name)
	}
	d := &driver{limit: o.Limit}
	if d.limit == 0 {
		d.limit = Unlimited
	}
	m := kinds[i].make(d, &o)
	live := make(map[uint32]*block)
	var res Result
	var allocated, occupied ir.Bytes
	for k := range events {
		ev := &events[k]
		switch ev.Kind {
		case ir.EvAlloc:
			if ev.Size <= 0 || ev.Size > ir.MaxSize || live[ev.ID] != nil {
				return Result{}, fmt.Errorf("simulate: event %d: request %d of %d bytes, live before: %v", k, ev.ID, ev.Size, live[ev.ID] != nil)
			}
			if kinds[i].planned && ev.Entry != ir.NoEntry && int(ev.Entry) >= len(o.Plan.Entries) {
				return Result{}, fmt.Errorf("simulate: event %d is entry %d of a plan of %d", k, ev.Entry, len(o.Plan.Entries))
			}
			b := m.malloc(request{ir.RoundUp(ev.Size), ev.Stream, ev.Pool, ev.Entry})
			if b == nil {
				res.OOM, res.Failed = true, ev.Size
				d.report(&res)
				return res, nil
			}
			b.asked = ir.RoundUp(ev.Size)
			live[ev.ID] = b
			res.Requests++
			allocated += b.asked
			occupied += b.size
			res.PeakAllocated = max(res.PeakAllocated, allocated)
			res.PeakOccupied = max(res.PeakOccupied, occupied)
			if watch != nil {
				watch(ev.ID, b, d)
			}
		case ir.EvFree:
			b := live[ev.ID]
			if b == nil {
				return Result{}, fmt.Errorf("simulate: event %d frees request %d, which is not live", k, ev.ID)
			}
			delete(live, ev.ID)
			if watch != nil {
				watch(ev.ID, nil, d)
			}
			allocated -= b.asked
			occupied -= b.size
			m.free(b)
		case ir.EvRelease:
			if m, ok := m.(releaser); ok {
				m.release()
			}
		}
	}
	d.report(&res)
	return res, nil
}

// driver counts what an allocator takes from the device.
type driver struct {
	limit, held, peak ir.Bytes
	calls             int
}

// take asks for n bytes, with so many calls where it succeeds. A refusal costs a call, too.
func (d *driver) take(n ir.Bytes, calls int) bool {
	if n > d.limit-d.held {
		d.calls++
		return false
	}
	d.calls += calls
	d.held += n
	d.peak = max(d.peak, d.held)
	return true
}

// give gives n bytes back.
func (d *driver) give(n ir.Bytes, calls int) {
	d.held -= n
	d.calls += calls
}

func (d *driver) report(r *Result) {
	r.PeakReserved, r.Reserved, r.DriverCalls = d.peak, d.held, d.calls
}
