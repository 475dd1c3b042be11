package bus

import (
	"maps"
	"testing"
)

func TestCoverage(t *testing.T) {
	const first, second = "0000000000000010-abc", "0000000000000020-abd"
	before := Coverage(nil).Add(0, first, 7).Add(300, first, 1)
	if got, want := before.Versions(), map[Start]uint64{{0, 0x10}: 7, {300, 0x10}: 1}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, c := range []struct {
		now  Coverage
		want int
	}{
		{before, 0},
		{before.Add(0, second, 1), 0},
		{nil, 2},
		{Coverage(nil).Add(0, first, 6).Add(300, first, 1), 1},
		{Coverage(nil).Add(0, second, 9).Add(300, first, 2), 1},
	} {
		if got := c.now.Lacks(before); got != c.want {
			t.Errorf("%v lacks %d starts, want %d", c.now.Versions(), got, c.want)
		}
	}
	if got := (Coverage{}).Add(-1, first, 1).Versions(); got != nil {
		t.Errorf("a host whose number is too large: %v", got)
	}
	for n := range before[:len(before)-1] {
		_ = before[:n].Versions() // must not panic
	}
}
