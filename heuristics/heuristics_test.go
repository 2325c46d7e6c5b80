package heuristics

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

func TestSmallCases(t *testing.T) {
	const k = 1024
	buf := func(size ir.Bytes, start, end ir.Tick) ir.Buffer {
		return ir.Buffer{Size: size, Start: start, End: end}
	}
	head := func(b ir.Buffer, s, e ir.Tick) ir.Buffer { b.HeadStart, b.HeadEnd = s, e; return b }
	for _, c := range []struct {
		name    string
		buffers []ir.Buffer
		peak    ir.Bytes
	}{
		{"none", nil, 0},
		{"one", []ir.Buffer{buf(k, 3, 5)}, k},
		{"equal and apart", []ir.Buffer{buf(k, 0, 1), buf(k, 1, 2), buf(k, 2, 3)}, k},
		{"equal and together", []ir.Buffer{buf(k, 0, 3), buf(k, 1, 3), buf(k, 2, 3)}, 3 * k},
		// Ranges that only touch: [6,7) and [7,10) are apart, [6,8) and [7,10) are not. The
		// third must not push the second half over the first.
		{"touching", []ir.Buffer{buf(4*k, 6, 7), buf(4*k, 7, 10), buf(k, 7, 10)}, 5 * k},
		{"meeting", []ir.Buffer{buf(4*k, 6, 8), buf(4*k, 7, 10), buf(k, 7, 10)}, 9 * k},
		{"terabytes", []ir.Buffer{buf(1<<40, 0, 2), buf(1<<40, 1, 3), buf(1<<40, 2, 4), buf(512, 0, 4)}, 2<<40 + 512},
		{"largest request", []ir.Buffer{buf(ir.MaxSize, 0, 2), buf(ir.MaxSize, 1, 3)}, 2 * ir.MaxSize},
		{"no time at all", []ir.Buffer{buf(8*k, 5, 5), buf(k, 0, 9)}, 8 * k},
		{"no bytes", []ir.Buffer{buf(0, 0, 9), buf(k, 0, 9)}, k},
		{"to the end of time", []ir.Buffer{buf(k, 0, ir.Never), buf(k, 1<<62, ir.Never)}, 2 * k},
		{"before recording", []ir.Buffer{buf(k, ir.Before, 4), buf(k, 2, 6)}, 2 * k},
		// A carried buffer is alive on both sides of the loop: what lives beside its head
		// and what lives beside its main piece must both keep clear of it.
		{"head", []ir.Buffer{head(buf(2*k, 8, 10), 0, 3), buf(k, 1, 2), buf(k, 4, 6), buf(k, 9, 10)}, 3 * k},
		{"head beside head", []ir.Buffer{head(buf(k, 8, 10), 0, 3), head(buf(k, 9, 10), 0, 5)}, 2 * k},
		{"head up to its main piece", []ir.Buffer{head(buf(k, 5, 10), 0, 5), buf(k, 4, 6)}, 2 * k},
		{"head inside its main piece", []ir.Buffer{head(buf(k, 5, 10), 2, 7), buf(k, 3, 4)}, 2 * k},
		{"head after its main piece", []ir.Buffer{head(buf(k, 0, 2), 5, 8), buf(k, 3, 4), buf(k, 6, 7)}, 2 * k},
	} {
		horizon := ir.Tick(10)
		r := Pack(c.buffers, horizon, Options{Effort: 2})
		if bad := violation(c.buffers, r.Layout); bad != "" {
			t.Errorf("%s: %s", c.name, bad)
		}
		if r.Layout.Peak != c.peak || r.Bound != c.peak {
			t.Errorf("%s: peak %d, bound %d, want %d", c.name, r.Layout.Peak, r.Bound, c.peak)
		}
		if r.Tries != 1 || r.Packer != "size" || len(r.Peaks) != 1 {
			t.Errorf("%s: %s, want the first try to end it", c.name, brief(r))
		}
		for _, p := range Packers() {
			if bad := violation(c.buffers, p.Layout(c.buffers, horizon)); bad != "" {
				t.Errorf("%s: %s: %s", c.name, p.Name, bad)
			}
		}
	}
}

