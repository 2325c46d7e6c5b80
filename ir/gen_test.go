package ir_test

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"stweaver/ir"
)

// drawProblem makes a small valid problem with loop, carried buffers, twins, dynamic
// entries and several streams.
func drawProblem(t *rapid.T) *ir.Problem {
	n := rapid.IntRange(0, 24).Draw(t, "entries")
	l0 := rapid.IntRange(0, n).Draw(t, "l0")
	streams := rapid.IntRange(1, 3).Draw(t, "streams")
	p := &ir.Problem{L0: ir.Tick(l0), L1: ir.Tick(n), Names: []string{"", "F", "odd name = \"x\""}}
	for s := range streams {
		p.Streams = append(p.Streams, uint64(s)*0x1000)
	}
	for k := range n {
		size := ir.Bytes(rapid.IntRange(1, 6).Draw(t, "units")) * ir.Align
		e := ir.Entry{MinSize: size, MaxSize: size, Buffer: ir.NoBuffer, Stream: ir.StreamID(rapid.IntRange(0, streams-1).Draw(t, "stream")),
			Flags: ir.EntryFlags(rapid.IntRange(0, 1).Draw(t, "firm")) * ir.Firm,
			NfMin: 0, NfMax: uint8(rapid.IntRange(0, 3).Draw(t, "nf")), Life: uint32(rapid.IntRange(1, 30).Draw(t, "life")), Request: uint32(k)}
		if rapid.IntRange(0, 4).Draw(t, "dynamic") == 0 {
			e.Kind, e.MaxSize = ir.Dynamic, size*2
			if rapid.Bool().Draw(t, "optional") {
				e.Flags |= ir.Optional
			}
			p.Entries = append(p.Entries, e)
			continue
		}
		b := ir.Buffer{Size: size, Start: ir.Tick(k), End: ir.Tick(k) + ir.Tick(e.Life), Stream: e.Stream, Kind: ir.Transient}
		if over := b.End - p.L1; over > 0 {
			b.End, b.Kind = p.L1, ir.Persistent
			if k >= l0 && k > l0 {
				b.HeadStart, b.HeadEnd, b.Kind = p.L0, p.L0+1+(over-1)%ir.Tick(k-l0), ir.Carried
			}
		}
		e.Buffer, e.Kind = ir.BufferID(len(p.Buffers)), b.Kind
		p.Buffers = append(p.Buffers, b)
		p.Entries = append(p.Entries, e)
	}
	if rapid.Bool().Draw(t, "shared") {
		p.Sharing = ir.Sharing{On: true, Age: ir.Tick(rapid.IntRange(0, 30).Draw(t, "age"))}
		for i := range p.Buffers {
			p.Buffers[i].Lag = uint16(max(rapid.IntRange(-30, 20).Draw(t, "lag"), 0))
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "marks") {
		m := ir.EntryMark{Kind: ir.MarkPhase, Name: ir.NameID(rapid.IntRange(1, 2).Draw(t, "name"))}
		if len(p.Marks) > 0 {
			m.Entry = p.Marks[len(p.Marks)-1].Entry
		}
		p.Marks = append(p.Marks, m)
	}
	return p
}

// drawLayout places buffers at random: most layouts are wrong, in every way.
func drawLayout(t *rapid.T, p *ir.Problem) *ir.Layout {
	l := &ir.Layout{Offsets: make([]ir.Offset, len(p.Buffers))}
	spread := rapid.IntRange(1, 60).Draw(t, "spread")
	for i := range p.Buffers {
		l.Offsets[i] = ir.Offset(rapid.IntRange(0, spread).Draw(t, "offset")) * ir.Offset(ir.Align)
		l.Peak = max(l.Peak, ir.Bytes(l.Offsets[i])+p.Buffers[i].Size)
	}
	return l
}

// tight places buffers by first fit on lifetimes alone, whatever their streams: free of overlaps.
func tight(p *ir.Problem) *ir.Layout {
	l := &ir.Layout{Offsets: make([]ir.Offset, len(p.Buffers))}
	for i := range p.Buffers {
		for j := 0; j < i; {
			if a := &p.Buffers[j]; p.Buffers[i].Overlaps(a) && l.Offsets[i] < l.Offsets[j]+ir.Offset(a.Size) && l.Offsets[j] < l.Offsets[i]+ir.Offset(p.Buffers[i].Size) {
				l.Offsets[i] = l.Offsets[j] + ir.Offset(a.Size)
				j = 0
			} else {
				j++
			}
		}
		l.Peak = max(l.Peak, ir.Bytes(l.Offsets[i])+p.Buffers[i].Size)
	}
	return l
}

// stack places buffers one above the other: always valid.
func stack(p *ir.Problem) (*ir.Layout, []ir.PlanStream) {
	l := &ir.Layout{Offsets: make([]ir.Offset, len(p.Buffers))}
	var streams []ir.PlanStream
	for s := range p.Streams {
		st := ir.PlanStream{Handle: p.Streams[s], Begin: ir.Offset(l.Peak)}
		for i := range p.Buffers {
			if p.Buffers[i].Stream == ir.StreamID(s) {
				l.Offsets[i] = ir.Offset(l.Peak)
				l.Peak += p.Buffers[i].Size
			}
		}
		st.End = ir.Offset(l.Peak)
		streams = append(streams, st)
	}
	return l, streams
}

// same compares values; an empty slice equals none.
func same(a, b any) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }
