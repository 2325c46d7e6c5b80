package ir_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stweaver/ir"
)

// quadratic is the oracle's oracle: every pair of buffers, tick by tick.
func quadratic(p *ir.Problem, l *ir.Layout) (v2, v3 bool) {
	alive := func(b *ir.Buffer, t ir.Tick) bool {
		return b.Start <= t && t < b.End || b.HeadStart <= t && t < b.HeadEnd
	}
	for i := range p.Buffers {
		for j := range i {
			a, b := &p.Buffers[i], &p.Buffers[j]
			meet := l.Offsets[i] < l.Offsets[j]+ir.Offset(b.Size) && l.Offsets[j] < l.Offsets[i]+ir.Offset(a.Size)
			if !meet {
				continue
			}
			if p.Sharing.On {
				v3 = v3 || tooYoung(p, a, b) || tooYoung(p, b, a)
			} else {
				v3 = v3 || a.Stream != b.Stream
			}
			for t := ir.Tick(0); t < p.L1; t++ {
				v2 = v2 || alive(a, t) && alive(b, t)
			}
		}
	}
	return v2, v3
}

// instances are the lives of b in the prologue and the first turns of the loop, one by one.
func instances(p *ir.Problem, b *ir.Buffer) (lives [][2]ir.Tick) {
	const turns = 4
	turn := p.L1 - p.L0
	if b.HasHead() {
		lives = append(lives, [2]ir.Tick{b.HeadStart, b.HeadEnd})
	}
	if turn == 0 || b.Start < p.L0 {
		return append(lives, [2]ir.Tick{b.Start, b.End})
	}
	end := b.End
	if b.HasHead() {
		end = b.HeadEnd + turn
	}
	for k := range ir.Tick(turns) {
		lives = append(lives, [2]ir.Tick{b.Start + k*turn, end + k*turn})
	}
	return lives
}

// tooYoung reports whether an instance of b begins less than AGE ticks after one of a that it must wait for.
func tooYoung(p *ir.Problem, a, b *ir.Buffer) bool {
	age := p.Sharing.Age
	if a.Stream == b.Stream {
		age = min(age, ir.Tick(a.Lag))
	}
	for _, x := range instances(p, a) {
		for _, y := range instances(p, b) {
			if x[1] <= y[0] && y[0] < x[1]+age {
				return true
			}
		}
	}
	return false
}

// Of ten thousand layouts, some of them valid, the judge says what a look at every pair says.
func TestVerifyAgreesWithQuadratic(t *testing.T) {
	found := map[string]int{}
	for range 100 {
		rapid.Check(t, func(t *rapid.T) { agreesWithQuadratic(t, found) })
	}
	if testing.Short() {
		return // draws too few
	}
	for _, rule := range []string{"V2", "V3", "ok", "shared", "young"} {
		if found[rule] == 0 {
			t.Errorf("no case of %s was drawn: the test shows nothing", rule)
		}
	}
}

func agreesWithQuadratic(t *rapid.T, found map[string]int) {
	p := drawProblem(t)
	if err := p.Check(); err != nil {
		t.Fatalf("generator: %v", err)
	}
	l := drawLayout(t, p)
	if p.Sharing.On && rapid.Bool().Draw(t, "tight") {
		l = tight(p)
	}
	v2, v3 := quadratic(p, l)
	got := ir.Verify(p, nil, l)
	has := func(rule string) bool {
		return slices.ContainsFunc(got, func(v ir.Violation) bool { return v.Rule == rule })
	}
	if p.Sharing.On {
		found["shared"]++
		if !v2 && v3 {
			found["young"]++
		}
	}
	if has("V2") != v2 || !v2 && has("V3") != v3 || !p.Sharing.On && v3 && !has("V3") && len(got) < 20 {
		t.Fatalf("verify says %v, all pairs say V2 %t, V3 %t", got, v2, v3)
	}
	for _, v := range got {
		found[v.Rule]++
		if v.Rule == "V2" && !p.Buffers[v.A].Overlaps(&p.Buffers[v.B]) {
			t.Fatalf("%v: the two never live together", v)
		}
	}
	if len(got) == 0 {
		found["ok"]++
	}
}

