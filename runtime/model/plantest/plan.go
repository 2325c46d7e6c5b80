// Package plantest makes valid random plans and the lists of requests that follow them, for
// tests of the model, of the C core and of the plan file. Nothing here ships.
package plantest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"stweaver/runtime/model"
)

// Source gives a number in [0, n). A property-testing library can stand behind it.
type Source func(n int) int

// Seeded returns a Source that is the same for the same seed.
func Seeded(seed uint64) Source {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	return r.IntN
}

// yes is true in one of n cases.
func (s Source) yes(n int) bool { return s(n) == n-1 }

// Case is a plan with what its entries do when the program keeps to it.
type Case struct {
	Plan *model.Plan
	Life []int // by entry: freed before the request that comes so many later; Forever: never
}

// Forever is the life of a request that is not freed.
const Forever = 1 << 20

// Config bounds a random plan.
type Config struct {
	Entries int  // at most
	Streams int  // at most
	Static  bool // every entry is planned and none is optional
	Guests  bool // dynamic entries have random lists of needs: planned ranges may be found occupied
	Shared  bool // streams share the arena: each uses all of it
	Copies  int  // the loop is so many times the same, where it is above 1
}

// New returns a random case: a prologue and a loop, or one pass alone; planned, dynamic and
// optional entries; lives that end soon, cross the border of the iteration or never end; marks.
// Its plan passes Check, and a program that keeps to it never finds a planned range occupied.
func New(src Source, c Config) *Case {
	n := 1 + src(c.Entries)
	loop := src(n + 1)
	if src.yes(4) {
		loop = n
	}
	each := 0
	if c.Copies > 1 {
		each = max(n-loop, 1)
		n = loop + c.Copies*each
	}
	p := &model.Plan{LoopStart: uint32(loop)}
	g := &maker{src: src, plan: p, n: n, loop: loop, each: each, config: c}
	for range 2 + src(6) {
		g.palette = append(g.palette, g.size())
	}
	streams := 1 + src(c.Streams)
	def := src(streams + 1) // which is the default stream; none if there is no such
	for k := range n {
		g.entry(k, streams)
	}
	for s := range g.order {
		handle := uint64(0)
		if s != def {
			handle = uint64(0x1000 + 16*s)
		}
		p.Streams = append(p.Streams, model.Stream{Handle: handle})
	}
	g.place()
	g.frees()
	g.marks()
	if err := p.Check(); err != nil {
		panic("BUG: plantest: " + err.Error())
	}
	return &Case{p, g.life}
}

// maker builds one case.
type maker struct {
	src     Source
	config  Config
	plan    *model.Plan
	n, loop int
	each    int      // entries of a copy of the loop; 0: it is none of copies
	palette []uint32 // sizes in units
	order   []int    // drawn stream numbers by first appearance
	want    []want
	life    []int
}

// want is an entry before it has a place.
type want struct {
	slot model.Slot
	busy [][2]int // pieces of time [from, to) in which its range is in use
}

// size draws a size in units: mostly small, sometimes above the heap's exact lists.
func (g *maker) size() uint32 {
	switch g.src(6) {
	case 0:
		return uint32(1 + g.src(8))
	case 1:
		return uint32(2000 + g.src(100))
	case 2:
		return uint32(2048 + g.src(3000))
	}
	return uint32(1 + g.src(64))
}

func (g *maker) entry(k, streams int) {
	s := 0
	if g.src.yes(4) {
		s = g.src(streams)
	}
	at := slices.Index(g.order, s)
	if at < 0 {
		at = len(g.order)
		g.order = append(g.order, s)
	}
	size := g.palette[g.src(len(g.palette))]
	slot := model.Slot{Hi: size, Stream: uint16(at), Flags: model.Planned}
	if !g.config.Static && g.src.yes(6) {
		slot = model.Slot{Lo: size, Hi: size + uint32(g.src(20)), Stream: uint16(at)}
	} else if !g.config.Static && g.src.yes(5) {
		slot.Varies = uint16(g.src(1 << 16))
	}
	if !g.config.Static && g.src.yes(8) {
		slot.Flags |= model.Optional
	}
	life := g.drawLife(k)
	if first := k - g.each; g.each > 0 && first >= g.loop {
		slot, life = g.want[first].slot, g.life[first]
	}
	g.want = append(g.want, want{slot, nil})
	g.life = append(g.life, life)
	w := &g.want[k]
	w.busy = [][2]int{{k, min(k+life, g.n)}}
	if over := k + life - g.n; over > 0 && life != Forever {
		w.busy = append(w.busy, [2]int{g.loop, g.loop + over})
	}
}

// drawLife returns how long entry k lives. A loop's entry dies at the latest when its next
// instance comes, a prologue's before the loop ends or never.
func (g *maker) drawLife(k int) int {
	period := g.n - g.loop
	if g.loop == g.n {
		period = g.n
	}
	most := period
	if k < g.loop {
		most = g.n - k
		if period < g.n && g.src.yes(5) {
			return Forever
		}
	}
	if g.loop == g.n {
		most = g.n - k // the pass gives everything back before it repeats
	}
	if g.src.yes(4) {
		return 1 + g.src(most)
	}
	return 1 + g.src(min(most, 8))
}

