package spelling

import (
	"testing"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

func TestDistance(t *testing.T) {
	var table Table
	for _, c := range []struct {
		a, b string
		most int
		want int
	}{
		{"", "", 0, 0}, {"", "abc", 9, 3}, {"abc", "", 9, 3}, {"nginx", "nginx", 9, 0}, {"ngnix", "nginx", 9, 1},
		{"kitten", "sitting", 9, 3}, {"redis", "redis-server", 9, 7},
		{"redis", "redis-server", 6, 7}, {"kitten", "sitting", 1, 2}, {"ab", "ba", 0, 1},
	} {
		if got := Distance(&table, c.a, c.b, c.most); got != c.want {
			t.Errorf("%q to %q, at most %d: %d, want %d", c.a, c.b, c.most, got, c.want)
		}
	}
}

// Distance is that of the textbook's recursion, as far as it is asked for.
func TestDistanceProperty(t *testing.T) {
	var naive func(a, b string) int
	naive = func(a, b string) int {
		switch {
		case a == "" || b == "":
			return len(a) + len(b)
		case a[0] == b[0]:
			return naive(a[1:], b[1:])
		}
		best := 1 + min(naive(a[1:], b), naive(a, b[1:]), naive(a[1:], b[1:]))
		if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
			best = min(best, 1+naive(a[2:], b[2:]))
		}
		return best
	}
	var table Table
	letters := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, most := letters.Draw(t, "a"), letters.Draw(t, "b"), rapid.IntRange(0, 7).Draw(t, "most")
		want := naive(a, b)
		if want > most {
			want = most + 1
		}
		if got := Distance(&table, a, []byte(b), most); got != want {
			t.Fatalf("Distance(%q, %q, most %d) = %d, want %d", a, b, most, got, want)
		}
	})
}
