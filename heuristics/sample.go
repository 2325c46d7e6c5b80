package heuristics

import "stweaver/ir"

// The improvement search: two-level fits with drawn parameters, and on small problems
// every other time a dive with a drawn priority.
//
// Try number i draws its spec from a generator seeded with i alone, so tries are
// independent of each other, of the order they run in, and of the machine. Most of them
// end early, at the first buffer that would reach the best peak so far.
//
// theta is drawn as T / (3 + u v / 5000), u and v uniform in 0..999: from a third of the
// timeline down to a two-hundredth, the shorter ones rarer.

// splitmix is the SplitMix64 generator (Steele, Lea, Flood 2014).
type splitmix uint64

func (g *splitmix) next() uint64 {
	*g += 0x9e3779b97f4a7c15
	z := uint64(*g)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n). The bias of the remainder does not matter here.
func (g *splitmix) below(n int) int { return int(g.next() % uint64(n)) }

func pick[T any](g *splitmix, from []T) T { return from[g.below(len(from))] }

// What is drawn from; an entry that comes twice is drawn twice as often.
var (
	drawLong  = []key{byStart, byStart, byStart, byEnd, byEnd, bySizeStart, bySizeEnd, byFamStart, byFamEnd, byFamSize, bySize, byCrest, byCrestStart, byNeed}
	drawShort = []key{byStart, byStart, byEnd, byCrest, byCrest, byCrestStart, byCrestStart, byNeed, byNeed, bySize, bySizeStart, byFamSize}
	drawSmall = []smallRule{smallAsOthers, smallLast, smallFirst, smallLastAll, smallLastSizes, smallLastSizes}
	drawDelta = []per{off, off, {0, 1}, {5, 100000}, {2, 10000}, {1, 1000}, {3, 1000}, {1, 100}}
	drawSigma = []per{{1, 500}, {1, 2000}, {1, 8000}, {1, 30000}}
	drawBoxes = []boxRule{boxesAsOthers, boxesAsOthers, boxesAsOthers, boxesAsOthers, boxesBySizeStart, boxesByStart}
	drawPin   = []per{{0, 1}, {1, 3}, {1, 2}, {9, 10}}
)

// firstSeed starts the draws of try 0, where no other is asked for.
const firstSeed = 0x53545765617665

// draws is the generator for draw number n.
func (in *instance) draws(n uint64) splitmix {
	other := splitmix(in.seed)
	if in.seed != 0 {
		n += other.next()
	}
	return splitmix(firstSeed + n)
}

// sample is try number i of the search.
func sample(i int) func(*bench) bool {
	return func(w *bench) bool {
		g := w.in.draws(uint64(i))
		g = splitmix(g.next()) // neighbours in i are not neighbours in the stream
		if i%2 == 1 && len(w.in.buffers) <= smallProblem {
			return w.dive(w.drawnPriority(&g))
		}
		t, lb := int64(w.in.span), int64(w.in.peak)
		u, v := int64(g.below(1000)), int64(g.below(1000))
		s := spec{
			theta:    ir.Tick(per{5000, 15000 + u*v}.of(t)),
			long:     pick(&g, drawLong),
			short:    pick(&g, drawShort),
			fitLong:  fit(g.below(2)),
			fitShort: fit(g.below(2)),
			small:    pick(&g, drawSmall),
			sigma:    ir.Bytes(pick(&g, drawSigma).of(lb)),
			pin:      ir.Tick(pick(&g, drawPin).of(t)),
			delta:    -1,
		}
		if d := pick(&g, drawDelta); d != off {
			s.delta = ir.Bytes(d.of(lb))
		}
		if w.in.parts != nil {
			s.boxes = pick(&g, drawBoxes)
		}
		return w.packSpec(s)
	}
}