// TestRefusesSums: sizes that do not add up are a bug of the caller, and are named.
func TestRefusesSums(t *testing.T) {
	for _, sizes := range [][]ir.Bytes{{512, -512}, {ir.MaxSize, ir.MaxSize, ir.MaxSize, ir.MaxSize, ir.MaxSize, ir.MaxSize, ir.MaxSize, ir.MaxSize}} {
		var b []ir.Buffer
		for _, z := range sizes {
			b = append(b, ir.Buffer{Size: z, Start: 0, End: 1})
		}
		func() {
			defer func() {
				text, _ := recover().(string)
				if !strings.HasPrefix(text, "BUG: heuristics: buffer ") {
					t.Errorf("sizes %v: panic %q", sizes, text)
				}
			}()
			Pack(b, 1, Options{})
		}()
	}
}

// TestKnownOptimum: stacks are packed without waste, rectangles within a margin that the
// portfolio has and no single greedy has.
func TestKnownOptimum(t *testing.T) {
	for seed := range uint64(5) {
		b, h := testkit.Nested(seed, 2000, 1000)
		if r := Pack(b, h, Options{Effort: EffortDefault}); r.Layout.Peak != r.Bound {
			t.Errorf("nested %d: %d over the live peak", seed, r.Layout.Peak-r.Bound)
		}
		b, h, opt := testkit.Rectangle(seed, 60, 1000, 1000)
		r := Pack(b, h, Options{Effort: EffortDefault})
		if r.Bound != opt {
			t.Errorf("rectangle %d: bound %d, want %d", seed, r.Bound, opt)
		}
		if ratio := float64(r.Layout.Peak) / float64(opt); ratio > 1.2 {
			t.Errorf("rectangle %d: ratio %.3f", seed, ratio)
		}
	}
}

func TestByName(t *testing.T) {
	for _, p := range Packers() {
		if got, ok := ByName(p.Name); !ok || got.Doc != p.Doc || p.Doc == "" {
			t.Errorf("%s: %v %v", p.Name, got.Doc, ok)
		}
	}
	names := map[string]bool{}
	for _, p := range packers {
		if names[p.Name] {
			t.Errorf("%s twice", p.Name)
		}
		names[p.Name] = true
	}
	if _, ok := ByName("sample-3"); ok {
		t.Error("a sampled try has no entry in the table")
	}
}

// hard is a problem on which the search goes on to its end and finds something on the way.
func hard() ([]ir.Buffer, ir.Tick) {
	return testkit.Random(2, 120, 64, 40)
}

// TestCapacity: a capacity between the bound and what the effort reaches keeps the search
// going until it is met; one below the bound does not.
func TestCapacity(t *testing.T) {
	b, h := hard()
	fast := Pack(b, h, Options{})
	far := Pack(b, h, Options{Effort: EffortMax})
	if far.Layout.Peak >= fast.Layout.Peak {
		t.Fatalf("the search improves nothing here: %s", brief(far))
	}
	met := Pack(b, h, Options{Capacity: far.Layout.Peak})
	if met.Layout.Peak != far.Layout.Peak || met.Tries <= fast.Tries {
		t.Errorf("with capacity %d: %s", far.Layout.Peak, brief(met))
	}
	near := fast.Layout.Peak - 1
	if r := Pack(b, h, Options{Capacity: near}); r.Layout.Peak > near || r.Tries > met.Tries {
		t.Errorf("with capacity %d: %s", near, brief(r))
	}
	for _, c := range []ir.Bytes{fast.Bound - 1, fast.Layout.Peak, fast.Layout.Peak + 1} {
		if r := Pack(b, h, Options{Capacity: c}); r.Tries != fast.Tries || r.Layout.Peak != fast.Layout.Peak {
			t.Errorf("with capacity %d: %s, want %s", c, brief(r), brief(fast))
		}
	}
}

