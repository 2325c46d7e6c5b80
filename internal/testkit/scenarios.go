package testkit

// Scenarios: what a training job does that its profile did not show. The letters and numbers are those of
// the weaknesses a planned allocator must not have: A divergence, B correctness, C the planner, D the product.
//
//	A1 one extra request, for ever out of step      A7 a resumed job, other step numbers
//	A2 the planned pool is no use to anyone else    A8 a save, logging, generation in the loop
//	A4 a short last batch, a batch that ramps up    A9 an evaluation, with experts
//	A5 other sequence lengths                       A10 two requests in the other order
//	A6 anything extra before the first step         B12 streams   B14 an exception   B16 what wraps round
//	C23 weights that are never freed, forward only  C26 layers that differ   D29 another batch, another length
//
// A3 (silence) is what the counters are for; the rest of B and D is no matter of requests.

// Scenario is a program that departs from the profile of a trainer in some steps.
type Scenario struct {
	Name    string
	Shows   string // weaknesses, as above
	Trainer string // its name in Trainers
	Play    func(t Trainer) *Program
	Odd     []int  // steps, counted from the cold one, that are not as usual
	Spec    string // how requests of the odd steps diverge, as model.ParseSpec reads it
}

// TrainerNames are the keys of Trainers, in order.
var TrainerNames = []string{"dense", "pipeline", "recompute", "moe"}

// Trainers are the jobs that have scenarios.
func Trainers() map[string]Trainer {
	dense := Trainer{Layers: 3, Micro: 4, Seq: 2048, Batch: 2, Hidden: 1024, Vocab: 8192}
	pipe := dense
	pipe.Warm, pipe.Overlap, pipe.Micro, pipe.Batch = 2, true, 6, 1
	again := dense
	again.Recompute, again.Layers = true, 4
	moe := dense
	moe.Experts, moe.Layers, moe.Seed = 8, 4, 5
	return map[string]Trainer{"dense": dense, "pipeline": pipe, "recompute": again, "moe": moe}
}

// lastStep is the number of the last step of a scenario; step 0 is the cold one.
const lastStep = 12

// twoOdd are the odd steps of a scenario that has two.
var twoOdd = []int{4, 8}

// steps plays a program of usual steps, but for those where odd plays something else.
func steps(odd func(q *Process, step int) bool) func(Trainer) *Program {
	return func(t Trainer) *Program {
		q := t.Start(false)
		for k := range lastStep + 1 {
			if odd == nil || !odd(q, k) {
				q.Train(Step{})
			}
		}
		return &q.Program
	}
}

// twice plays two odd steps.
func twice(play func(q *Process)) func(Trainer) *Program {
	return steps(func(q *Process, k int) bool {
		if k != twoOdd[0] && k != twoOdd[1] {
			return false
		}
		play(q)
		return true
	})
}

// Long is a program of n steps each `every`-th of which is an odd one.
func Long(t Trainer, n, every int, odd func(q *Process, step int)) *Program {
	q := t.Start(false)
	for k := range n {
		if k%every == every-1 {
			odd(q, k)
		} else {
			q.Train(Step{})
		}
	}
	return &q.Program
}

func upTo(n int) (list []int) {
	for k := range n {
		list = append(list, k)
	}
	return list
}

func from(n int) (list []int) {
	for k := n; k <= lastStep; k++ {
		list = append(list, k)
	}
	return list
}

