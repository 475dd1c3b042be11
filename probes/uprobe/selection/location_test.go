package selection

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func TestLocations(t *testing.T) {
	type location struct {
		Function string
		Addr     uint64
		File     string
		Line     int
	}
	for name, want := range map[string]*location{
		"0x401136":            {Addr: 0x401136},
		"0xFFFFFFFFFFFFFFFF":  {Addr: 1<<64 - 1},
		"main+18":             {Function: "main", Addr: 18},
		"main+010":            {Function: "main", Addr: 10},
		"main+018":            {Function: "main", Addr: 18},
		"main+0x12":           {Function: "main", Addr: 0x12},
		"a::operator+(int)+1": {Function: "a::operator+(int)", Addr: 1},
		"main.(*T).f+0":       {Function: "main.(*T).f"},
		"parse.c:120":         {File: "parse.c", Line: 120},
		"src/a b/parse.c:1":   {File: "src/a b/parse.c", Line: 1},
		"/usr/src/x.go:9":     {File: "/usr/src/x.go", Line: 9},
		"main":                nil,
		"operator+":           nil,
		"operator+=":          nil,
		"0x":                  nil,
		"0x12345678901234567": nil,
		"401136":              nil,
		"a::b":                nil,
		"a::b:12":             nil,
		"a::12":               nil,
		"parse.c:0":           nil,
		"parse.c:":            nil,
		":12":                 nil,
		"src/:12":             nil,
		"usdt:app:12":         nil,
		"parse.c:1234567890":  nil,
		"":                    nil,
	} {
		got := locationsOf([]*plan.Const{{V: types.Str(name)}})
		if want == nil {
			if len(got) > 0 {
				t.Errorf("%q is %+v", name, got[0])
			}
			continue
		}
		if len(got) != 1 {
			t.Errorf("%q is no location", name)
			continue
		}
		if diff := cmp.Diff(*want, location{got[0].Function, got[0].Addr, got[0].File, got[0].Line}); diff != "" {
			t.Errorf("%q: %s", name, diff)
		}
	}
}