// place gives planned entries the lowest offset of their stream's part of the arena that is idle while
// they live, and equal slots one record.
func (g *maker) place() {
	base, done := uint64(0), []int(nil)
	index := make(map[model.Slot]uint32)
	for s := range g.plan.Streams {
		begin := base
		if s == 0 || !g.config.Shared {
			base += g.gap()
			done = nil
		}
		top := base
		for k := range g.want {
			w := &g.want[k]
			if int(w.slot.Stream) != s || w.slot.Flags&model.Planned == 0 {
				continue
			}
			w.slot.Lo = uint32(base/model.Unit) + g.lowest(k, done, uint32(base/model.Unit))
			done = append(done, k)
			top = max(top, uint64(w.slot.Lo+w.slot.Hi)*model.Unit)
		}
		top += g.gap()
		g.plan.Streams[s].Begin, g.plan.Streams[s].End = begin, top
		g.plan.Arena = max(g.plan.Arena, top)
		if !g.config.Shared {
			base = top
		}
	}
	if g.config.Shared {
		g.plan.SharedAge = 1 + uint32(g.src(500))
		for s := range g.plan.Streams {
			g.plan.Streams[s].Begin, g.plan.Streams[s].End = 0, g.plan.Arena
		}
	}
	if g.config.Guests {
		g.needs()
	}
	for _, w := range g.want {
		id, ok := index[w.slot]
		if !ok {
			id = uint32(len(g.plan.Slots))
			index[w.slot] = id
			g.plan.Slots = append(g.plan.Slots, w.slot)
		}
		g.plan.Entries = append(g.plan.Entries, model.Entry{Slot: id})
	}
	if g.config.Guests && g.src.yes(3) { // what some slots have is not for guests
		for range 1 + g.src(3) {
			if s := g.plan.Slots[g.src(len(g.plan.Slots))]; s.Flags&model.Planned != 0 {
				s.Flags = model.Planned | model.Kept
				g.plan.Slots = append(g.plan.Slots, s)
			}
		}
	}
}

// gap draws bytes at an end of a stream's range in which nothing has its place.
func (g *maker) gap() uint64 {
	if !g.src.yes(3) {
		return 0
	}
	return uint64(g.src(600)) * model.Unit
}

// needs draws lists of arena ranges, with ends anywhere, and gives them to dynamic slots.
func (g *maker) needs() {
	for range g.src(4) {
		list := [][2]uint32{}
		low, top := 0, int(g.plan.Arena/model.Unit)
		for low < top && g.src(4) > 0 {
			begin := low + g.src(top-low)
			end := begin + 1 + g.src(top-begin)
			list = append(list, [2]uint32{uint32(begin), uint32(end)})
			low = end
		}
		g.plan.Needs = append(g.plan.Needs, list)
	}
	for i := range g.want {
		if s := &g.want[i].slot; s.Flags&model.Planned == 0 {
			s.List = uint32(g.src(len(g.plan.Needs) + 1))
		}
	}
}

// lowest returns the lowest offset, in units above base, at which entry k meets none of done.
func (g *maker) lowest(k int, done []int, base uint32) uint32 {
	type piece struct{ lo, hi uint32 }
	var used []piece
	for _, d := range done {
		if meet(g.want[k].busy, g.want[d].busy) {
			lo := g.want[d].slot.Lo - base
			used = append(used, piece{lo, lo + g.want[d].slot.Hi})
		}
	}
	slices.SortFunc(used, func(a, b piece) int { return int(a.lo) - int(b.lo) })
	at := uint32(0)
	for _, u := range used {
		if at+g.want[k].slot.Hi <= u.lo {
			break
		}
		at = max(at, u.hi)
	}
	return at
}

func meet(a, b [][2]int) bool {
	for _, x := range a {
		for _, y := range b {
			if x[0] < y[1] && y[0] < x[1] {
				return true
			}
		}
	}
	return false
}

// frees fills in what a program that keeps to the plan shows: life and frees before each entry.
func (g *maker) frees() {
	c := &Case{g.plan, g.life}
	for k := range g.plan.Entries {
		g.plan.Entries[k].Life = uint32(min(g.life[k], Forever))
		of := k
		if g.each > 0 && k >= g.loop {
			of = (k - g.loop) % g.each
		}
		g.plan.Entries[k].Firm = g.life[k] != Forever && of%7 != 0
		g.plan.Entries[k].NfMin = 3
	}
	nf := 0
	c.walk(3, func(k int) bool { return true }, func(k int) {
		e := &g.plan.Entries[k]
		e.NfMin, e.NfMax = min(e.NfMin, uint8(nf)), max(e.NfMax, uint8(nf))
		nf = 0
	}, func(int) { nf = min(nf+1, 3) })
}

func (g *maker) marks() {
	for k := 0; k <= g.n; k++ {
		if k == g.loop && !g.src.yes(3) {
			g.plan.Marks = append(g.plan.Marks, model.Mark{Entry: uint32(k), Kind: model.MarkIteration})
		}
		if k < g.loop && g.src.yes(20) {
			g.plan.Marks = append(g.plan.Marks, model.Mark{Entry: uint32(k), Kind: model.MarkIteration, Value: int64(-1 - g.src(3))})
		}
		if g.src.yes(10) {
			name := model.HashName(Phase(g.src(Phases)))
			g.plan.Marks = append(g.plan.Marks, model.Mark{Entry: uint32(k), Kind: model.MarkPhase, Name: name})
		}
	}
}

// Phases is the number of phase names in use.
const Phases = 4

// Phase is the k-th phase name.
func Phase(k int) string { return fmt.Sprintf("phase %d", k) }
