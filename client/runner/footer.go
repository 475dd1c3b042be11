package runner

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"endoscope/client/render"
	"endoscope/server/wire"
)

// Footer returns the last line of a result: number of rows, elapsed time, and losses.
//
//	5 rows in 1.23s, complete (3 calls unfinished)
//	5 rows in 1.23s, lost 17 (ring buffer full 12, late 5)
//	5 rows in 1.23s, complete; cost 8.61ms of CPU time, 0.7 %
//	5 rows in 1.23s, a sample; overhead 0.9 % of the program's CPU time, of 1 % allowed
//	5 rows in 1.23s, complete; b was acquired for 12 % of the time
func Footer(s wire.Summary) string {
	var b strings.Builder
	noun := "rows"
	if s.Rows == 1 {
		noun = "row"
	}
	fmt.Fprintf(&b, "%d %s in %s, ", s.Rows, noun, render.HumanDuration(s.Elapsed.Nanoseconds()))
	switch {
	case len(s.Losses) == 0 && s.Sample:
		b.WriteString("a sample")
	case len(s.Losses) == 0:
		b.WriteString("complete")
	default:
		var lost uint64
		causes := make([]string, len(s.Losses))
		for i, l := range s.Losses {
			lost += l.N
			causes[i] = fmt.Sprintf("%s %d", l.Cause, l.N)
		}
		fmt.Fprintf(&b, "lost %d (%s)", lost, strings.Join(causes, ", "))
	}
	if len(s.Counts) > 0 {
		counts := make([]string, len(s.Counts))
		for i, c := range s.Counts {
			counts[i] = fmt.Sprintf("%d %s", c.N, cause(c))
		}
		fmt.Fprintf(&b, " (%s)", strings.Join(counts, ", "))
	}
	if s.Cost > 0 && s.Elapsed > 0 {
		fmt.Fprintf(&b, "; cost %s of CPU time, %s", render.HumanDuration(s.Cost.Nanoseconds()), Percent(float64(s.Cost)/float64(s.Elapsed)))
	}
	for _, n := range s.Notes {
		b.WriteString("; " + n)
	}
	return b.String()
}

// Percent formats a share of a CPU: 0.012 is 1.2 %.
func Percent(share float64) string {
	switch p := 100 * share; {
	case p < 0.01:
		return "< 0.01 %"
	case p < 10:
		return strconv.FormatFloat(p, 'g', 2, 64) + " %"
	default:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	}
}

// plural matches the noun that a cause is about, and the verb in the present tense that
// follows it.
var plural = regexp.MustCompile(`^((?:\w+ ){0,2}?)(argument|call|change|handler|machine|module|process|search|snapshot|stack|text|thread|variable|millisecond)(?:es|s)\b( that do\b| that have\b)?`)

// cause returns the cause of a count, in the singular if it counts one.
func cause(c wire.Loss) string {
	if c.N != 1 {
		return c.Cause
	}
	return plural.ReplaceAllStringFunc(c.Cause, func(s string) string {
		m := plural.FindStringSubmatch(s)
		return m[1] + m[2] + map[string]string{" that do": " that does", " that have": " that has"}[m[3]]
	})
}