func TestProgress(t *testing.T) {
	b, h := hard()
	var mu sync.Mutex
	calls, last := 0, ir.Bytes(0)
	r := Pack(b, h, Options{Effort: 1, Workers: 3, Progress: func(try, tries int, best, bound ir.Bytes) {
		if !mu.TryLock() {
			t.Error("two calls at once")
			return
		}
		defer mu.Unlock()
		calls++
		if try != calls || tries < try || bound <= 0 || last > 0 && best > last {
			t.Errorf("call %d: try %d of %d, best %d after %d, bound %d", calls, try, tries, best, last, bound)
		}
		last = best
	}})
	if calls != r.Tries || last != r.Layout.Peak {
		t.Errorf("%d calls, %d tries; last best %d, peak %d", calls, r.Tries, last, r.Layout.Peak)
	}
}

// TestStop: a search that is stopped at once still has a layout that keeps the promises.
func TestStop(t *testing.T) {
	b, h := hard()
	reference, _ := ByName("size-best")
	for _, after := range []int64{0, 3, 40} {
		var asked atomic.Int64
		r := Pack(b, h, Options{Effort: EffortDefault, Stop: func() bool { return asked.Add(1) > after }})
		if bad := violation(b, r.Layout); bad != "" {
			t.Fatal(bad)
		}
		if top := reference.Layout(b, h).Peak; r.Layout.Peak > top || !r.Stopped {
			t.Errorf("stopped %v after %d: peak %d, the reference %d", r.Stopped, after, r.Layout.Peak, top)
		}
	}
	if r := Pack(b, h, Options{Stop: func() bool { return false }}); r.Stopped {
		t.Error("stopped, and nobody asked for it")
	}
}

// TestPeaks: the list names the improving tries in order, the winner last of them, and
// the reference with its own peak.
func TestPeaks(t *testing.T) {
	b, h := hard()
	r := Pack(b, h, Options{Effort: 2})
	low, winner, reference := ir.Bytes(1<<62), "", false
	for _, p := range r.Peaks {
		if k, ok := ByName(p.Name); ok {
			if got := k.Layout(b, h).Peak; got != p.Peak {
				t.Errorf("%s: peak %d, alone %d", p.Name, p.Peak, got)
			}
		}
		reference = reference || p.Name == "size-best"
		if p.Peak < low {
			low, winner = p.Peak, p.Name
		} else if p.Name != "size-best" {
			t.Errorf("%s: %d is no improvement on %d", p.Name, p.Peak, low)
		}
	}
	if winner != r.Packer || low != r.Layout.Peak || !reference {
		t.Errorf("%s", brief(r))
	}
}

// TestWorkLimit: at a million buffers only a few tries are left, the reference among
// them, and more effort only ever appends.
func TestWorkLimit(t *testing.T) {
	in := &instance{buffers: make([]ir.Buffer, 10_000_000)}
	r := newRace(in, Options{})
	all := in.buffers
	for _, c := range []struct {
		n, effort int
		min, max  int
	}{
		{10_000_000, EffortMax, 4, 10},
		{1_000_000, EffortFast, 4, 8},
		{1_000_000, EffortDefault, 5, 12},
		{1_000_000, EffortMax, 20, 100},
		{300_000, EffortMax, 100, 1000},
		{100_000, EffortFast, 15, 25},
		{100_000, EffortDefault, 70, 90},
		// No cliff at the size above which there are no dives.
		{8_100, EffortDefault, 900, 1000},
		{8_300, EffortDefault, 900, 1000},
		{1000, EffortDefault, 20 + 40*EffortDefault, 40 + 40*EffortDefault},
		{0, EffortDefault, 20 + 40*EffortDefault, 40 + 40*EffortDefault},
	} {
		in.buffers = all[:c.n]
		tries := r.listed(c.effort)
		if len(tries) < c.min || len(tries) > c.max {
			t.Errorf("%d buffers, effort %d: %d tries", c.n, c.effort, len(tries))
		}
		if !slices.ContainsFunc(tries, func(t try) bool { return t.name == "size-best" && t.exempt }) {
			t.Errorf("%d buffers, effort %d: no reference", c.n, c.effort)
		}
		for k, e := range r.listed(EffortFast) {
			if e.name != tries[k].name {
				t.Errorf("%d buffers, effort %d: try %d is %s, with no effort %s", c.n, c.effort, k, tries[k].name, e.name)
			}
		}
	}
}
