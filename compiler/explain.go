package compiler

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"stweaver/ir"
)

// Explanation says where a plan's memory goes: the tick that decides, what is alive there, what
// holds the plan's peak up, and what could lower it.
//
//	address
//	   |  +--top--+                 Peak: the end of a buffer
//	   |  |       |   waste: below the peak, at a tick of top's life, and nobody's
//	   |  +-------+
//	   |  +----+  +------+          the fullest tick of top's life is where the fault is
//	   +--+----+--+------+---> tick
type Explanation struct {
	Tightest Moment   `json:"tightest"` // the first tick at which the most is alive: the bound
	Peak     Moment   `json:"peak"`     // the fullest tick of the lives of the highest buffers
	Waste    ir.Bytes `json:"waste_bytes"`
	// Holes are the free ranges below the highest buffer at Peak, in its stream's part of the arena.
	Holes       int      `json:"holes"`
	LargestHole ir.Bytes `json:"largest_hole_bytes"`
	Top         []Holder `json:"top"`    // buffers that end at the plan's peak
	Advice      []string `json:"advice"` // what would lower the peak, most telling first
}

// Moment is one plan tick.
type Moment struct {
	Tick    ir.Tick  `json:"tick"`
	Where   string   `json:"where"` // prologue or step, entry, phase
	Live    ir.Bytes `json:"live_bytes"`
	Buffers int      `json:"buffers"`
	Largest []Holder `json:"largest"` // of what is alive, by size and site, summed
}

// Holder is a class of buffers: one size, kind and place in the program.
type Holder struct {
	Count  int      `json:"count"`
	Size   ir.Bytes `json:"size_bytes"` // of one
	Kind   string   `json:"kind"`
	Stream int      `json:"stream"`
	Site   string   `json:"site"` // source line, where the profile has it
	Entry  uint32   `json:"entry"`
}

const explainMost = 12 // holders listed

// Explain looks into a finished compile.
func (c *Compiled) Explain() *Explanation {
	x := &Explanation{}
	if len(c.Problem.Buffers) == 0 {
		return x
	}
	_, at := c.Problem.LivePeak()
	x.Tightest = c.moment(at)
	var top []ir.BufferID
	for i := range c.Problem.Buffers {
		if ir.Bytes(c.Layout.Offsets[i])+c.Problem.Buffers[i].Size == c.Layout.Peak {
			top = append(top, ir.BufferID(i))
		}
	}
	x.Top = c.holders(top)
	tick, highest := c.fullest(top)
	x.Peak = c.moment(tick)
	x.Waste = c.Layout.Peak - x.Peak.Live
	x.Holes, x.LargestHole = c.holes(x.Peak.Tick, c.Problem.Buffers[highest].Stream)
	x.Advice = c.advice(x)
	return x
}

// holes counts the free ranges of a stream's part of the arena at tick t, below the highest buffer there.
func (c *Compiled) holes(t ir.Tick, stream ir.StreamID) (n int, largest ir.Bytes) {
	var live []ir.BufferID
	for i := range c.Problem.Buffers {
		if b := &c.Problem.Buffers[i]; (b.Stream == stream || c.options.Sharing.On) && alive(b, t) {
			live = append(live, ir.BufferID(i))
		}
	}
	slices.SortFunc(live, func(a, b ir.BufferID) int { return cmp.Compare(c.Layout.Offsets[a], c.Layout.Offsets[b]) })
	at := c.Streams[stream].Begin
	for _, id := range live {
		if free := ir.Bytes(c.Layout.Offsets[id] - at); free > 0 {
			n++
			largest = max(largest, free)
		}
		at = c.Layout.Offsets[id] + ir.Offset(c.Problem.Buffers[id].Size)
	}
	return n, largest
}

func alive(b *ir.Buffer, t ir.Tick) bool {
	return b.Start <= t && t < b.End || b.HeadStart <= t && t < b.HeadEnd
}

// fullest is the first tick of the lives of some buffers at which the most is alive, and one of them that is alive there.
func (c *Compiled) fullest(of []ir.BufferID) (ir.Tick, ir.BufferID) {
	p := c.Problem
	live := make([]ir.Bytes, p.L1+1) // by tick; so far what begins there less what ends
	for i := range p.Buffers {
		o := &p.Buffers[i]
		live[o.Start] += o.Size
		live[o.End] -= o.Size
		live[o.HeadStart] += o.Size
		live[o.HeadEnd] -= o.Size
	}
	for t := 1; t < len(live); t++ {
		live[t] += live[t-1]
	}
	best, which := p.Buffers[of[0]].Start, of[0]
	for _, id := range of {
		b := &p.Buffers[id]
		for _, life := range [][2]ir.Tick{{b.Start, b.End}, {b.HeadStart, b.HeadEnd}} {
			for t := life[0]; t < life[1]; t++ {
				if live[t] > live[best] || live[t] == live[best] && t < best {
					best, which = t, id
				}
			}
		}
	}
	return best, which
}

func (c *Compiled) moment(t ir.Tick) Moment {
	m := Moment{Tick: t, Where: c.where(t)}
	var ids []ir.BufferID
	for i := range c.Problem.Buffers {
		if b := &c.Problem.Buffers[i]; alive(b, t) {
			m.Live += b.Size
			ids = append(ids, ir.BufferID(i))
		}
	}
	m.Buffers = len(ids)
	m.Largest = c.holders(ids)
	return m
}

