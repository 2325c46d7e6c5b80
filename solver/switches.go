package solver

// Switches is a set of reductions and pruning rules. Each keeps at least one best layout;
// what a rule may do and why is said where it is implemented.
type Switches uint32

// The reductions.
const (
	GCD        Switches = 1 << iota // divide sizes by their greatest common divisor
	Components                      // solve what shares no time by itself
	FullSpan                        // stack what lives through a whole component under it
	Peel                            // leave out what fits anyway
	Twins                           // of equal buffers the first goes first
	Flip                            // of a layout and its mirror image look at one
)

// The rules of the search.
const (
	Canonical   Switches = 1 << (iota + 8) // (offset, rank) never falls along a branch
	Dominance                              // nothing starts where an unplaced buffer could have been; needs Canonical
	Inference                              // the unplaced of a section fit between its floor and the capacity
	Unallocated                            // that floor is where the lowest unplaced one can lie
	Monotonic                              // and not under the last offset; needs Canonical
	Hatless                                // what nothing unplaced meets is placed once
	Split                                  // what falls apart in time is searched apart
	Memory                                 // a state that failed is not searched again

	NoSwitches  Switches = 0
	AllSwitches          = GCD | Components | FullSpan | Peel | Twins | Flip |
		Canonical | Dominance | Inference | Unallocated | Monotonic | Hatless | Split | Memory
)

// on returns what is switched on where off is switched off.
func (off Switches) on() Switches {
	on := AllSwitches &^ off
	if on&Canonical == 0 {
		on &^= Dominance | Monotonic
	}
	return on
}

func (s Switches) has(w Switches) bool { return s&w != 0 }
