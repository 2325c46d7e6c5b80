package solver

import (
	"slices"
	"testing"

	"stweaver/internal/testkit"
	"stweaver/ir"
)

// combinations are sets of switches to switch off: none, all, each alone, all but each, and
// drawn ones, so that any few of them meet.
func combinations(r *testkit.Rand, drawn int) []Switches {
	out := []Switches{NoSwitches, AllSwitches}
	for s := Switches(1); s <= AllSwitches; s <<= 1 {
		if AllSwitches&s != 0 {
			out = append(out, s, AllSwitches&^s)
		}
	}
	for range drawn {
		out = append(out, Switches(r.Next())&AllSwitches)
	}
	return out
}

// judge asks every part of a problem at every capacity about the optimum.
func judge(t *testing.T, buffers []ir.Buffer, fixed []ir.Offset, optimum ir.Bytes, off Switches, flip bool) {
	t.Helper()
	items, n := cut(buffers, fixed)
	parts, placed := reduce(items, n, off.on())
	for capacity := max(optimum-2*ir.Align, 0); capacity <= optimum+ir.Align; capacity += ir.Align {
		out := offsetsOf(buffers, items, placed, fixed)
		fit := true
		for k := range parts {
			p := &parts[k]
			a := p.decide(background, question{p.capacity(int64(capacity)), 1 << 40, off.on(), flip})
			switch a.verdict {
			case unknown:
				t.Fatalf("off %#x: %+v fixed %v: no answer", off, buffers, fixed)
			case refuted:
				fit = false
				continue
			}
			for i := range p.items {
				out[p.items[i].id] = ir.Offset(p.base + a.offsets[i]*p.unit)
			}
		}
		l := ir.Layout{Offsets: out}
		for i := range buffers {
			l.Peak = max(l.Peak, ir.Bytes(out[i])+buffers[i].Size)
		}
		fit = fit && l.Peak <= capacity
		if fit != (capacity >= optimum) {
			t.Fatalf("off %#x flip %v: %+v fixed %v: optimum %d, but at %d it says %v", off, flip, buffers, fixed, optimum, capacity, fit)
		}
		if fit {
			if bad := violation(buffers, l, fixed); bad != "" {
				t.Fatalf("off %#x flip %v: %s", off, flip, bad)
			}
		}
	}
}

// TestSwitches: whatever is switched off, every capacity is judged as trying all layouts
// judges it.
func TestSwitches(t *testing.T) {
	problems := 400
	if testing.Short() {
		problems = 60
	}
	r := testkit.Rand(1)
	for n := range problems {
		buffers := tiny(&r, n%2 == 1)
		fixed := pin(&r, buffers)
		optimum := brute(buffers, fixed, ir.Align)
		for _, off := range combinations(&r, 8) {
			judge(t, buffers, fixed, optimum, off, false)
			judge(t, buffers, fixed, optimum, off, true)
		}
	}
}

// TestSwitchesAgree: on problems too large to try all layouts, and dense enough that every
// rule has work, each rule's absence leaves the verdicts.
func TestSwitchesAgree(t *testing.T) {
	problems := 60
	if testing.Short() {
		problems = 10
	}
	for seed := range uint64(problems) {
		buffers, _, height := testkit.Rectangle(seed, 9+int(seed%5), 9, 7)
		if seed%3 == 0 { // more than fits
			buffers[0].Size += ir.Align
		}
		optimum := ir.Bytes(-1)
		for c := height; optimum < 0; c += ir.Align {
			if fitsAt(t, buffers, c, NoSwitches) {
				optimum = c
			}
		}
		for s := Switches(1); s <= AllSwitches; s <<= 1 {
			if AllSwitches&s == 0 || s == Canonical {
				continue
			}
			judge(t, buffers, nil, optimum, s, false)
			judge(t, buffers, nil, optimum, s|Memory, true)
		}
	}
}

