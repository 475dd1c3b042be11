package parser

import "testing"

func TestParams(t *testing.T) {
	for src, want := range map[string]int{
		"SELECT 1": 0, "SELECT $1 + $3": 3, "SELECT '$2', \"$3\" -- $4": 0, "SELECT $99999999": 0,
	} {
		if got := Params(src); got != want {
			t.Errorf("%s: %d, want %d", src, got, want)
		}
	}
}
