package ir

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// Constraints in the text form: lines of the problem's block, after its marks. Lists keep their order; a..b is
// a run of consecutive numbers, both included, and sets are set apart by a semicolon.
//
//	capacity 8192 rule=0
//	pin [0,4096) rule=1 buffers=2..5,9
//	pin 4096 rule=none buffers=1
//	region size=0 piece=1073741824 rule=2 buffers=0..3
//	together rule=3 buffers=7,6
//	apart rule=4 sets=0,1;4..6
//	keep rule=5 buffers=8
//	guard ticks=16 rule=6 buffers=0..9
//	align bytes=4096 rule=7 buffers=3

func (c *Constraints) writeText(b *bufio.Writer) {
	if c == nil {
		return
	}
	if c.Capacity > 0 {
		fmt.Fprintf(b, "capacity %d rule=%s\n", c.Capacity, ruleText(c.CapacityRule))
	}
	for i := range c.Pins {
		x := &c.Pins[i]
		at := strconv.FormatInt(int64(x.Lo), 10)
		if !x.At() {
			at = fmt.Sprintf("[%d,%d)", x.Lo, x.Hi)
		}
		fmt.Fprintf(b, "pin %s rule=%s buffers=%s\n", at, ruleText(x.Rule), idsText(x.Buffers))
	}
	for i := range c.Regions {
		x := &c.Regions[i]
		fmt.Fprintf(b, "region size=%d piece=%d rule=%s buffers=%s\n", x.Size, x.Piece, ruleText(x.Rule), idsText(x.Buffers))
	}
	for _, x := range c.Together {
		fmt.Fprintf(b, "together rule=%s buffers=%s\n", ruleText(x.Rule), idsText(x.Buffers))
	}
	for _, x := range c.Apart {
		sets := make([]string, len(x.Sets))
		for k, s := range x.Sets {
			sets[k] = idsText(s)
		}
		fmt.Fprintf(b, "apart rule=%s sets=%s\n", ruleText(x.Rule), strings.Join(sets, ";"))
	}
	for _, x := range c.Keeps {
		fmt.Fprintf(b, "keep rule=%s buffers=%s\n", ruleText(x.Rule), idsText(x.Buffers))
	}
	for _, x := range c.Guards {
		fmt.Fprintf(b, "guard ticks=%d rule=%s buffers=%s\n", x.Ticks, ruleText(x.Rule), idsText(x.Buffers))
	}
	for _, x := range c.Alignments {
		fmt.Fprintf(b, "align bytes=%d rule=%s buffers=%s\n", x.Bytes, ruleText(x.Rule), idsText(x.Buffers))
	}
}

func ruleText(r RuleID) string {
	if r == NoRule {
		return "none"
	}
	return strconv.Itoa(int(r))
}

func idsText(ids []BufferID) string {
	var b strings.Builder
	for i := 0; i < len(ids); {
		j := i + 1
		for j < len(ids) && ids[j] == ids[j-1]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(ids[i])))
		if j > i+1 {
			b.WriteString("..")
			b.WriteString(strconv.Itoa(int(ids[j-1])))
		}
		i = j
	}
	return b.String()
}

// constraint reads a line of the problem's constraints; false: verb is none of them.
func (p *textParser) constraint(verb string) bool {
	f, q := &p.f, p.out.Problem
	if q.Constraints == nil {
		q.Constraints = &Constraints{}
	}
	c := q.Constraints
	switch verb {
	case "capacity":
		c.Capacity, c.CapacityRule = Bytes(f.num(f.word(), 1, max63)), f.rule()
	case "pin":
		x := Pin{Rule: f.rule(), Buffers: f.buffers("buffers")}
		if at := f.word(); strings.HasPrefix(at, "[") {
			lo, hi := f.interval(at)
			x.Lo, x.Hi = Offset(lo), Offset(hi)
		} else {
			x.Lo = Offset(f.num(at, 0, max63))
		}
		c.Pins = append(c.Pins, x)
	case "region":
		c.Regions = append(c.Regions, Region{f.rule(), f.bytes("size"), f.bytes("piece"), f.buffers("buffers")})
	case "together":
		c.Together = append(c.Together, Together{f.rule(), f.buffers("buffers")})
	case "apart":
		x := Apart{Rule: f.rule()}
		for s := range strings.SplitSeq(f.str("sets"), ";") {
			x.Sets = append(x.Sets, f.ids(s))
		}
		c.Apart = append(c.Apart, x)
	case "keep":
		c.Keeps = append(c.Keeps, Keep{f.rule(), f.buffers("buffers")})
	case "guard":
		c.Guards = append(c.Guards, Guard{f.rule(), Tick(f.int("ticks", 1, max63)), f.buffers("buffers")})
	case "align":
		c.Alignments = append(c.Alignments, Alignment{f.rule(), f.bytes("bytes"), f.buffers("buffers")})
	default:
		return false
	}
	return true
}

func (f *fields) rule() RuleID {
	s := f.str("rule")
	if s == "none" {
		return NoRule
	}
	return RuleID(f.num(s, 0, max32-1))
}

func (f *fields) buffers(key string) []BufferID { return f.ids(f.str(key)) }

// maxRun bounds the numbers that a text may write as runs: they are few bytes, and much memory.
const maxRun = 1 << 28

func (f *fields) ids(s string) (out []BufferID) {
	if s == "" {
		return nil
	}
	for run := range strings.SplitSeq(s, ",") {
		x, y, ok := strings.Cut(run, "..")
		if !ok {
			y = x
		}
		a, b := f.num(x, 0, max32-1), f.num(y, 0, max32-1)
		if b < a || int64(len(out))+b-a >= maxRun || f.err != nil {
			f.fail("%q is not a run of numbers", run)
			return nil
		}
		for ; a <= b; a++ {
			out = append(out, BufferID(a))
		}
	}
	return out
}