// TestMemoryAgrees: problems in which states come back many times, at and around the
// optimum, with and without the memory, in every order and with the pair of the mirror.
func TestMemoryAgrees(t *testing.T) {
	problems := 250
	if testing.Short() {
		problems = 40
	}
	hits := 0
	for seed := range uint64(problems) {
		r := testkit.Rand(seed)
		buffers, _ := testkit.Random(seed, 11+r.Below(5), 3+r.Below(6), 5+r.Below(8))
		switch seed % 4 {
		case 1:
			buffers, _ = tight(seed, 14, 4, 7, r.Below(4))
		case 3:
			buffers, _, _ = testkit.Loop(seed, 11, 6, 3)
		}
		items, n := cut(buffers, nil)
		parts, _ := reduce(items, n, AllSwitches)
		for k := range parts {
			p := &parts[k]
			for c := p.load; c <= p.load+3; c++ {
				want := verdict(unknown)
				for _, off := range []Switches{Memory, 0} {
					for _, by := range slices.Concat(orders, sectional) {
						for _, flip := range []bool{false, true} {
							a := newAttack(p, question{capacity: c, on: off.on(), flip: flip}, nil, nil)
							var v verdict
							for _, first := range [][]order{{by}, {orders[0], by}} {
								for m, by := range first { // what an earlier turn noted is used by the later
									limit := int64(1 << 30)
									if m < len(first)-1 {
										limit = 20
									}
									var got tally
									v, got = a.turn(background, by, limit)
									hits += int(got.backtracks)
								}
								if want == unknown {
									want = v
								}
								if v != want {
									t.Fatalf("seed %d part %d at %d, off %#x, order %c, flip %v: %d, others say %d", seed, k, c, off, by, flip, v, want)
								}
								if v == fits {
									break
								}
							}
						}
					}
				}
			}
		}
	}
	if hits == 0 {
		t.Error("nothing was ever tried twice")
	}
}

// TestMirrorAnyPair: any two buffers that meet and have no twin may be told apart by who is
// lower, and every verdict stays.
func TestMirrorAnyPair(t *testing.T) {
	for seed := range uint64(150) {
		r := testkit.Rand(seed)
		buffers, _ := testkit.Random(seed, 8+r.Below(4), 3+r.Below(6), 5+r.Below(8))
		if seed%2 == 1 {
			buffers, _ = tight(seed, 12, 4, 7, r.Below(4))
		}
		items, n := cut(buffers, nil)
		parts, _ := reduce(items, n, AllSwitches)
		for k := range parts {
			p := &parts[k]
			twin := map[int]bool{}
			for i, j := range twins(p.items) {
				if j >= 0 {
					twin[i], twin[int(j)] = true, true
				}
			}
			for c := p.load; c <= p.load+1; c++ {
				on := AllSwitches &^ (Peel | Components | FullSpan)
				want, _ := newSearch(p, c, question{on: on}).turn(background, orders[0], 1<<30)
				for i := range p.items {
					for j := range p.items {
						if i == j || twin[i] || twin[j] || !p.items[i].meets(&p.items[j]) {
							continue
						}
						x := newSearch(p, c, question{on: on})
						x.lower, x.upper = int32(i), int32(j)
						if got, _ := x.turn(background, orders[seed%3], 1<<30); got != want {
							t.Fatalf("seed %d part %d at %d, %d under %d: %d, want %d", seed, k, c, i, j, got, want)
						}
					}
				}
			}
		}
	}
}

// TestCoreFirst: with cores of a few buffers, on problems whose optimum is known: valid
// layouts, no bound above the optimum, and now and then the optimum itself.
func TestCoreFirst(t *testing.T) {
	best, raised := 0, 0
	for seed := range uint64(200) {
		r := testkit.Rand(seed)
		buffers, h := testkit.Random(seed, 10+r.Below(6), 3+r.Below(6), 5+r.Below(8))
		if seed%2 == 1 {
			buffers, h = tight(seed, 16+r.Below(8), 4, 9, 30)
		}
		exact := Solve(background, buffers, h, Options{Nodes: 1 << 30})
		items, n := cut(buffers, nil)
		parts, placed := reduce(items, n, AllSwitches)
		out := offsetsOf(buffers, items, placed, nil)
		for k := range parts {
			c := newClimb(&parts[k], AllSwitches)
			c.least = 0
			for i := range c.p.items {
				if seed%2 == 1 && c.p.items[i].size*c.p.unit > int64(ir.Align) {
					c.least++
				}
			}
			c.least = max(c.least, 2)
			c.coreFirst(background, c.low, 1<<20)
			if ir.Bytes(c.bottom()) > exact.Layout.Peak {
				t.Fatalf("seed %d: bound %d, optimum %d", seed, c.bottom(), exact.Layout.Peak)
			}
			if c.low > c.p.load {
				raised++
			}
			if c.offsets == nil {
				out = nil
				break
			}
			for i := range c.p.items {
				out[c.p.items[i].id] = ir.Offset(c.p.base + c.offsets[i]*c.p.unit)
			}
		}
		if out == nil {
			continue
		}
		l := ir.Layout{Offsets: out}
		for i := range buffers {
			l.Peak = max(l.Peak, ir.Bytes(out[i])+buffers[i].Size)
		}
		if bad := violation(buffers, l, nil); bad != "" {
			t.Fatal(bad)
		}
		if l.Peak < exact.Layout.Peak {
			t.Fatalf("seed %d: %d under the optimum %d", seed, l.Peak, exact.Layout.Peak)
		}
		if l.Peak == exact.Layout.Peak {
			best++
		}
	}
	if best == 0 || raised == 0 {
		t.Errorf("%d optima, %d bounds raised: nothing to see", best, raised)
	}
}