// where names a plan tick in the program's own words.
func (c *Compiled) where(t ir.Tick) string {
	p := c.Problem
	phase := ""
	i := sort.Search(len(p.Marks), func(i int) bool { return ir.Tick(p.Marks[i].Entry) > t })
	for i--; i >= 0; i-- {
		if m := p.Marks[i]; m.Kind == ir.MarkPhase {
			nth := 0
			for j := range i + 1 {
				if p.Marks[j].Kind == ir.MarkIteration {
					nth = 0
				} else if p.Marks[j].Name == m.Name {
					nth++
				}
			}
			phase = fmt.Sprintf(", phase %q number %d", p.Names[m.Name], nth)
			break
		}
	}
	if t < p.L0 {
		return fmt.Sprintf("start-up, request %d of %d%s", t, p.L0, phase)
	}
	n := (p.L1 - p.L0) / ir.Tick(max(p.Unroll, 1))
	return fmt.Sprintf("step, request %d of %d%s", (t-p.L0)%n, n, phase)
}

// holders sums buffers up by what a reader would call the same thing, most bytes first.
func (c *Compiled) holders(ids []ir.BufferID) []Holder {
	type key struct {
		size   ir.Bytes
		kind   ir.Kind
		stream ir.StreamID
		site   ir.NameID
	}
	index := make(map[key]int)
	var out []Holder
	for _, id := range ids {
		b := &c.Problem.Buffers[id]
		e := &c.Problem.Entries[b.Start]
		k := key{b.Size, b.Kind, b.Stream, c.Trace.Requests[e.Request].Site}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, Holder{Size: b.Size, Kind: b.Kind.String(), Stream: int(b.Stream), Site: c.Trace.Name(k.site), Entry: uint32(b.Start)})
		}
		out[i].Count++
	}
	slices.SortStableFunc(out, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Size*ir.Bytes(b.Count), a.Size*ir.Bytes(a.Count)), cmp.Compare(a.Entry, b.Entry))
	})
	return out[:min(len(out), explainMost)]
}

// advice lists what the numbers point at.
func (c *Compiled) advice(x *Explanation) []string {
	var out []string
	bound := c.Bound()
	if gap := c.Layout.Peak - bound; gap == 0 {
		out = append(out, "the plan is as small as these lifetimes allow: only freeing earlier, or asking for less, lowers it")
	} else {
		out = append(out, fmt.Sprintf("%s above the bound (%s): %s are unused below the peak at its fullest moment, in %d holes of at most %s; the highest buffer has %s",
			Size(gap), strings.Join(c.boundKinds(), ", "), Size(x.Waste), x.Holes, Size(x.LargestHole), Size(x.Top[0].Size)))
		if c.options.Effort != Max {
			out = append(out, "--effort max searches longer; --prove asks whether there is anything lower")
		}
	}
	switch together, _ := c.Problem.LivePeak(); {
	case together < c.Layout.Peak && c.options.Sharing.On:
		out = append(out, fmt.Sprintf("%s above the live peak with %s: a smaller AGE gives less distance between streams, and younger waits; --curve shows both",
			Size(c.Layout.Peak-together), SharingText(c.options.Sharing)))
	case together < bound && len(c.Packs) > 1:
		out = append(out, fmt.Sprintf("streams share no memory: that costs %s of %s; allocate on one stream what need not overlap", Size(bound-together), Size(bound)))
	}
	var persistent, dynamic ir.Bytes
	for i := range c.Problem.Buffers {
		if b := &c.Problem.Buffers[i]; b.Kind == ir.Persistent && alive(b, x.Tightest.Tick) {
			persistent += b.Size
		}
	}
	for k := range c.Problem.Entries {
		if e := &c.Problem.Entries[k]; e.Kind == ir.Dynamic {
			dynamic += e.MaxSize
		}
	}
	if limit := c.options.Rules.Capacity; limit > 0 {
		out = append(out, fmt.Sprintf("the capacity of %s leaves %s for what is outside the plan", Size(limit), Size(limit-c.Arena())))
	}
	if room := c.reserved(); room > 0 {
		out = append(out, fmt.Sprintf("%s are reserved for dynamic requests: without the rule the plan is smaller by as much", Size(room)))
	}
	if x.Tightest.Live > 0 {
		out = append(out, fmt.Sprintf("%s of the %s alive at the tightest moment live for the whole run (weights, gradients, optimizer state)", Size(persistent), Size(x.Tightest.Live)))
	}
	if dynamic > 0 {
		out = append(out, fmt.Sprintf("%s a step are dynamic and outside the plan (sizes or presence vary): the heap needs room beside it", Size(dynamic)))
	}
	if x.Tightest.Tick < c.Problem.L0 {
		out = append(out, "the tightest moment is in start-up, not in the step: the first iteration decides the peak")
	}
	return out
}

// WriteText prints x for people.
func (x *Explanation) WriteText(w io.Writer) {
	list := func(title string, m Moment) {
		fmt.Fprintf(w, "%s: %s in %d buffers, %s\n", title, Size(m.Live), m.Buffers, m.Where)
		for _, h := range m.Largest {
			h.write(w)
		}
	}
	list("tightest moment", x.Tightest)
	if x.Peak.Tick != x.Tightest.Tick {
		list("below the plan's highest buffer", x.Peak)
	}
	fmt.Fprintln(w, "at the plan's peak:")
	for _, h := range x.Top {
		h.write(w)
	}
	for _, a := range x.Advice {
		fmt.Fprintf(w, "- %s\n", a)
	}
}

func (h Holder) write(w io.Writer) {
	site := h.Site
	if site == "" {
		site = fmt.Sprintf("entry %d", h.Entry)
	}
	fmt.Fprintf(w, "  %5d x %-11s %-10s stream %d  %s\n", h.Count, Size(h.Size), h.Kind, h.Stream, site)
}
