package parser

import "strconv"

// unit is one unit of measure and how many of the smallest it holds.
type unit struct {
	name string
	size int64
}

// Units, the largest first.
var (
	durationUnits = []unit{
		{"d", 86400e9}, {"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1},
	}
	sizeUnits = []unit{
		{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6},
		{"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
	}
)

// inUnits writes n in the largest unit that divides it.
func inUnits(n int64, units []unit) string {
	smallest := units[len(units)-1]
	if n == 0 {
		return "0" + smallest.name
	}
	for _, u := range units {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + smallest.name
}
