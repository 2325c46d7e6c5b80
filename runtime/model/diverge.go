package model

import "fmt"

// Divergence: what a real process does to a plan. Diverge rewrites a script in passes, in the
// order missing, swap, resize, extra, restart, late, each with random numbers of its own: the
// same seed drops the same requests whatever else is asked for.
//
//	script    a  b  f(a)  c  d  f(b)  f(c)  f(d)
//	missing      b        c  d  f(b)  f(c)  f(d)      a left out, with its free
//	swap      b  a  f(a)  c  d  …                     a and b in each other's place
//	extra     a  x  b  f(a)  c  f(x)  d  …            x freed 1–200 events later
//	restart   a  b  f(a) | f(b) a' b' f(a') | c  d …  at c: all is freed, and done again
//	late      a  b  c  d  f(a)  f(b) …                f(a) 1–200 events later
//
// The result is again a Script: every request is allocated at most once and freed at most once,
// after its allocation.

// maxDelay is the most events by which a free is delayed.
const maxDelay = 200

// maxOps is the most operations a diverged script may have.
const maxOps = 1 << 27

// opStart stands for the beginning of an iteration while passes run.
const opStart OpKind = 255

// diverger is one run of the passes.
type diverger struct {
	ops []Op
	ids uint32
	rnd random // of the pass under way
}

// Diverge returns s as a program would issue it that departs from it as spec says. s must pass
// its Check. Same script, spec and seed give the same result. The error says that restarts
// would make it too long.
func Diverge(s *Script, spec Spec, seed uint64) (*Script, error) {
	d := &diverger{ids: s.IDs, ops: make([]Op, 0, len(s.Ops)+len(s.Starts))}
	at := 0
	for i := range len(s.Ops) + 1 {
		for at < len(s.Starts) && s.Starts[at] == i {
			d.ops = append(d.ops, Op{Kind: opStart})
			at++
		}
		if i < len(s.Ops) {
			d.ops = append(d.ops, s.Ops[i])
		}
	}
	passes := []struct {
		rate Rate
		run  func(Rate) error
	}{
		{spec.Missing, d.missing},
		{spec.Swap, d.swap},
		{spec.Resize, d.resize},
		{spec.Extra, d.extra},
		{spec.Restart, d.restart},
		{spec.Late, d.late},
	}
	for i, p := range passes {
		d.rnd = random(seed + uint64(i)*0xd1342543de82ef95)
		if p.rate == (Rate{}) {
			continue
		}
		if err := p.run(p.rate); err != nil {
			return nil, err
		}
	}
	out := &Script{Names: s.Names, IDs: d.ids, Ops: make([]Op, 0, len(d.ops))}
	for _, op := range d.ops {
		if op.Kind == opStart {
			out.Starts = append(out.Starts, len(out.Ops))
			continue
		}
		out.Ops = append(out.Ops, op)
	}
	return out, nil
}

// choose calls change for operations of a kind, as many as rate says; change answers whether
// it could. A rate for each iteration takes the iterations only, or all of a script that has
// none, and looks further where change could not.
func (d *diverger) choose(kind OpKind, rate Rate, change func(i int) bool) {
	if rate.PerIteration == 0 {
		for i, op := range d.ops {
			if op.Kind == kind && d.rnd.percent(rate.Percent) {
				change(i)
			}
		}
		return
	}
	var candidates []int
	flush := func() {
		for n := 0; n < rate.PerIteration && len(candidates) > 0; {
			k := d.rnd.below(len(candidates))
			last := len(candidates) - 1
			i := candidates[k]
			candidates[k] = candidates[last]
			candidates = candidates[:last]
			if change(i) {
				n++
			}
		}
		candidates = candidates[:0]
	}
	started := false
	for i, op := range d.ops {
		if op.Kind == opStart {
			if started {
				flush()
			}
			started = true
			candidates = candidates[:0]
		}
		if op.Kind == kind {
			candidates = append(candidates, i)
		}
	}
	flush()
}

// missing leaves requests out, with their frees.
func (d *diverger) missing(rate Rate) error {
	gone := make([]bool, d.ids)
	d.choose(OpAlloc, rate, func(i int) bool {
		gone[d.ops[i].ID] = true
		return true
	})
	kept := d.ops[:0]
	for _, op := range d.ops {
		if (op.Kind == OpAlloc || op.Kind == OpFree) && gone[op.ID] {
			continue
		}
		kept = append(kept, op)
	}
	d.ops = kept
	return nil
}

