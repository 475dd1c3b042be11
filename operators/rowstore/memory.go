package rowstore

import (
	"fmt"
	"slices"

	"endoscope/planner/plan"
)

// Extended returns state resized to n groups, keeping its entries. Added entries are zero,
// also in reused memory.
func Extended[T any](state []T, n int) []T {
	if n <= len(state) {
		return state
	}
	old := len(state)
	if n > cap(state) {
		state = slices.Grow(state, max(n, 2*old)-old)
	}
	state = state[:n]
	clear(state[old:])
	return state
}

// Extend makes v at least n entries long; new entries are zero.
func Extend[T any](v []T, n int) []T {
	if k := n - len(v); k > 0 {
		old := len(v)
		v = slices.Grow(v, k)[:n]
		clear(v[old:])
	}
	return v
}

// TooLarge returns the error of an operator that holds more rows than its limit.
func TooLarge(what string, limit int64, hint string) error {
	return &plan.Error{Msg: fmt.Sprintf("%s holds more than %s of rows", what, formatBytes(limit)), Hint: hint, Start: -1}
}

func formatBytes(n int64) string {
	for _, u := range []string{"bytes", "KiB", "MiB"} {
		if n < 10*1024 {
			return fmt.Sprintf("%d %s", n, u)
		}
		n /= 1024
	}
	return fmt.Sprintf("%d GiB", n)
}