func fitsAt(t *testing.T, buffers []ir.Buffer, capacity ir.Bytes, off Switches) bool {
	t.Helper()
	r := Solve(background, buffers, 0, Options{Nodes: 1 << 40, Capacity: capacity, Decide: true, Off: off})
	if r.Status == Budget {
		t.Fatal("no answer")
	}
	return r.Status != Infeasible
}

// tightParts is a tight instance of least to least+more-1 buffers, reduced to its parts.
func tightParts(seed uint64, least, more int) []part {
	r := testkit.Rand(seed)
	buffers, _ := tight(seed, least+r.Below(more), 4, 7, r.Below(4))
	items, n := cut(buffers, nil)
	parts, _ := reduce(items, n, AllSwitches)
	return parts
}

// TestInquiry: a question asked bit by bit gets the answer that it gets at once, for the same
// nodes where no turn is cut short.
func TestInquiry(t *testing.T) {
	several := 0
	for seed := range uint64(120) {
		parts := tightParts(seed, 14, 10)
		for k := range parts {
			p := &parts[k]
			for c := p.load; c <= p.load+2; c++ {
				q := question{capacity: c, nodes: 1 << 30, on: AllSwitches, flip: seed%2 == 1}
				want := p.decide(background, q)
				in, calls := p.inquire(q), 0
				var sum tally
				for in.verdict == unknown {
					sum.add(in.goOn(background, 1, 1<<30).tally)
					calls++
				}
				if in.verdict != want.verdict || sum != want.tally {
					t.Fatalf("seed %d part %d at %d: in %d calls %d, %+v; at once %d, %+v", seed, k, c, calls, in.verdict, sum, want.verdict, want.tally)
				}
				if calls > 1 {
					several++
				}
				in = p.inquire(q)
				for most := int64(1); in.verdict == unknown; most += 1 + most/2 { // turns are cut
					if a := in.goOn(background, most, most); a.nodes > most {
						t.Fatalf("%d nodes, %d allowed", a.nodes, most)
					}
				}
				if in.verdict != want.verdict {
					t.Fatalf("seed %d part %d at %d: cut %d, at once %d", seed, k, c, in.verdict, want.verdict)
				}
			}
		}
	}
	if several == 0 {
		t.Error("no question took more than one turn")
	}
}

// TestDown: with any budget, in one pass or several, the way down keeps to its nodes and leaves
// the bound under the optimum and the best layout over it; with enough, they meet.
func TestDown(t *testing.T) {
	for seed := range uint64(60) {
		parts := tightParts(seed, 10, 8)
		for k := range parts {
			p := &parts[k]
			optimum := p.load
			for p.decide(background, question{capacity: optimum, nodes: 1 << 30, on: AllSwitches &^ (Memory | Peel)}).verdict != fits {
				optimum++
			}
			c := newClimb(p, AllSwitches)
			c.take(p.around())
			for budget := int64(1); c.high > c.low; budget *= 3 {
				end := c.nodes + budget
				c.down(background, p.load, budget)
				if c.nodes > end || c.low > optimum || c.high < optimum {
					t.Fatalf("seed %d part %d: [%d, %d], optimum %d, %d nodes of %d", seed, k, c.low, c.high, optimum, c.nodes, end)
				}
				if budget > 1<<40 {
					t.Fatalf("seed %d part %d: [%d, %d] does not close", seed, k, c.low, c.high)
				}
			}
		}
	}
}