// swap lets a request and the next one of the same iteration change places, unless the first
// is freed before the second comes. No request is swapped twice.
func (d *diverger) swap(rate Rate) error {
	swapped := make([]bool, d.ids)
	d.choose(OpAlloc, rate, func(i int) bool {
		first := d.ops[i].ID
		for j := i + 1; j < len(d.ops); j++ {
			op := d.ops[j]
			if op.Kind == opStart || op.Kind == OpFree && op.ID == first {
				return false
			}
			if op.Kind != OpAlloc {
				continue
			}
			if swapped[first] || swapped[op.ID] {
				return false
			}
			swapped[first], swapped[op.ID] = true, true
			d.ops[i], d.ops[j] = d.ops[j], d.ops[i]
			return true
		}
		return false
	})
	return nil
}

// resize makes requests smaller or larger by a factor of one and a half.
func (d *diverger) resize(rate Rate) error {
	d.choose(OpAlloc, rate, func(i int) bool {
		op := &d.ops[i]
		if d.rnd.below(2) == 0 {
			op.Size -= op.Size / 3
		} else if op.Size < MaxSize/2 {
			op.Size += op.Size / 2
		}
		return true
	})
	return nil
}

// extra adds requests before others: half of them of a size the script has too, half of up to
// 1 MiB.
func (d *diverger) extra(rate Rate) error {
	var sizes []int64
	for _, op := range d.ops {
		if op.Kind == OpAlloc {
			sizes = append(sizes, op.Size)
		}
	}
	before := make(map[int]Op)
	d.choose(OpAlloc, rate, func(i int) bool {
		size := int64(1 + d.rnd.below(1<<20))
		if d.rnd.below(2) == 0 {
			size = sizes[d.rnd.below(len(sizes))]
		}
		before[i] = AllocOp(d.ids, size, d.ops[i].Stream)
		d.ids++
		return true
	})
	out := newDelayed(len(d.ops) + 2*len(before))
	for i, op := range d.ops {
		if x, ok := before[i]; ok {
			out.emit(x)
			out.later(FreeOp(x.ID), 1+d.rnd.below(maxDelay))
		}
		out.emit(op)
	}
	d.ops = out.finish()
	return nil
}

// late delays frees.
func (d *diverger) late(rate Rate) error {
	delay := make(map[int]int)
	d.choose(OpFree, rate, func(i int) bool {
		delay[i] = 1 + d.rnd.below(maxDelay)
		return true
	})
	out := newDelayed(len(d.ops))
	for i, op := range d.ops {
		if n := delay[i]; n > 0 {
			out.later(op, n)
			continue
		}
		out.emit(op)
	}
	d.ops = out.finish()
	return nil
}

// restart abandons iterations. What the iteration holds is freed in the order it was allocated,
// then everything from its beginning is issued again under new ids. What it had freed of older
// requests stays freed, and its snapshots are not taken again.
func (d *diverger) restart(rate Rate) error {
	at := make(map[int]bool)
	d.choose(OpAlloc, rate, func(i int) bool {
		at[i] = true
		return true
	})
	total, start := len(d.ops), 0
	for i, op := range d.ops {
		if op.Kind == opStart {
			start = i
		}
		if at[i] {
			total += 2 * (i - start) // what it holds is freed, then all of it is done again
		}
		if total > maxOps {
			return fmt.Errorf("model: divergence: restart=%v makes the script longer than %d operations; lower the rate", rate, maxOps)
		}
	}
	now := make([]uint32, d.ids) // the id under which a request is issued
	for i := range now {
		now[i] = uint32(i)
	}
	var out []Op
	begin := 0                    // where the iteration begins in d.ops
	var held []uint32             // requests it made, in order, by the script's ids
	free := make(map[uint32]bool) // … those of them that are freed
	mine := make(map[uint32]bool) // … all of them
	put := func(op Op) {
		if op.Kind == OpAlloc || op.Kind == OpFree {
			op.ID = now[op.ID]
		}
		out = append(out, op)
	}
	for i, op := range d.ops {
		if at[i] {
			for _, id := range held {
				if !free[id] {
					put(FreeOp(id))
				}
				now[id] = d.ids
				d.ids++
			}
			for _, again := range d.ops[begin:i] {
				if again.Kind == OpSnapshot || again.Kind == OpFree && !mine[again.ID] {
					continue
				}
				put(again)
			}
		}
		switch {
		case op.Kind == opStart:
			begin = i + 1
			held = held[:0]
			clear(free)
			clear(mine)
		case op.Kind == OpAlloc:
			held = append(held, op.ID)
			mine[op.ID] = true
		case op.Kind == OpFree && mine[op.ID]:
			free[op.ID] = true
		}
		put(op)
	}
	d.ops = out
	return nil
}