// Scenarios lists them.
func Scenarios() []Scenario {
	list := []Scenario{
		{"steady", "B16 C23", "dense", steps(nil), nil, ""},
		{"short batch", "A4 A5", "dense", twice(func(q *Process) { q.Train(Step{Batch: 1}) }), twoOdd, ""},
		{"half the micro-batches", "A4", "dense", twice(func(q *Process) { q.Train(Step{Micro: q.t.Micro / 2}) }), twoOdd, ""},
		{"three times the micro-batches", "A4 D29", "dense", twice(func(q *Process) { q.Train(Step{Micro: 3 * q.t.Micro}) }), twoOdd, ""},
		{"ramp-up", "A4", "dense", steps(func(q *Process, k int) bool {
			if k >= 4 {
				return false
			}
			q.Train(Step{Micro: 1 + k})
			return true
		}), upTo(3), ""},
		{"shorter sequences", "A5", "dense", twice(func(q *Process) { q.Train(Step{Seq: q.t.Seq * 3 / 4}) }), twoOdd, ""},
		{"longer sequences", "A5", "dense", twice(func(q *Process) { q.Train(Step{Seq: q.t.Seq * 3 / 2}) }), twoOdd, ""},
		{"sequences vary", "A5 D29", "dense", steps(func(q *Process, k int) bool {
			if k < 3 || k > 8 {
				return false
			}
			r := Rand(k)
			q.Train(Step{Seq: q.t.Seq/2 + 64*r.Below(q.t.Seq/64)})
			return true
		}), []int{3, 4, 5, 6, 7, 8}, ""},
		{"shorter from step 3 on", "A5", "dense", steps(func(q *Process, k int) bool {
			if k < 3 {
				return false
			}
			q.Train(Step{Seq: q.t.Seq * 3 / 4})
			return true
		}), from(3), ""},
		{"evaluation", "A8 A9 C23", "dense", twice(func(q *Process) { q.Evaluate(4, 0, 0) }), twoOdd, ""},
		{"evaluation, longer", "A8 A9", "dense", twice(func(q *Process) { q.Evaluate(4, 4*q.t.Seq, 0) }), twoOdd, ""},
		{"save", "A8", "dense", twice(func(q *Process) { q.Save() }), twoOdd, ""},
		{"resumed", "A6 A7", "dense", func(t Trainer) *Program {
			t.First = 5000
			q := t.Start(true)
			for range lastStep + 1 {
				q.Train(Step{})
			}
			return &q.Program
		}, upTo(1), ""},
		{"extra at the start", "A6", "dense", func(t Trainer) *Program {
			q := t.Start(false)
			q.alloc("warm-up", 64<<20)
			for range lastStep + 1 {
				q.Train(Step{})
			}
			return &q.Program
		}, upTo(1), ""},
		{"exception in a forward", "B14", "dense", twice(func(q *Process) { q.Train(Step{Abandon: 20}) }), twoOdd, ""},
		{"exception in a backward", "B14", "dense", twice(func(q *Process) { q.Train(Step{Abandon: 55}) }), twoOdd, ""},
		{"exception in the optimizer", "B14", "dense", twice(func(q *Process) { q.Train(Step{Abandon: 97}) }), twoOdd, ""},
		{"exception in an evaluation", "A8 B14", "dense", twice(func(q *Process) { q.Evaluate(4, 0, 55) }), twoOdd, ""},
		{"two models", "A2 D32", "dense", func(t Trainer) *Program {
			q := t.Start(false)
			t.Layers, t.Hidden, t.Micro, t.Seq = 2, 768, 2, 1536
			o := q.Join(t, "second ")
			for k := range lastStep + 1 {
				if k%2 == 0 {
					q.Train(Step{})
				} else {
					q.Turn(o, Step{})
				}
			}
			return &q.Program
		}, []int{1, 3, 5, 7, 9, 11}, ""},
		{"steady", "B12 B16", "pipeline", steps(nil), nil, ""},
		{"half the micro-batches", "A4 B12", "pipeline", twice(func(q *Process) { q.Train(Step{Micro: q.t.Micro / 2}) }), twoOdd, ""},
		{"shorter sequences", "A5 B12", "pipeline", twice(func(q *Process) { q.Train(Step{Seq: q.t.Seq * 3 / 4}) }), twoOdd, ""},
		{"evaluation", "A8 B12", "pipeline", twice(func(q *Process) { q.Evaluate(4, 0, 0) }), twoOdd, ""},
		{"exception in a backward", "B12 B14", "pipeline", twice(func(q *Process) { q.Train(Step{Abandon: 55}) }), twoOdd, ""},
		{"steady", "C26", "recompute", steps(nil), nil, ""},
		{"short batch", "A4 C26", "recompute", twice(func(q *Process) { q.Train(Step{Batch: 1}) }), twoOdd, ""},
		{"three times the micro-batches", "A4 C26", "recompute", twice(func(q *Process) { q.Train(Step{Micro: 3 * q.t.Micro}) }), twoOdd, ""},
		{"evaluation", "A8 C26", "recompute", twice(func(q *Process) { q.Evaluate(4, 0, 0) }), twoOdd, ""},
		{"steady", "C26 C27", "moe", steps(nil), nil, ""},
		{"half the micro-batches", "A4 C27", "moe", twice(func(q *Process) { q.Train(Step{Micro: q.t.Micro / 2}) }), twoOdd, ""},
		{"shorter sequences", "A5 C27", "moe", twice(func(q *Process) { q.Train(Step{Seq: q.t.Seq * 3 / 4}) }), twoOdd, ""},
		{"evaluation", "A9", "moe", twice(func(q *Process) { q.Evaluate(4, 0, 0) }), twoOdd, ""},
		{"exception in a backward", "B14 C27", "moe", twice(func(q *Process) { q.Train(Step{Abandon: 55}) }), twoOdd, ""},
	}
	for _, d := range []struct{ shows, spec string }{
		{"A1", "extra=1/iter"}, {"A1", "extra=20/iter"}, {"A1", "missing=1/iter"}, {"A1", "missing=20/iter"},
		{"A10", "swap=1/iter"}, {"A10", "swap=20/iter"}, {"A5", "resize=20/iter"}, {"B14", "late=20/iter"},
		{"A1 A10", "late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter"},
	} {
		list = append(list, Scenario{d.spec, d.shows, "dense", steps(nil), twoOdd, d.spec})
	}
	for _, spec := range []string{"extra=1/iter", "missing=1/iter", "late=5/iter,extra=5/iter,missing=5/iter,swap=5/iter"} {
		list = append(list, Scenario{spec, "A1 A10 C27", "moe", steps(nil), twoOdd, spec})
	}
	return list
}
