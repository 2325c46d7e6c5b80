package compiler

import "stweaver/ir"

// spans are the stacks of open modules and annotated spans, each distinct one once: a stack is its
// innermost span on another stack. Stack 0 is empty.
type spans struct {
	name   []ir.NameID
	parent []uint32
	of     []uint32 // by request
	ids    map[[2]uint32]uint32
}

func (s *spans) push(parent uint32, name ir.NameID) uint32 {
	key := [2]uint32{parent, uint32(name)}
	id, ok := s.ids[key]
	if !ok {
		id = uint32(len(s.name))
		s.name, s.parent = append(s.name, name), append(s.parent, parent)
		s.ids[key] = id
	}
	return id
}

// match tells which stacks hold a name that matches.
func (s *spans) match(names []bool) []bool {
	out := make([]bool, len(s.name))
	for k := 1; k < len(out); k++ {
		out[k] = names[s.name[k]] || out[s.parent[k]]
	}
	return out
}

// leftAgain tells of each mark that enters a span whether the span is left: of a name, the one entered last first.
func leftAgain(t *ir.Trace) []bool {
	left := make([]bool, len(t.Marks))
	open := make([][]int, len(t.Names))
	for i, m := range t.Marks {
		of := open[m.Name]
		switch n := len(of); {
		case m.Kind == ir.MarkEnter:
			open[m.Name] = append(of, i)
		case m.Kind == ir.MarkLeave && n > 0:
			left[of[n-1]] = true
			open[m.Name] = of[:n-1]
		}
	}
	return left
}

// findSpans sweeps the marks. A span that is left out of order is taken out of the stack. One that is never left, because an
// exception did, ends where the next one of its name begins. Names that are entered and never left are labels: each holds until the next label.
func (v *evaluator) findSpans() *spans {
	if v.spans != nil {
		return v.spans
	}
	s := &spans{name: []ir.NameID{0}, parent: []uint32{0}, ids: make(map[[2]uint32]uint32), of: make([]uint32, len(v.t.Requests))}
	named := make([]bool, len(v.t.Names)) // by spans, not labels
	for _, m := range v.t.Marks {
		named[m.Name] = named[m.Name] || m.Kind == ir.MarkLeave
	}
	left := leftAgain(v.t)
	type entered struct {
		span uint32
		left bool
	}
	var open []entered // stacks, outermost first
	var label ir.NameID
	top := func() uint32 {
		if len(open) == 0 {
			return 0
		}
		return open[len(open)-1].span
	}
	// end takes the innermost open span of that name out, of those that are left or of those that are not.
	end := func(name ir.NameID, left bool) {
		k := len(open) - 1
		for k >= 0 && (s.name[open[k].span] != name || open[k].left != left) {
			k--
		}
		if k < 0 {
			return
		}
		rest := open[k+1:]
		open = open[:k]
		for _, inner := range rest {
			open = append(open, entered{s.push(top(), s.name[inner.span]), inner.left})
		}
	}
	next := 0
	for i := range v.t.Requests {
		for ; next < len(v.t.Marks) && v.t.Marks[next].Tick <= v.t.Requests[i].Alloc; next++ {
			switch m := &v.t.Marks[next]; {
			case m.Kind == ir.MarkEnter && !named[m.Name]:
				label = m.Name
			case m.Kind == ir.MarkEnter:
				end(m.Name, false)
				open = append(open, entered{s.push(top(), m.Name), left[next]})
			case m.Kind == ir.MarkLeave:
				end(m.Name, true)
			}
		}
		s.of[i] = top()
		if label != 0 {
			s.of[i] = s.push(top(), label)
		}
	}
	v.spans = s
	return s
}
