package plan

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"function_start", "function_end", "function_duration", "cpu_usage", "cpu_core_usage", "memory_usage", "disk_usage"}
	for _, c := range []struct{ name, want string }{
		{"function_strat", "function_start"},           // neighbours swapped
		{"FUNCTION_START", "function_start"},           // case does not count
		{"cpu_usag", "cpu_usage"},                      // the nearest first
		{"core", "cpu_core_usage"},                     // part of a name
		{"usage", "cpu_usage,disk_usage,memory_usage"}, // at most three, the nearest
		{"xyzzy", ""},
		{"", ""},
	} {
		if got := strings.Join(Nearest(c.name, names, 3), ","); got != c.want {
			t.Errorf("Nearest(%q) = %s, want %s", c.name, got, c.want)
		}
	}
	if got := Nearest("a", []string{"b", "b"}, 3); len(got) != 1 {
		t.Errorf("a name twice is offered twice: %v", got)
	}
}
