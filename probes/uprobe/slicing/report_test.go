package slicing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	list := []Stratum{
		{Functions: []string{"a", "b", "c", "d", "e"}, Slices: 3, Length: 4 * time.Millisecond, Share: 0.012, Hits: 10, Spent: 5000},
		{Always: true, Functions: []string{"x", "y"}},
		{Functions: nil, Slices: 7},
	}
	want := []string{
		"all the time, 2 functions: exact, no calls seen",
		"in slices of 4ms, a, b, c and 2 more: 3 slices, which saw 1.2 % of the program's progress, 10 calls seen at 500ns each, 0.5 % of its CPU time",
	}
	if got := Report(list, 1e6); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	list = nil
	for i := range 2 * mostListed {
		list = append(list, Stratum{Functions: []string{fmt.Sprint(i)}, Slices: 2, Hits: 1, Spent: float64(i)})
	}
	got := Report(list, 1e6)
	if len(got) != mostListed+1 || !strings.HasPrefix(got[mostListed], "in slices, 20 more groups of 20 functions: 40 slices, 20 calls") || !strings.Contains(got[0], " 39: ") {
		t.Errorf("%q", got)
	}
}

func TestOutlook(t *testing.T) {
	got := Outlook(0.01, 0.1, Divided, []uint64{17000, 500, 600, 0, 16000})
	want := []string{"price of a call: 0s for 1 function", "price of a call: 500ns to 600ns for 2 functions", "price of a call: 16µs to 17µs for 2 functions"}
	if !strings.Contains(got[0], "budget 1 % of the CPU time that the program uses, at least 1ms each second") || !slices.Equal(got[3:], want) {
		t.Errorf("%q", got)
	}
}
