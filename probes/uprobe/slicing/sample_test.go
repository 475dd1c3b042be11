package slicing

import "testing"

func TestSampleRemark(t *testing.T) {
	always := Stratum{Always: true, Functions: []string{"a", "b"}}
	for _, c := range []struct {
		list    []Stratum
		later   int
		missing int64
		want    string
	}{
		{[]Stratum{always}, 0, 0, "the rows are all calls"},
		{[]Stratum{always}, 1, 0, "the rows are a sample of the calls, and all calls of 1 function, and of 1 function until these turned out to be rare"},
		{[]Stratum{{Functions: []string{"f"}, Share: 0.25}}, 0, 0, "the rows are a sample of the calls of f (25 % of the program's progress was seen)"},
		{[]Stratum{{Functions: []string{"f"}, Share: 0.25}}, 0, 3, "the rows are a sample of the calls of f (25 % of the program's progress was seen); missing are 3 of their calls, which had not ended soon after their slice"},
		{
			[]Stratum{always, {Functions: []string{"f", "g"}, Share: 0.02}, {Functions: []string{"h"}}, {Functions: []string{"i", "j"}, Share: 0.5}}, 0, 0,
			"the rows are a sample of the calls of h (0 % of the program's progress was seen), f (2 % of the program's progress was seen), g (2 % of the program's progress was seen) and 2 more (50 to 50 %), and all calls of 2 functions",
		},
	} {
		if got := SampleRemark(c.list, c.later, c.missing); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
