package compiler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"stweaver/ir"
)

// What sharing costs at run time, and what another AGE would give.
//
// A request that gets memory which another stream used last waits for that stream: one event, the youngest of that
// stream's frees among the memory it gets, for a stream's events come in order. An old event is long reached,
// and the wait is a call and nothing else. The runtime may need fewer: a stream that has waited for a later
// event of another need not wait for an earlier one.
//
// A request that gets memory of its own stream that was under record_stream waits for the marked streams. Where the
// recording shows that they were done by then, such a wait costs nothing at any age: these are counted apart.

// Waits are the waits of one iteration that the layout makes necessary.
type Waits struct {
	Step     float64 `json:"waits_per_step"` // (request, stream waited for) pairs, mean of the iterations of the loop
	Youngest ir.Tick `json:"youngest_age"`   // requests between the free and the wait, the least
	Median   ir.Tick `json:"median_age"`
	Once     int     `json:"waits_once"`            // until the loop runs steadily
	Marked   float64 `json:"marked_waits_per_step"` // of a stream for those that were marked on its own memory; not in the others
}

// waitsOf counts the waits of a layout.
func waitsOf(p *ir.Problem, l *ir.Layout) (w Waits) {
	type wait struct {
		to     ir.BufferID
		start  ir.Tick
		stream ir.StreamID
	}
	age := make(map[wait]ir.Tick)
	var steady []wait
	marked := 0
	for _, h := range p.Handovers(l) {
		k := wait{h.To, h.End + h.Age, p.Buffers[h.From].Stream}
		a, seen := age[k]
		switch {
		case seen:
			age[k] = min(a, h.Age)
			continue
		case !h.Steady:
			w.Once++
		case k.stream == p.Buffers[h.To].Stream:
			marked++
		default:
			steady = append(steady, k)
		}
		age[k] = h.Age
	}
	w.Marked = float64(marked) / float64(max(p.Unroll, 1))
	if len(steady) == 0 {
		return w
	}
	ages := make([]ir.Tick, len(steady))
	for i, k := range steady {
		ages[i] = age[k]
	}
	slices.Sort(ages)
	w.Step = float64(len(steady)) / float64(max(p.Unroll, 1))
	w.Youngest, w.Median = ages[0], ages[len(ages)/2]
	return w
}

// String is one line for people.
func (w Waits) String() string {
	text := "none in a step"
	if w.Step > 0 {
		text = fmt.Sprintf("%.4g a step, for events at least %d and in the middle %d requests old", w.Step, w.Youngest, w.Median)
	}
	if w.Marked > 0 {
		text += fmt.Sprintf("; %.4g for streams that were marked", w.Marked)
	}
	return text
}

// CurveAges are the points of the curve, beside the AGE asked for.
var CurveAges = []ir.Tick{0, 100, 200, 500, 1000, 2000}

// CurvePoint is what an AGE costs: the peak of a verified layout, and its waits.
type CurvePoint struct {
	Age  ir.Tick  `json:"age"`
	Peak ir.Bytes `json:"plan_peak_bytes"`
	Waits
	layout ir.Layout
}

// makeCurve packs for every AGE of the curve. A layout for a larger AGE is one for a smaller, too: a point
// is never above the next, and the plan gets the layout of its own point.
func (c *Compiled) makeCurve(ctx, search context.Context, sp *StreamPack) error {
	own := c.options.Sharing.Age
	ages := append([]ir.Tick{own}, CurveAges...)
	slices.Sort(ages)
	ages = slices.Compact(ages)
	c.Curve = make([]CurvePoint, len(ages))
	kept := c.shares
	defer func() { c.shares, c.options.Sharing.Age, c.Problem.Sharing.Age = kept, own, own }()
	var higher *CurvePoint
	for i, age := range slices.Backward(ages) {
		c.options.Sharing.Age, c.Problem.Sharing.Age = age, age
		at := &c.Curve[i]
		at.Age, at.layout, at.Peak = age, kept[0].layout, sp.Peak
		if age != own {
			c.shares = []share{together(c.Problem)}
			pack, err := c.packShare(search, &c.shares[0])
			if err != nil {
				return err
			}
			if err := c.orApart(search, &pack); err != nil {
				return err
			}
			at.layout, at.Peak = c.shares[0].layout, pack.Peak
		}
		if higher != nil && higher.Peak < at.Peak {
			at.layout, at.Peak = higher.layout, higher.Peak
			if age == own {
				kept[0].layout, sp.Peak = at.layout, at.Peak
				sp.Packer += fmt.Sprintf(", for an AGE of %d", higher.Age)
			}
		}
		if v := ir.Verify(c.Problem, nil, &at.layout); len(v) > 0 {
			panic(fmt.Sprintf("BUG: the layout for an AGE of %d is invalid: %v", age, v[0]))
		}
		at.Waits = waitsOf(c.Problem, &at.layout)
		higher = at
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// programWaits says what is known of the waits that the program itself makes between streams, and what knowing
// them could give: reuse that they order costs nothing at any age.
func (c *Compiled) programWaits() string {
	gain := c.Layout.Peak - c.Bound()
	if gain <= 0 || len(c.Trace.Streams) < 2 {
		return ""
	}
	seen, example := 0, ""
	for _, m := range c.Trace.Marks {
		name := c.Trace.Names[m.Name]
		if low := strings.ToLower(name); m.Kind == ir.MarkEnter && (strings.Contains(low, "wait") || strings.Contains(low, "synchronize")) {
			seen, example = seen+1, name
		}
	}
	if seen > 0 {
		return fmt.Sprintf("the profile shows %d waits of the program itself (like %q), but not between which streams: recorded with them, reuse after such a wait would cost nothing at any age, and up to %s could be gained", seen, example, Size(gain))
	}
	return fmt.Sprintf("the profile does not show where the program itself waits between streams: recorded, reuse after such a wait would cost nothing at any age, and up to %s could be gained", Size(gain))
}
