package model

// Lengths and batches that vary move the sizes of a step together: all that depends on the number of tokens grows or
// shrinks by one factor. A stranger is of another size, too, but not of the same factor as the requests before it. So
// a smaller request gets the slot of its entry once the factor has been seen with two other sizes, just before; and what
// comes next is looked for with that factor. In the prologue are weights, and they do not vary.

const (
	factorsKept  = 2
	factorSizes  = 2       // large sizes, no two in a row the same, that a factor must have been seen with
	factorWithin = 16      // requests, dynamic ones not counted, from one to the next
	factorBelow  = 1 << 31 // units; larger sizes are not compared
)

// factor is a ratio of sizes that was seen.
type factor struct {
	got, had uint64 // units: size of the request, and of the slot; of the largest slot
	last     uint64 // the slot's size, of the latest large one
	sizes    int
	at       uint64 // requests that were not dynamic when it was seen last
}

// factors are those seen last, the latest first.
type factors [factorsKept]factor

// continues reports whether a request of got units for a slot of had is of the factor.
func (x *factor) continues(got, had, now uint64) bool {
	apart := int64(got*x.had) - int64(x.got*had)
	return x.sizes > 0 && now-x.at <= factorWithin && max(apart, -apart) <= int64(had+x.had)
}

// expects reports whether a slot of had units is asked for with got where sizes are as they were.
func (f *factors) expects(got, had, now uint64) bool {
	for i := range f {
		if x := &f[i]; x.sizes >= factorSizes && got < had && had < factorBelow && x.continues(got, had, now) {
			return true
		}
	}
	return false
}

// proportional notes that a slot of had units was asked for with another size, got, now requests having come, and
// reports whether the slots before it were, too, by the same factor.
func (f *factors) proportional(got, had, now uint64) bool {
	if max(got, had) >= factorBelow {
		return false
	}
	large := had*Unit > commonBytes
	for i := range f {
		x := f[i]
		if !x.continues(got, had, now) {
			continue
		}
		known := x.sizes >= factorSizes
		x.at = now
		if large && had != x.last {
			x.sizes++
			x.last = had
		}
		if had > x.had {
			x.got, x.had = got, had
		}
		copy(f[1:i+1], f[:i])
		f[0] = x
		return known
	}
	if large {
		copy(f[1:], f[:])
		f[0] = factor{got, had, had, 1, now}
	}
	return false
}
