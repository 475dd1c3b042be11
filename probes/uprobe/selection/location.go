package selection

import (
	"regexp"
	"strconv"
	"strings"

	"endoscope/planner/plan"
)

// Location is a place in the code that a name denotes: an address, a function and a distance from
// its entry, or a source line.
type Location struct {
	Name     *plan.Const
	Function string // "": none
	Addr     uint64 // in the file; with a function, the distance
	File     string // "": no source line
	Line     int
}

var (
	addressName = regexp.MustCompile(`^0x([0-9a-fA-F]{1,16})$`)
	offsetName  = regexp.MustCompile(`^(.+)\+(0x[0-9a-fA-F]{1,16}|[0-9]{1,18})$`)
	lineName    = regexp.MustCompile(`^([^:]*[^:/]):([1-9][0-9]{0,8})$`)
)

// locationsOf returns the names of locations among those that a selection lists.
func locationsOf(names []*plan.Const) (out []Location) {
	for _, c := range names {
		name := c.V.S
		if strings.HasPrefix(name, MarkedPrefix) {
			continue
		}
		if m := addressName.FindStringSubmatch(name); m != nil {
			addr, _ := strconv.ParseUint(m[1], 16, 64)
			out = append(out, Location{Name: c, Addr: addr})
		} else if m := offsetName.FindStringSubmatch(name); m != nil {
			digits, base := m[2], 10 // 010 is ten
			if hex, ok := strings.CutPrefix(digits, "0x"); ok {
				digits, base = hex, 16
			}
			addr, _ := strconv.ParseUint(digits, base, 64)
			out = append(out, Location{Name: c, Function: m[1], Addr: addr})
		} else if m := lineName.FindStringSubmatch(name); m != nil {
			line, _ := strconv.Atoi(m[2])
			out = append(out, Location{Name: c, File: m[1], Line: line})
		}
	}
	return out
}
