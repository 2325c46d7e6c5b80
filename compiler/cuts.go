package compiler

import (
	"slices"
	"sort"

	"stweaver/ir"
)

// Cuts returns the entries of the loop before which a mark lies in the first steady iteration, ascending: where modules
// and phases begin and end on the clock of the plan. A plan has iterations and phases only.
func (c *Compiled) Cuts() []uint32 {
	m := c.mapping
	if m.tmpl == nil {
		return nil
	}
	win, list := m.tmpl.Windows[0], c.Trace.Requests
	var cuts []uint32
	for _, mark := range c.Trace.Marks {
		if mark.Tick < win[0] || mark.Tick >= win[1] {
			continue
		}
		i := sort.Search(len(list), func(i int) bool { return list[i].Alloc >= mark.Tick })
		for i < len(list) && list[i].Alloc < win[1] && m.memberOf[i] == ir.NoEntry {
			i++
		}
		if i == len(list) || list[i].Alloc >= win[1] {
			continue
		}
		for pass := range m.unroll {
			cuts = append(cuts, uint32(c.Problem.L0)+uint32(pass*len(m.tmpl.Entries))+m.memberOf[i])
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}
