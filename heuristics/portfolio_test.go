package heuristics

import (
	"slices"
	"testing"

	"stweaver/ir"
)

// TestRaceOrder stages races in which tries end in the worst order: the result must be
// the one of running them one after the other.
func TestRaceOrder(t *testing.T) {
	const none = 1 << 40
	for _, c := range []struct {
		name  string
		peaks []int64 // by number
		ends  []int   // numbers in the order in which they end
		goal  ir.Bytes
		want  Result
	}{
		{"equal peaks", []int64{90, 80, 80, 80}, []int{3, 2, 0, 1}, 50,
			Result{Packer: "b", Tries: 4, Layout: ir.Layout{Peak: 80}, Peaks: []PackerPeak{{"a", 90}, {"b", 80}}}},
		{"the bound twice", []int64{90, 70, 50, 50}, []int{3, 1, 0, 2}, 50,
			Result{Packer: "c", Tries: 3, Layout: ir.Layout{Peak: 50}, Peaks: []PackerPeak{{"a", 90}, {"b", 70}, {"c", 50}}}},
		{"better than the goal, but later", []int64{90, 78, 60, 50}, []int{3, 2, 0, 1}, 80,
			Result{Packer: "b", Tries: 2, Layout: ir.Layout{Peak: 78}, Peaks: []PackerPeak{{"a", 90}, {"b", 78}}}},
		{"given up", []int64{90, none, 85}, []int{1, 2, 0}, 50,
			Result{Packer: "c", Tries: 3, Layout: ir.Layout{Peak: 85}, Peaks: []PackerPeak{{"a", 90}, {"c", 85}}}},
	} {
		r := newRace(&instance{bound: c.goal}, Options{Workers: len(c.peaks)})
		began := make(chan int, len(c.peaks))
		may := make([]chan bool, len(c.peaks))
		ended := make(chan bool, len(c.peaks))
		r.progress = func(int, int, ir.Bytes, ir.Bytes) { ended <- true }
		var tries []try
		for k, peak := range c.peaks {
			may[k] = make(chan bool)
			tries = append(tries, try{name: string(rune('a' + k)), run: func(w *bench) bool {
				began <- k
				<-may[k]
				w.peak = peak
				return peak != none
			}})
		}
		done := make(chan bool)
		go func() { r.run(tries, c.goal); close(done) }()
		for range c.peaks {
			<-began
		}
		for _, k := range c.ends {
			may[k] <- true
			<-ended
		}
		<-done
		got := r.result()
		if got.Packer != c.want.Packer || got.Tries != c.want.Tries || got.Layout.Peak != c.want.Layout.Peak || !slices.Equal(got.Peaks, c.want.Peaks) {
			t.Errorf("%s: %s, want %s", c.name, brief(got), brief(c.want))
		}
	}
}

// TestCeil: what a try may learn from others comes from lower numbers only.
func TestCeil(t *testing.T) {
	r := newRace(&instance{}, Options{})
	r.tries = []try{{}, {}, {}, {exempt: true}, {}}
	r.outcomes = make([]outcome, 5)
	r.first = len(r.tries)
	const free = 1<<63 - 1
	check := func(when string, want ...int64) {
		t.Helper()
		for k, c := range want {
			if got := r.ceil(k); got != c {
				t.Errorf("%s: ceiling of try %d is %d, want %d", when, k, got, c)
			}
		}
	}
	check("at first", free, free, free, free, free)
	r.outcomes[1] = outcome{peak: 100, done: true}
	check("after try 1", free, free, 99, free, 99)
	r.outcomes[4] = outcome{peak: 50, done: true}
	check("after try 4", free, free, 99, free, 99)
	r.first = 2
	check("after try 2 made the goal", free, free, 99, -1, -1)
}

// TestLeash: a try stops at the first buffer above its ceiling, and soon after its steps
// are used up; without a leash it runs through.
func TestLeash(t *testing.T) {
	p := shapes[0].draw(1, 3000)
	w := newBench(newInstance(p.buffers, p.horizon))
	for _, k := range []string{"size", "size-best", "two-level-2", "dive-area"} {
		k, _ := ByName(k)
		w.leash = leash{}
		if !k.run(w) {
			t.Fatalf("%s: gave up without a leash", k.Name)
		}
		peak, offsets := w.peak, slices.Clone(w.offsets)
		w.leash = leash{ceil: func() int64 { return peak - 1 }}
		if k.run(w) {
			t.Errorf("%s: peak %d under a ceiling of %d", k.Name, w.peak, peak-1)
		}
		w.leash = leash{ceil: func() int64 { return -1 }}
		if k.run(w) {
			t.Errorf("%s: ran to its end when it was of no use", k.Name)
		}
		w.leash = leash{steps: 1}
		if k.run(w) {
			t.Errorf("%s: one step was enough", k.Name)
		}
		w.leash = leash{ceil: func() int64 { return peak }, steps: 1 << 40}
		if !k.run(w) || w.peak != peak || !slices.Equal(w.offsets, offsets) {
			t.Errorf("%s: a long leash changed the layout", k.Name)
		}
	}
}
