package compiler

import (
	"math"
	"math/bits"
	"regexp"
	"strings"

	"stweaver/ir"
)

// Selections are evaluated request by request, on the profile as it is: kinds are those of the first
// lowering, before any rule changed one. A condition is evaluated for all requests at once, into a set of
// bits; what a test needs to know of each request (its phase, its module) is worked out for all of them
// by one sweep, the first time a test asks. Names are compared once each, not once for each request.
//
//	select x where size >= 1MiB and module ~ "mlp*"
//
//	request       0 1 2 3 4 5 …
//	size >= 1MiB  1 0 0 1 1 0        one pass over the requests
//	module        4 4 4 7 7 2        one sweep over the marks: number of the stack of open spans
//	"mlp*"            7: yes         one comparison for each name
//	and           0 0 0 1 1 0

// bitset is a set of requests, by index in Trace.Requests.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }
func (b bitset) add(i int)      { b[i/64] |= 1 << (i % 64) }

func (b bitset) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// evaluator evaluates conditions on one profile. What depends on iterations (problem, steps, mapping) may
// be missing where no test asks for it.
type evaluator struct {
	t       *ir.Trace
	steps   *Steps
	problem *ir.Problem
	mapping *mapping
	rules   *ir.Rules
	sets    []bitset // by selection; nil where it was not asked for yet

	borders   *borders
	phases    []ir.NameID // in force when each request was made
	spans     *spans
	iteration []int32
}

// selection returns the set of requests of a selection.
func (v *evaluator) selection(i int) bitset {
	if v.sets == nil {
		v.sets = make([]bitset, len(v.rules.Selections))
	}
	if v.sets[i] == nil {
		v.sets[i] = v.expr(&v.rules.Selections[i].Where)
	}
	return v.sets[i]
}

// expr returns the requests that e takes. The set may be shared: it must not be changed.
func (v *evaluator) expr(e *ir.Expr) bitset {
	n := len(v.t.Requests)
	switch e.Op {
	case ir.OpRef:
		return v.selection(e.Sel)
	case ir.OpTest:
		return v.test(e)
	}
	out := newBitset(n)
	switch e.Op {
	case ir.OpTrue:
		for i := range out {
			out[i] = math.MaxUint64
		}
	case ir.OpNot:
		for i, w := range v.expr(&e.Args[0]) {
			out[i] = ^w
		}
	default:
		copy(out, v.expr(&e.Args[0]))
		for k := range e.Args[1:] {
			for i, w := range v.expr(&e.Args[k+1]) {
				if e.Op == ir.OpAnd {
					out[i] &= w
				} else {
					out[i] |= w
				}
			}
		}
	}
	if n%64 != 0 { // bits behind the last request stay zero
		out[len(out)-1] &= 1<<(n%64) - 1
	}
	return out
}

func (v *evaluator) test(e *ir.Expr) bitset {
	out := newBitset(len(v.t.Requests))
	fill := func(take func(i int, r *ir.Request) bool) bitset {
		for i := range v.t.Requests {
			if take(i, &v.t.Requests[i]) {
				out.add(i)
			}
		}
		return out
	}
	in := func(x int64) bool { return e.Lo <= x && x <= e.Hi }
	switch e.Field {
	case ir.FieldSize:
		return fill(func(_ int, r *ir.Request) bool { return in(int64(r.Rounded())) })
	case ir.FieldStream:
		return fill(func(_ int, r *ir.Request) bool { return in(int64(r.Stream)) })
	case ir.FieldRequest:
		return fill(func(i int, _ *ir.Request) bool { return in(int64(i)) })
	case ir.FieldLife:
		requests := v.findBorders().requests
		return fill(func(_ int, r *ir.Request) bool { return in(crossed(r, requests, 1)) })
	case ir.FieldPhases:
		phases := v.findBorders().phases
		return fill(func(_ int, r *ir.Request) bool { return in(crossed(r, phases, 0)) })
	case ir.FieldIteration:
		v.findIterations()
		return fill(func(i int, _ *ir.Request) bool { return in(int64(v.iteration[i])) })
	case ir.FieldPart:
		return fill(func(i int, _ *ir.Request) bool { return in(v.part(i)) })
	case ir.FieldKind:
		var wanted [16]bool
		for _, k := range e.Kinds {
			wanted[k] = true
		}
		return fill(func(i int, _ *ir.Request) bool { return wanted[v.kind(i)] })
	case ir.FieldPhase:
		v.findPhases()
		match := v.names(e.Patterns)
		return fill(func(i int, _ *ir.Request) bool { return v.phases[i] != 0 && match[v.phases[i]] })
	case ir.FieldModule:
		match := v.findSpans().match(v.names(e.Patterns))
		return fill(func(i int, _ *ir.Request) bool { return match[v.spans.of[i]] })
	case ir.FieldFrame:
		match := v.names(e.Patterns)
		if s := v.t.Stacks; s != nil {
			stack := make([]bool, len(s.Start))
			for k := range stack {
				for _, f := range s.Frames(uint32(k)) {
					stack[k] = stack[k] || match[f]
				}
			}
			return fill(func(i int, _ *ir.Request) bool { return stack[s.Of[i]] })
		}
		return fill(func(_ int, r *ir.Request) bool { return r.Site != 0 && match[r.Site] })
	}
	panic("BUG: compiler: a test of no field")
}

