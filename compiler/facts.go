package compiler

import (
	"fmt"

	"stweaver/ir"
)

// OptionsOf are the options that p was made with, as its facts tell them, and rules: with them Analyse finds in p's profile
// the problem that p answers. The error says which fact is none; facts come from files.
func OptionsOf(p *ir.Plan, rules ir.Rules) (Options, error) {
	o := Options{Rules: rules, Sharing: SharingOf(p), Keep: p.Get("kept")}
	switch o.Keep {
	case "", keepAll, keepOptional, keepLargest, keepPersistent, keepNothing:
	default:
		return o, fmt.Errorf("its fact kept, %q, is none of %s, %s, %s, %s, %s", o.Keep, keepAll, keepOptional, keepLargest, keepPersistent, keepNothing)
	}
	switch once := p.Get("one-pass"); once {
	case "", "false", "true":
		o.OnePass = once == "true"
	default:
		return o, fmt.Errorf("its fact one-pass, %q, is neither true nor false", once)
	}
	if s := p.Get("steps"); s != "" && s != "0:0" { // that is a plan without a loop
		if n, err := fmt.Sscanf(s+"\n", "%d:%d\n", &o.From, &o.To); err != nil || n != 2 || o.From < 0 || o.To <= o.From {
			return o, fmt.Errorf("its fact steps, %q, is not A:B with 0 <= A < B", s)
		}
	}
	return o, nil
}
