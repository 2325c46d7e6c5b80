package profile

import (
	"bytes"
	"math"
	"strconv"
)

// stamp is a time in microseconds, exact: whole + frac × 10^-18. A float64 has 53 bits,
// of which microseconds since 1970 take 51; what is left cannot order events.
type stamp struct {
	whole int64
	frac  uint64 // in [0, 10^18)
}

const fracDigits = 18

func (s stamp) compare(o stamp) int {
	switch {
	case s.whole < o.whole, s.whole == o.whole && s.frac < o.frac:
		return -1
	case s == o:
		return 0
	}
	return 1
}

// add returns s + o, saturating far beyond any real time.
func (s stamp) add(o stamp) stamp {
	f := s.frac + o.frac
	carry := int64(f / 1e18)
	if o.whole > math.MaxInt64-1-max(s.whole, 0) {
		return stamp{math.MaxInt64, 0}
	}
	return stamp{s.whole + o.whole + carry, f % 1e18}
}

// parseStamp reads a JSON number, with fraction and exponent if need be. Digits beyond
// the 18th after the point are cut off; negative times are refused.
func parseStamp(b []byte) (stamp, bool) {
	exp := 0
	if i := bytes.IndexAny(b, "eE"); i >= 0 {
		n, err := strconv.Atoi(string(bytes.TrimPrefix(b[i+1:], []byte("+"))))
		if err != nil || n < -400 || n > 400 {
			return stamp{}, false
		}
		exp, b = n, b[:i]
	}
	point := bytes.IndexByte(b, '.')
	digits := b
	if point >= 0 {
		digits = append(append(make([]byte, 0, len(b)), b[:point]...), b[point+1:]...)
	} else {
		point = len(b)
	}
	point += exp // digits[:point] is the whole part, digits[point:] the fraction
	if len(digits) == 0 {
		return stamp{}, false
	}
	var s stamp
	for i := 0; i < point; i++ {
		d := byte('0')
		if i < len(digits) {
			d = digits[i]
		}
		if d < '0' || d > '9' || s.whole > (math.MaxInt64-9)/10 {
			return stamp{}, false
		}
		s.whole = s.whole*10 + int64(d-'0')
	}
	for i := point; i < point+fracDigits; i++ {
		d := byte('0')
		if i >= 0 && i < len(digits) {
			d = digits[i]
		}
		if d < '0' || d > '9' {
			return stamp{}, false
		}
		s.frac = s.frac*10 + uint64(d-'0')
	}
	return s, true
}

// parseBits reads an address: an integer that some writers store signed.
func parseBits(b []byte) (uint64, bool) {
	if len(b) > 0 && b[0] == '-' {
		n, err := strconv.ParseInt(string(b), 10, 64)
		return uint64(n), err == nil
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, err == nil
}

// parseInt reads an integer.
func parseInt(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}