// part is 0 in the prologue, 1 in the loop, 2 in neither.
func (v *evaluator) part(i int) int64 {
	switch {
	case v.mapping.memberOf[i] != ir.NoEntry:
		return 1
	case v.mapping.entryOf[i] != ir.NoEntry:
		return 0
	}
	return 2
}

// kind is that of the entry which request i is an instance of; 0 where it has none.
func (v *evaluator) kind(i int) ir.Kind {
	if k := v.mapping.memberOf[i]; k != ir.NoEntry {
		return v.problem.Entries[int(v.problem.L0)+int(k)].Kind
	}
	if k := v.mapping.entryOf[i]; k != ir.NoEntry {
		return v.problem.Entries[k].Kind
	}
	return 0
}

// borders counts the requests made before each tick, and the phases and iterations begun before its event.
type borders struct{ requests, phases []int32 }

// forEver is how much a request crosses that is never freed.
const forEver = math.MaxInt32

// crossed is how much of what count counts lies in the life of r; own is what r itself counts.
func crossed(r *ir.Request, count []int32, own int64) int64 {
	switch {
	case r.Free == ir.Never:
		return forEver
	case r.Alloc == ir.Before:
		return int64(count[r.Free])
	}
	return int64(count[r.Free]) - int64(count[r.Alloc]) - own
}

func (v *evaluator) findBorders() *borders {
	if v.borders != nil {
		return v.borders
	}
	b := &borders{make([]int32, v.t.Events+1), make([]int32, v.t.Events+1)}
	for i := range v.t.Requests {
		if a := v.t.Requests[i].Alloc; a != ir.Before {
			b.requests[a+1]++
		}
	}
	for _, m := range v.t.Marks {
		if m.Kind == ir.MarkPhase || m.Kind == ir.MarkIteration {
			b.phases[m.Tick]++
		}
	}
	for k := range v.t.Events {
		b.requests[k+1] += b.requests[k]
		b.phases[k+1] += b.phases[k]
	}
	v.borders = b
	return b
}

func (v *evaluator) findIterations() {
	if v.iteration != nil {
		return
	}
	v.iteration = make([]int32, len(v.t.Requests))
	next := 0
	for i := range v.t.Requests {
		for next < len(v.steps.Cuts) && v.steps.Cuts[next] <= v.t.Requests[i].Alloc {
			next++
		}
		v.iteration[i] = int32(next - 1)
	}
}

func (v *evaluator) findPhases() {
	if v.phases != nil {
		return
	}
	v.phases = make([]ir.NameID, len(v.t.Requests))
	var now ir.NameID
	next := 0
	for i := range v.t.Requests {
		for ; next < len(v.t.Marks) && v.t.Marks[next].Tick <= v.t.Requests[i].Alloc; next++ {
			if m := &v.t.Marks[next]; m.Kind == ir.MarkPhase {
				now = m.Name
			}
		}
		v.phases[i] = now
	}
}

// names tells which names match one of the patterns.
func (v *evaluator) names(patterns []ir.Pattern) []bool {
	out := make([]bool, len(v.t.Names))
	for _, p := range patterns {
		match := matcher(p)
		for i, name := range v.t.Names {
			out[i] = out[i] || i > 0 && match(name)
		}
	}
	return out
}

// matcher compiles a pattern. Package lang has seen to it that expressions compile.
func matcher(p ir.Pattern) func(string) bool {
	switch p.How {
	case ir.Exact:
		return func(s string) bool { return s == p.Text }
	case ir.Glob:
		quoted := regexp.QuoteMeta(p.Text)
		quoted = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted)
		return regexp.MustCompile(`(?s)^` + quoted + `$`).MatchString
	}
	return regexp.MustCompile(p.Text).MatchString
}
