package solver

import "slices"

// sortBy sorts s by a strict order of pointers.
func sortBy[T any](s []T, less func(a, b *T) bool) {
	slices.SortFunc(s, func(a, b T) int {
		switch {
		case less(&a, &b):
			return -1
		case less(&b, &a):
			return 1
		}
		return 0
	})
}
