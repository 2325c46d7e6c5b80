package sat

import (
	"testing"
	"time"

	"github.com/go-air/gini"
	"github.com/go-air/gini/z"
)

// pigeons adds the clauses of n+1 pigeons in n holes: hard to refute, easy to write.
func pigeons(e *engine, n int) {
	in := make([][]z.Lit, n+1)
	for p := range in {
		for range n {
			in[p] = append(in[p], e.lit())
		}
		e.add(in[p]...)
	}
	for h := range n {
		for p := range in {
			for q := range p {
				e.add(in[p][h].Not(), in[q][h].Not())
			}
		}
	}
}

func testEngine() *engine { return newEngine(0, 0, time.Now().Add(20*time.Second)) }

// The library's behaviour that engine is built round. If one of these fails after an update, the rule in
// engine's comment may go.
func TestLibraryTraps(t *testing.T) {
	e := testEngine()
	pigeons(e, 13)
	if r := e.g.Try(time.Millisecond); r != unknown {
		t.Skipf("13 pigeons in a millisecond: %d", r)
	}
	if r := e.g.Solve(); r != unknown {
		t.Errorf("Solve after a timed-out Try: %d: the old deadline used to stop it", r)
	}

	g := gini.New()
	unused := g.Lit()
	if used := g.Lit(); true {
		g.Add(used)
		g.Add(0)
	}
	beyond := z.Var(1000).Pos()
	if g.Try(time.Second) != yes {
		t.Fatal("a unit clause has a model")
	}
	t.Logf("a variable in no clause reads %v, its negation %v; MaxVar %v", g.Value(unused), g.Value(unused.Not()), g.MaxVar())
	if beyond.Var() <= g.MaxVar() {
		t.Errorf("variable 1000 was never made, MaxVar is %v", g.MaxVar())
	}
	if w := (&engine{g: g}); w.holds(beyond) {
		t.Error("a variable never made holds")
	}
}

func TestEngineTimeout(t *testing.T) {
	e := testEngine()
	pigeons(e, 13)
	if r := e.try(time.Millisecond); r != unknown {
		t.Skipf("13 pigeons in a millisecond: %d", r)
	}
	// A later try has its own limit: something easy is answered, under an assumption too.
	a, b := e.lit(), e.lit()
	e.add(a.Not(), b)
	f := testEngine()
	pigeons(f, 5)
	if r := f.try(time.Nanosecond); r == yes {
		t.Errorf("five pigeons fit: %d", r)
	}
	if r := f.try(10 * time.Second); r != no {
		t.Errorf("after a short try, a long one says %d", r)
	}
	if r := e.try(0); r != unknown {
		t.Errorf("no time: %d", r)
	}
	e.deadline = time.Now().Add(-time.Second)
	if r := e.try(time.Hour); r != unknown {
		t.Errorf("past the deadline: %d", r)
	}
}

func TestEngineAssumptions(t *testing.T) {
	e := testEngine()
	a, b := e.lit(), e.lit()
	e.add(a.Not(), b)
	if e.try(time.Second, a) != yes || !e.holds(a) || !e.holds(b) {
		t.Error("a, a => b: want a and b")
	}
	if e.try(time.Second, a, b.Not()) != no {
		t.Error("a, not b: want no")
	}
	// Forgotten by now, and learnt as a clause at most.
	if e.try(time.Second, b.Not()) != yes || e.holds(a) || e.holds(b) {
		t.Error("not b: want neither")
	}
	if e.try(time.Second) != yes || e.refuted {
		t.Error("nothing assumed: want yes")
	}
}

// A solver whose clauses clash stays refuted, whatever is added: the library itself would lose the conflict, find a
// model that is none, and end the process.
func TestEngineRefuted(t *testing.T) {
	e := testEngine()
	a, b := e.lit(), e.lit()
	e.add(a, b)
	e.add(a.Not(), b)
	e.add(a, b.Not())
	e.add(a.Not(), b.Not())
	c := e.lit()
	for range 3 {
		if r := e.try(time.Second, c); r != no {
			t.Fatalf("a clash under an idle assumption: %d", r)
		}
		if r := e.try(time.Second); r != no {
			t.Fatalf("a clash: %d", r)
		}
		e.add(a)
		e.add(c)
	}
	if !e.refuted {
		t.Error("not marked refuted")
	}
	f := testEngine()
	f.add()
	if f.try(time.Second) != no {
		t.Error("the empty clause has a model")
	}
}

// A panic inside the library leaves an engine that answers unknown.
func TestEngineBroken(t *testing.T) {
	e := testEngine()
	a := e.lit()
	e.g = nil
	e.add(a)
	if r := e.try(time.Second); r != unknown || !e.broken {
		t.Errorf("a solver that panics: %d, broken %v", r, e.broken)
	}
	f := testEngine()
	f.g = nil
	if r := f.try(time.Second); r != unknown || !f.broken {
		t.Errorf("a try that panics: %d, broken %v", r, f.broken)
	}
}
