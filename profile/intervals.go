package profile

import (
	"cmp"
	"math"
	"slices"

	"stweaver/ir"
)

// interval is one line of a list of lifetimes: [lower, upper) in the list's own time.
type interval struct {
	lower, upper int64
	size         int64
	stream       uint64
	id           string
}

// renumber turns a list of intervals into a trace in which every event has a tick of its
// own. The list's time may have several events at once; the order that keeps intervals
// half-open, and the live peak what it was, is:
//
//	time   ... 7                     8
//	       ... frees at 7 | allocs at 7 | frees at 8 | ...
//	            by id     |    by id    |
//
// Ids that are integers go first, by value, then the others as text, then the order of
// the lines: shuffled lines with distinct ids give the same trace.
func renumber(list []interval, zero int) (*ir.Trace, error) {
	if len(list) == 0 {
		if zero > 0 {
			return nil, fault("%d requests, all of no bytes", zero)
		}
		return nil, fault("no requests")
	}
	if len(list) > math.MaxInt32/2 {
		return nil, fault("more than %d requests", math.MaxInt32/2)
	}
	keys := make([]idKey, len(list))
	order := make([]int32, len(list))
	for i := range list {
		keys[i] = newIDKey(list[i].id)
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return keys[a].compare(keys[b]) })
	events := make([]edge, 0, 2*len(list))
	for _, i := range order {
		events = append(events, edge{list[i].lower, i, 1}, edge{list[i].upper, i, 0})
	}
	slices.SortStableFunc(events, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.alloc, b.alloc))
	})

	l := newLives() // for the streams and what finish does; lives are known already
	at := make([]int32, len(list))
	for _, e := range events {
		v := &list[e.i]
		if e.alloc == 1 {
			r := l.request(0, claim{size: ir.Bytes(v.size), stream: v.stream})
			r.Alloc = l.next()
			at[e.i] = int32(len(l.during))
			l.during = append(l.during, r)
			continue
		}
		r := &l.during[at[e.i]]
		r.Free = l.next()
		r.FreeRequested = r.Free
	}
	l.count.zero = zero
	t := &ir.Trace{Names: []string{""}, Reserved: -1, OnePass: true}
	return t, l.finish(t)
}

// edge is one end of an interval; alloc is 1 for the lower one.
type edge struct {
	time  int64
	i     int32
	alloc int8
}

// idKey orders ids: integers by value before text by bytes.
type idKey struct {
	text string
	n    int64
	isN  bool
}

func newIDKey(id string) idKey {
	n, ok := parseInt([]byte(id))
	return idKey{id, n, ok}
}

func (k idKey) compare(o idKey) int {
	switch {
	case k.isN != o.isN:
		if k.isN {
			return -1
		}
		return 1
	case k.isN:
		return cmp.Compare(k.n, o.n)
	}
	return cmp.Compare(k.text, o.text)
}

// checkInterval refuses what is no lifetime.
func checkInterval(v interval) *Error {
	if v.lower >= v.upper {
		return fault("the interval [%d, %d) is empty", v.lower, v.upper).
			hint("upper is the first moment at which the memory is free: above lower")
	}
	if err := checkSize(v.size); err != nil {
		return err.(*Error)
	}
	return nil
}
