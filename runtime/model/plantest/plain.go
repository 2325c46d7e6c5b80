//go:build !race && !asan

package plantest

const sanitized = false
