// Package explained reads the lines of EXPLAIN, which are for people, as a tree of operators
// for pictures. It must not know who draws them.
package explained

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Plan is a plan: a tree of operators in preorder.
type Plan struct {
	Operators []Operator `json:"operators"`
	Lines     []string   `json:"lines"` // what is said of the whole: rules, alternatives, measurements
	Notices   []string   `json:"notices,omitempty"`
	Analyzed  bool       `json:"analyzed"`
	Seconds   float64    `json:"seconds,omitempty"` // that it ran
}

// Operator is an operator of a plan.
type Operator struct {
	Depth    int    `json:"depth"`
	Name     string `json:"name"`   // the first word
	Detail   string `json:"detail"` // the others
	Site     string `json:"site"`
	Note     string `json:"note,omitempty"`
	Measured bool   `json:"measured,omitempty"`
	In       int64  `json:"in,omitempty"`
	Out      int64  `json:"out,omitempty"`
	Time     string `json:"time,omitempty"`
	Sites    []Site `json:"sites,omitempty"` // of an acquisition: probes, and what the kernel does
}

// Site is a line below an acquisition.
type Site struct {
	Text string `json:"text"`
	Cost string `json:"cost,omitempty"` // of an event
}

var (
	// An operator's line ends with its site and what was measured of it. The text before
	// it may contain names of the target, so the last parentheses count.
	operatorLine = regexp.MustCompile(`^(.*)  \((kernel|server|client|host[^,()]*|[a-z]+ and [a-z]+)((?:, [^()]*)?)\)$`)
	measuredRows = regexp.MustCompile(`, rows (\d+) -> (\d+), ([^ ,]+)$`)
	siteCost     = regexp.MustCompile(`, about (\S+) an event(.*)$`)
	ranFor       = regexp.MustCompile(`^ran ([0-9a-zµ.]+):`)
)

// Read reads the lines of EXPLAIN. What it does not know remains a line of text.
func Read(lines []string) (out Plan) {
	out.Operators, out.Lines = []Operator{}, []string{}
	acquiring := -1 // depth of the acquisition whose sites follow
	for _, l := range lines {
		text := strings.TrimLeft(l, " ")
		depth := (len(l) - len(text)) / 2
		if m := ranFor.FindStringSubmatch(text); m != nil {
			if d, err := time.ParseDuration(m[1]); err == nil {
				out.Seconds = d.Seconds()
			}
		}
		m := operatorLine.FindStringSubmatch(text)
		inSites := acquiring >= 0 && depth > acquiring && len(out.Operators) > 0
		switch {
		case inSites:
			last := &out.Operators[len(out.Operators)-1]
			s := Site{Text: text}
			if c := siteCost.FindStringSubmatchIndex(text); c != nil {
				s.Text, s.Cost = text[:c[0]]+text[c[4]:c[5]], text[c[2]:c[3]]
			}
			last.Sites = append(last.Sites, s)
		case m != nil && depth <= most(out.Operators)+1:
			o := Operator{Depth: depth, Site: m[2]}
			o.Name, o.Detail, _ = strings.Cut(m[1], " ")
			rest := m[3]
			if r := measuredRows.FindStringSubmatchIndex(rest); r != nil {
				o.Measured = true
				o.In, _ = strconv.ParseInt(rest[r[2]:r[3]], 10, 64)
				o.Out, _ = strconv.ParseInt(rest[r[4]:r[5]], 10, 64)
				o.Time, rest = rest[r[6]:r[7]], rest[:r[0]]
			}
			o.Note = strings.TrimPrefix(rest, ", ")
			out.Operators = append(out.Operators, o)
			acquiring = -1
			if o.Name == "acquire" {
				acquiring = depth
			}
		default:
			acquiring = -1
			out.Lines = append(out.Lines, l)
		}
	}
	return out
}

// most returns the depth of the last operator; -1 if there is none.
func most(all []Operator) int {
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1].Depth
}
