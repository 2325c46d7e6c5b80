package plantest

// Seeds is how many random cases a test runs that asks for n: a tenth of them where a sanitizer
// makes each ten to fifty times as dear.
func Seeds(n int) uint64 {
	if sanitized {
		n = max(1, n/10)
	}
	return uint64(n)
}
