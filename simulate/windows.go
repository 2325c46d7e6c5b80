package simulate

import (
	"cmp"
	"slices"
	"sort"

	"stweaver/ir"
)

// windows is the published planner's runtime (STAlloc, section 6.2 "Dynamic Reusable Space", and the code of its artifact): a
// request of the plan goes to its planned address where it fits and the place is free; a dynamic one
// goes to the ranges of the arena that no planned request touches from the start of the module in which it is made to the end of
// the module in which it is freed, best fit among those now free; all else goes to a heap beside the arena.
//
//	address
//	  ^    module | module | module        a dynamic request of the second module, freed in the third
//	  |    +---------+                     is kept out of whatever a planned request touches between
//	  |    | planned |                     the two outer lines, before or after its own life, too
//	  |    +---------+  [dynamic]
//	  +----|--------|--------|-------> entry
//
// It is kinder than the published one in four ways: the events say which entry a request is taken for, where that counts
// requests and is lost after one too many; a smaller request may have its place; the static plan is any, not its own; and the heap is the ideal
// best-fit one. So a difference to a replay of the same plan is that of the rule for dynamic requests.
//
// The arena is taken whole, at once. Segment 0 is the arena.
type windows struct {
	heap  model
	plan  *ir.Plan
	cuts  []uint32
	arena []*block // in use, by address
	busy  map[[2]int64][]span
	short bool // no memory for the arena
}

// span is a range of the arena, half-open.
type span struct{ from, to ir.Bytes }

func newWindows(d *driver, o *Options) model {
	return &windows{heap: newBestFit(d, o), plan: o.Plan, cuts: o.Cuts, busy: make(map[[2]int64][]span),
		short: o.Plan.Arena > 0 && !d.take(o.Plan.Arena, 1)}
}

func (w *windows) malloc(r request) *block {
	if w.short {
		return nil
	}
	if r.entry != ir.NoEntry {
		s := &w.plan.Slots[w.plan.Entries[r.entry].Slot]
		at, size := ir.Bytes(s.Lo), r.size
		ok := s.Flags&ir.SlotPlanned != 0
		if ok {
			ok = r.size <= ir.Bytes(s.Hi) && w.isFree(span{at, at + ir.Bytes(s.Hi)})
			size = ir.Bytes(s.Hi)
		} else if int(s.Stream) < len(w.plan.Streams) {
			own := &w.plan.Streams[s.Stream]
			at, ok = w.gap(r.size, span{ir.Bytes(own.Begin), ir.Bytes(own.End)}, w.touched(w.window(int64(r.entry))))
		}
		if ok {
			b := &block{size: size, at: at, used: true}
			i := w.above(at)
			w.arena = slices.Insert(w.arena, i, b)
			return b
		}
	}
	return w.heap.malloc(r)
}

func (w *windows) free(b *block) {
	if b.segment != 0 {
		w.heap.free(b)
		return
	}
	i := w.above(b.at) - 1
	w.arena = slices.Delete(w.arena, i, i+1)
}

// above is the index of the first block in use that begins above at.
func (w *windows) above(at ir.Bytes) int {
	return sort.Search(len(w.arena), func(i int) bool { return w.arena[i].at > at })
}

func (w *windows) isFree(s span) bool {
	i := w.above(s.to - 1)
	return i == 0 || w.arena[i-1].at+w.arena[i-1].size <= s.from
}

// gap is the smallest range of own, the lowest of equals, that holds size and meets neither a block in use nor
// one of touched.
func (w *windows) gap(size ir.Bytes, own span, touched []span) (at ir.Bytes, ok bool) {
	best, end := ir.Bytes(0), own.from
	consider := func(to ir.Bytes) {
		if n := min(to, own.to) - end; n >= size && (!ok || n < best) {
			at, best, ok = end, n, true
		}
	}
	for i, k := 0, 0; i < len(w.arena) || k < len(touched); {
		var s span
		if k == len(touched) || i < len(w.arena) && w.arena[i].at < touched[k].from {
			s = span{w.arena[i].at, w.arena[i].at + w.arena[i].size}
			i++
		} else {
			s = touched[k]
			k++
		}
		consider(s.from)
		end = max(end, s.to)
	}
	consider(own.to)
	return at, ok
}

// forever is a clock after every death.
const forever = int64(1) << 40

// window is the clock from the start of the module in which dynamic entry k is made to the end of the one in which it
// usually dies; past the end of the loop it goes on in the next pass.
func (w *windows) window(k int64) (from, to int64) {
	l0, l1 := int64(w.plan.LoopStart), int64(len(w.plan.Entries))
	life := int64(w.plan.Entries[k].Life)
	if k >= l0 {
		from = l0
		if i := sort.Search(len(w.cuts), func(i int) bool { return int64(w.cuts[i]) > k }); i > 0 {
			from = int64(w.cuts[i-1])
		}
	}
	if life == ir.MaxLife || l1 > l0 && life >= l1-l0 {
		return from, forever
	}
	death, pass := k+life, int64(0)
	if death <= l0 {
		return from, l0
	}
	if death > l1 {
		death, pass = death-(l1-l0), l1-l0
	}
	to = l1
	if i := sort.Search(len(w.cuts), func(i int) bool { return int64(w.cuts[i]) >= death }); i < len(w.cuts) {
		to = int64(w.cuts[i])
	}
	return from, to + pass
}

// touched are the ranges of the arena that planned requests have at some time of [from, to), merged.
func (w *windows) touched(from, to int64) []span {
	key := [2]int64{from, to}
	if list, ok := w.busy[key]; ok {
		return list
	}
	l0, n := int64(w.plan.LoopStart), int64(len(w.plan.Entries))-int64(w.plan.LoopStart)
	var all []span
	for k := range w.plan.Entries {
		s := &w.plan.Slots[w.plan.Entries[k].Slot]
		if s.Flags&ir.SlotPlanned == 0 {
			continue
		}
		start, end := int64(k), int64(k)+int64(w.plan.Entries[k].Life)
		if w.plan.Entries[k].Life == ir.MaxLife {
			end = forever
		}
		meets := start < to && end > from
		if start >= l0 && from >= l0 { // of every pass
			meets = meets || start-n < to && end-n > from || start+n < to
		}
		if meets {
			all = append(all, span{ir.Bytes(s.Lo), ir.Bytes(s.Lo + s.Hi)})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	merged := []span{}
	for _, s := range all {
		if n := len(merged); n > 0 && s.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, s.to)
		} else {
			merged = append(merged, s)
		}
	}
	w.busy[key] = merged
	return merged
}
