package codegen

import "testing"

// TestEnumName formats numbers of enums by their names, flags joined, and
// parses them back.
func TestEnumName(t *testing.T) {
	flags := map[int64]string{0: "NONE", 1: "READ", 2: "WRITE", 8: "EXEC"}
	colors := map[int64]string{0: "RED", 7: "GREEN", -2: "BLUE"}
	for _, c := range []struct {
		names map[int64]string
		n     int64
		shown string
	}{
		{flags, 0, "NONE"}, {flags, 2, "WRITE"}, {flags, 3, "READ|WRITE"}, {flags, 11, "READ|WRITE|EXEC"},
		{flags, 4, "4"}, {flags, 5, "5"}, {flags, -1, "-1"},
		{colors, 7, "GREEN"}, {colors, -2, "BLUE"}, {colors, 3, "3"}, {nil, 3, "3"},
	} {
		if got := EnumName(c.names, c.n); got != c.shown {
			t.Errorf("%d of %v is shown as %s, want %s", c.n, c.names, got, c.shown)
		}
		if n, ok := EnumNumber(c.names, c.shown); !ok || n != c.n {
			t.Errorf("%s of %v is %d, %v", c.shown, c.names, n, ok)
		}
	}
	for _, s := range []string{"NOPE", "READ|NOPE", "WRITE|READ", "READ|READ", "", "|", "+2", "3"} {
		if n, ok := EnumNumber(flags, s); ok {
			t.Errorf("%q is %d, but not shown so", s, n)
		}
	}
}
