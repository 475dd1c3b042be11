package encoders

import (
	"fmt"
	"strconv"
)

// ArcNote formats the count and, if known, the mean time.
func ArcNote(s *Stats) string {
	note := ""
	if s.Count != 1 {
		note = fmt.Sprintf(" ×%d", s.Count)
	}
	if s.Timed > 0 {
		note += " " + shortTime(s.Mean())
	}
	return note
}

// shortTime formats a time in ns with three digits and a unit.
func shortTime(ns float64) string {
	units := []string{"ns", "µs", "ms", "s"}
	i := 0
	for i < len(units)-1 && (ns >= 999.5 || ns <= -999.5) {
		ns /= 1000
		i++
	}
	return strconv.FormatFloat(ns, 'g', 3, 64) + units[i]
}

// shortBytes formats a number of bytes with three digits and a unit.
func shortBytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for i < len(units)-1 && n >= 1023.5 {
		n /= 1024
		i++
	}
	return strconv.FormatFloat(n, 'g', 4, 64) + units[i]
}
