package compiler

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"stweaver/ir"
)

// Future needs. A dynamic request has no address of its own; at run time it may lie in arena space
// that is free when it comes and that no planned request *starts* to use before it usually dies. What
// began earlier is either live, and then in the occupancy, or not wanted this time. So each dynamic
// entry needs the addresses of the planned entries allocated in (own, own + life) whose stream uses the same part
// of the arena:
//
//	address |  ==a==            a began before: occupied while it lives
//	        |        ====b===   b starts in d's life: d must not lie there
//	        |   <-- d -->
//	        +----------------> entry
//
// Walking the sequence backwards, twice round the loop, every atom knows the next entry that uses it:
// the atoms used before d's death are its list. Lists repeat (as iterations and layers do) and are stored
// once.
//
// Where streams share, what another stream starts to use counts until AGE after the death: a guest that is
// gone for less would make that stream wait for an event that is young. Source: the scheme called 6x in our notes on dynamic requests; the published one takes the
// addresses that no static request touches in a window of whole modules, and so needs module marks.

// Limits: beyond them dynamic requests go to the heap, which is slower to reach the bound but never wrong.
const (
	maxNeedLists = 1 << 14
	maxNeedWork  = 4 << 30 // dynamic entries × atoms
)

// future computes the lists of the plan's dynamic entries. listOf[k] is 1 + the list of entry k, or 0.
func future(p *ir.Problem, l *ir.Layout) (lists [][]ir.NeedRange, listOf []uint32) {
	listOf = make([]uint32, len(p.Entries))
	n := 0
	for k := range p.Entries {
		if e := &p.Entries[k]; e.Buffer == ir.NoBuffer && e.Life < ir.MaxLife {
			n++
		}
	}
	edges := atomEdges(p, l)
	if n == 0 || len(edges) < 2 || int64(n)*int64(len(edges)) > maxNeedWork {
		return nil, listOf
	}
	f := &needs{p: p, l: l, edges: edges, next: make([][]int, 1), index: make(map[string]uint32)}
	if p.Sharing.On {
		f.next = make([][]int, len(p.Streams))
	}
	for s := range f.next {
		f.next[s] = slices.Repeat([]int{math.MaxInt}, len(edges)-1)
	}
	loop, total := int(p.L1-p.L0), int(p.L1)
	if loop > 0 { // the turn after: shows what comes back
		for k := total - 1; k >= int(p.L0); k-- {
			f.use(k, k+loop)
		}
	}
	for k := total - 1; k >= 0; k-- {
		e := &p.Entries[k]
		if e.Buffer != ir.NoBuffer {
			f.use(k, k)
			continue
		}
		if e.Life < ir.MaxLife && len(f.lists) < maxNeedLists {
			listOf[k] = 1 + f.list(f.clockOf(e.Stream), k+int(e.Life))
		}
	}
	return f.lists, listOf
}

type needs struct {
	p     *ir.Problem
	l     *ir.Layout
	edges []ir.Offset // boundaries of the planned buffers, ascending: atom i is [edges[i], edges[i+1])
	next  [][]int     // by stream, one where they are apart, and atom: the next clock at which a planned entry starts to use it
	soon  []int       // by atom: next as one stream sees it
	lists [][]ir.NeedRange
	index map[string]uint32
	key   []byte
}

func atomEdges(p *ir.Problem, l *ir.Layout) []ir.Offset {
	var edges []ir.Offset
	for i := range p.Buffers {
		edges = append(edges, l.Offsets[i], l.Offsets[i]+ir.Offset(p.Buffers[i].Size))
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

// use notes that entry k starts to use its range at clock.
func (f *needs) use(k, clock int) {
	b := f.p.Entries[k].Buffer
	if b == ir.NoBuffer {
		return
	}
	from := f.l.Offsets[b]
	to := from + ir.Offset(f.p.Buffers[b].Size)
	for i := sort.Search(len(f.edges), func(i int) bool { return f.edges[i] >= from }); f.edges[i] < to; i++ {
		f.next[f.clockOf(f.p.Entries[k].Stream)][i] = clock
	}
}

// clockOf is where in next a stream's entries are noted.
func (f *needs) clockOf(s ir.StreamID) int {
	if f.p.Sharing.On {
		return int(s)
	}
	return 0
}

// list returns the list of what is used before clock death, by others than own before AGE after it.
func (f *needs) list(own, death int) uint32 {
	f.key = f.key[:0]
	next := f.next[own]
	if len(f.next) > 1 {
		next = append(f.soon[:0], next...)
		for s, other := range f.next {
			for i, at := range other {
				if s != own {
					next[i] = min(next[i], at-int(f.p.Sharing.Age))
				}
			}
		}
		f.soon = next
	}
	var list []ir.NeedRange
	for i := 0; i < len(next); i++ {
		if next[i] >= death {
			continue
		}
		from := i
		for i+1 < len(next) && next[i+1] < death {
			i++
		}
		list = append(list, ir.NeedRange{Begin: f.edges[from], End: f.edges[i+1]})
		f.key = binary.LittleEndian.AppendUint32(f.key, uint32(from))
		f.key = binary.LittleEndian.AppendUint32(f.key, uint32(i))
	}
	id, ok := f.index[string(f.key)]
	if !ok {
		id = uint32(len(f.lists))
		f.index[string(f.key)] = id
		f.lists = append(f.lists, list)
	}
	return id
}
