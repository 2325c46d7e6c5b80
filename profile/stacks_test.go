package profile

import (
	"slices"
	"strings"
	"testing"
)

// stackText is the stack of request i, innermost first.
func stackText(t *testing.T, path string, o Options) []string {
	t.Helper()
	tr, err := ReadFile(path, o)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Stacks == nil {
		return nil
	}
	if len(tr.Stacks.Of) != len(tr.Requests) {
		t.Fatalf("%d stacks of %d requests", len(tr.Stacks.Of), len(tr.Requests))
	}
	var out []string
	for i := range tr.Requests {
		var names []string
		for _, f := range tr.Stacks.Frames(tr.Stacks.Of[i]) {
			names = append(names, tr.Name(f))
		}
		site := tr.Name(tr.Requests[i].Site)
		if site != "" && !slices.Contains(names, site) {
			t.Fatalf("request %d: its site %q is not in its stack %q", i, site, names)
		}
		out = append(out, strings.Join(names, " < "))
	}
	return out
}

// Whole stacks are read where they are asked for, and nothing else changes.
func TestStacks(t *testing.T) {
	const path = "../testdata/profiles/gpt2m_frames.pickle.gz"
	if got := stackText(t, path, Options{Device: -1}); got != nil {
		t.Error("stacks that nobody asked for")
	}
	stacks := stackText(t, path, Options{Device: -1, Stacks: true})
	distinct := make(map[string]bool)
	deepest := 0
	for _, s := range stacks {
		distinct[s] = true
		deepest = max(deepest, strings.Count(s, " < ")+1)
	}
	if len(distinct) < 50 || deepest < 5 {
		t.Errorf("%d distinct stacks, up to %d deep", len(distinct), deepest)
	}
	found := slices.ContainsFunc(stacks, func(s string) bool {
		return strings.Contains(s, "pytorch_utils.py") && strings.Contains(s, "modeling_gpt2.py") && strings.Contains(s, "src/train.py")
	})
	if !found {
		t.Error("no request of a linear layer shows the model and the script that called it")
	}
	plain, err := ReadFile(path, Options{Device: -1})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ReadFile(path, Options{Device: -1, Stacks: true})
	if err != nil {
		t.Fatal(err)
	}
	if plain.Digest() != whole.Digest() || !slices.Equal(plain.Requests, whole.Requests) || !slices.Equal(plain.Names, whole.Names[:len(plain.Names)]) {
		t.Error("asking for stacks changed the trace")
	}
}

// A list of frames that is written one by one is the same stack as one written at once.
func TestStackTable(t *testing.T) {
	s := newStackTable()
	s.batch = append(s.batch, 1, 2, 3)
	whole := s.extend(0)
	var id uint32
	for f := range uint32(3) {
		s.batch = append(s.batch, f+1)
		id = s.extend(id)
	}
	if id != whole || !slices.Equal(s.of(id), []uint32{1, 2, 3}) {
		t.Errorf("stack %d of %v, and %d", id, s.of(id), whole)
	}
	if s.extend(id) != id {
		t.Error("nothing more makes another stack")
	}
}