func TestVerifyPlacesAndPeak(t *testing.T) {
	p := &ir.Problem{L1: 2, Streams: []uint64{0}, Buffers: []ir.Buffer{{Size: 512, Start: 0, End: 1}, {Size: 1024, Start: 1, End: 2}}}
	for _, c := range []struct {
		name string
		l    ir.Layout
		cap  ir.Bytes
		want string
	}{
		{"touching in time", ir.Layout{Offsets: []ir.Offset{0, 0}, Peak: 1024}, 0, ""},
		{"negative", ir.Layout{Offsets: []ir.Offset{ir.NoOffset, 0}, Peak: 1024}, 0, "V1"},
		{"unaligned", ir.Layout{Offsets: []ir.Offset{100, 0}, Peak: 1024}, 0, "V1"},
		{"a place too few", ir.Layout{Offsets: []ir.Offset{0}, Peak: 512}, 0, "V1"},
		{"wrong peak", ir.Layout{Offsets: []ir.Offset{0, 0}, Peak: 512}, 0, "V4"},
		{"fits", ir.Layout{Offsets: []ir.Offset{0, 0}, Peak: 1024}, 1024, ""},
		{"over capacity", ir.Layout{Offsets: []ir.Offset{0, 0}, Peak: 1024}, 1023, "V5"},
	} {
		got := ir.Verify(p, &ir.Rules{Capacity: c.cap}, &c.l)
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %v", c.name, got)
		case c.want != "" && (len(got) == 0 || got[0].Rule != c.want):
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}

// Buffers that only touch in time may share; a third one that pushes one of them must not
// make the others half-overlap (openxla/xla#46543).
func TestVerifyTouching(t *testing.T) {
	p := &ir.Problem{L1: 10, Streams: []uint64{0}, Buffers: []ir.Buffer{
		{Size: 4096, Start: 6, End: 7}, {Size: 4096, Start: 7, End: 10}, {Size: 1024, Start: 7, End: 8},
	}}
	bad := &ir.Layout{Offsets: []ir.Offset{0, 512, 0}, Peak: 4608}
	if v := ir.Verify(p, nil, bad); len(v) != 1 || v[0].Rule != "V2" {
		t.Errorf("overlap of 1 and 2 in [512, 1024): %v", v)
	}
	good := &ir.Layout{Offsets: []ir.Offset{0, 1024, 0}, Peak: 5120}
	if v := ir.Verify(p, nil, good); len(v) != 0 {
		t.Errorf("%v", v)
	}
}

func TestVerifyCapsItsReport(t *testing.T) {
	p := &ir.Problem{L1: 1, Streams: []uint64{0}}
	for range 100 {
		p.Buffers = append(p.Buffers, ir.Buffer{Size: 512, Start: 0, End: 1})
	}
	if v := ir.Verify(p, nil, &ir.Layout{Offsets: make([]ir.Offset, 100), Peak: 512}); len(v) != 20 {
		t.Errorf("%d violations, want 20", len(v))
	}
}

func TestStackIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		l, _ := stack(p)
		if v := ir.Verify(p, nil, l); len(v) > 0 {
			t.Fatal(v)
		}
		if peak, _ := p.LivePeak(); peak > l.Peak {
			t.Fatalf("live peak %d above a valid layout's %d", peak, l.Peak)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	const n = 100_000
	p := &ir.Problem{L1: n, Streams: []uint64{0}}
	l := &ir.Layout{}
	for i := range n {
		p.Buffers = append(p.Buffers, ir.Buffer{Size: 512, Start: ir.Tick(i), End: min(ir.Tick(i+100), n)})
		l.Offsets = append(l.Offsets, ir.Offset(i%100)*512)
	}
	l.Peak = 100 * 512
	for b.Loop() {
		if v := ir.Verify(p, nil, l); len(v) > 0 {
			b.Fatal(v)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/buffer")
}
