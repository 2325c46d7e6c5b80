package model

import "math/bits"

// random is splitmix64: a counter put through a mixer. One seed gives one sequence, on every
// machine.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n), n > 0.
func (r *random) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// percent is true in p of 100 cases.
func (r *random) percent(p float64) bool {
	return float64(r.next()>>11)*100 < p*(1<<53)
}
