package compiler

import (
	"slices"
	"sort"

	"stweaver/ir"
)

// Lives and kinds of template entries.
//
// The clock inside the template is the index of the entry. A request dies at the first entry
// that is requested after its free; in the k-th iteration after its own, k whole templates
// are added:
//
//	window 1  | . A . . . . | . . f . |       A: own 1, death len + 3, life len + 2
//	            0 1 2 …         0 1 2 3
//
// Where the windows differ the longest life counts. A window that lacks what comes next leaves the death open: B below is dead at
// any of 2, 3 and 4, and the earliest will do, for what comes before 4 is not there to take its place. Only where all windows show
// the same next request does the free name it (Firm).
//
//	all       | A B C D E . |
//	window 2  | A B f . . E |
//	            0 1 2 3 4
//
// The end of the recording hides some:
// what the last window still holds when it ends dies where the events after the window show it,
// unless the windows before say that it is carried, and then as long as there; or as the same entry did
// in the windows before; with a single window, as the request did that played the same part one
// iteration earlier and is seen to die.

// transientEntries is the longest life, in entries, of what passes for transient where the
// profile marks no phases.
const transientEntries = 64

// setLives fills in Life.
func (tm *Template) setLives(s *sequence, m *merger) {
	n, last := len(tm.Entries), len(tm.Windows)-1
	l := lifeSpan{s: s, m: m, n: n, horizon: s.horizon(tm.Windows[last][1])}
	known := make([]int, n)   // longest life seen, -1 none
	named := make([]int, n)   // to the request after the free, where last seen
	varies := make([]bool, n) // not all lives seen are the same
	atLeast := make([]int, n) // shown by windows before the last that never saw the end
	for i := range known {
		known[i] = -1
	}
	for w, b := range m.bounds {
		for k := b[0]; k < b[1]; k++ {
			own := int(m.rank[m.colOf[w][k-b[0]]])
			if least, death, ok := l.death(w, k); ok {
				varies[own] = varies[own] || known[own] >= 0 && named[own] != death-own
				named[own] = death - own
				known[own] = max(known[own], least-own)
			} else if w < last {
				atLeast[own] = max(atLeast[own], (last-w+1)*n-own)
			}
		}
	}
	var open []int // clocks of the last window's requests whose end nothing shows
	b := m.bounds[last]
	for k := b[0]; k < b[1]; k++ {
		own := int(m.rank[m.colOf[last][k-b[0]]])
		if _, _, ok := l.death(last, k); ok || own+known[own] > n {
			continue // seen, or carried as in the windows before
		}
		if death, ok := l.deathAfter(k); ok {
			// In the windows before, if any, it died in its own iteration; here it does not.
			varies[own] = varies[own] || known[own] >= 0
			known[own] = death - own
		} else if known[own] >= 0 { // nothing shows the end, but at that of the window it was alive
			varies[own] = true
			known[own] = n - own
		} else {
			open = append(open, k)
		}
	}
	if last == 0 {
		l.pairOpen(open, known)
	}
	for i := range tm.Entries {
		life := known[i]
		if !varies[i] && life >= 0 {
			life = max(life, named[i])
		}
		if life < 0 || atLeast[i] > life {
			life = ir.MaxLife
		}
		tm.Entries[i].Life = uint32(min(life, ir.MaxLife))
		tm.Entries[i].Firm = !varies[i] && life < ir.MaxLife
	}
}

// horizon is the tick from which on frees mean nothing: the process is going away.
func (s *sequence) horizon(after ir.Tick) ir.Tick {
	for _, k := range s.t.Marks {
		if k.Kind == ir.MarkIteration && k.Value < 0 && k.Tick >= after {
			return k.Tick
		}
	}
	return ir.Never
}

type lifeSpan struct {
	s       *sequence
	m       *merger
	n       int // entries
	horizon ir.Tick
}

// death is the template clock from which on request k, of window w, is dead, and that of the first request after
// its free; false where it outlives the windows.
func (l *lifeSpan) death(w, k int) (least, next int, ok bool) {
	free, e := l.s.t.Requests[l.s.req[k]].Free, int(l.s.end[k])
	for v := w; v < len(l.m.bounds); v++ {
		if free >= l.m.cuts[v] {
			continue
		}
		b := l.m.bounds[v]
		rank := func(k int) int { return int(l.m.rank[l.m.colOf[v][k-b[0]]]) }
		least, next = 0, l.n
		if e > b[0] {
			least = rank(e-1) + 1
		}
		if e < b[1] {
			next = rank(e)
		}
		return (v-w)*l.n + least, (v-w)*l.n + next, true
	}
	return 0, 0, false
}

// deathAfter is death for a request of the last window that the events after it free. The
// iteration that follows may be cut short or of another kind; its requests are counted
// as if they were entries.
func (l *lifeSpan) deathAfter(k int) (int, bool) {
	end, last := l.s.end[k], l.m.bounds[len(l.m.bounds)-1][1]
	if end == noEnd || l.s.t.Requests[l.s.req[k]].Free >= l.horizon {
		return 0, false
	}
	return l.n + int(end) - last, true
}

// pairOpen gives the requests of the only window that outlive it the ends of what was alive
// when it began: in a steady iteration the same tensors, one iteration older. Equal size
// and stream pair in the order of their allocation, the latest with the latest.
func (l *lifeSpan) pairOpen(open []int, known []int) {
	type key struct {
		size   ir.Bytes
		stream ir.StreamID
	}
	b, cut := l.m.bounds[0], l.m.start
	older := make(map[key][]int) // deaths, by alloc
	for i := range l.s.t.Requests {
		r := &l.s.t.Requests[i]
		if !counted(r) || r.Alloc >= cut || r.Free < cut || r.Free == ir.Never {
			continue
		}
		if e := l.s.at(r.Free); e < b[1] {
			k := key{r.Rounded(), r.Stream}
			older[k] = append(older[k], int(l.m.rank[l.m.colOf[0][e-b[0]]]))
		}
	}
	for _, k := range slices.Backward(open) {
		t := &l.s.tok[k]
		id := key{t.size, t.stream}
		if o := older[id]; len(o) > 0 {
			own := int(l.m.rank[l.m.colOf[0][k-b[0]]])
			known[own] = l.n + o[len(o)-1] - own
			older[id] = o[:len(o)-1]
		}
	}
}

// setKinds classes the entries. Static is what every window has, with one size and with one
// instance alive at a time; all else is dynamic.
func (tm *Template) setKinds(s *sequence) {
	n := len(tm.Entries)
	var phases []ir.Tick // in the windows
	for _, k := range s.t.Marks {
		if k.Kind == ir.MarkPhase && k.Tick >= tm.Windows[0][0] && k.Tick < tm.Windows[len(tm.Windows)-1][1] {
			phases = append(phases, k.Tick)
		}
	}
	phaseOf := func(t ir.Tick) int {
		return sort.Search(len(phases), func(i int) bool { return phases[i] > t })
	}
	for i := range tm.Entries {
		e := &tm.Entries[i]
		switch life := int(e.Life); {
		case e.Optional || e.MinSize != e.MaxSize || life > n:
			e.Kind = ir.Dynamic
		case i+life > n:
			e.Kind = ir.Carried
		case len(phases) == 0 && life > transientEntries:
			e.Kind = ir.Scoped
		default:
			e.Kind = ir.Transient
			for w := 0; len(phases) > 0 && w < len(tm.Member); w++ {
				if r := &s.t.Requests[tm.Member[w][i]]; phaseOf(r.Alloc) != phaseOf(r.Free) {
					e.Kind = ir.Scoped
				}
			}
		}
	}
}
