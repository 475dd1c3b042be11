package web

import (
	"context"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"endoscope/server/wire"
)

// explained is a plan as the page draws it: a tree of operators in preorder.
type explained struct {
	Operators []operator `json:"operators"`
	Lines     []string   `json:"lines"` // what is said of the whole: rules, alternatives, measurements
	Notices   []string   `json:"notices,omitempty"`
	Analyzed  bool       `json:"analyzed"`
	Seconds   float64    `json:"seconds,omitempty"` // that it ran
}

// operator is an operator of a plan.
type operator struct {
	Depth    int    `json:"depth"`
	Name     string `json:"name"`   // the first word
	Detail   string `json:"detail"` // the others
	Site     string `json:"site"`
	Note     string `json:"note,omitempty"`
	Measured bool   `json:"measured,omitempty"`
	In       int64  `json:"in,omitempty"`
	Out      int64  `json:"out,omitempty"`
	Time     string `json:"time,omitempty"`
	Sites    []site `json:"sites,omitempty"` // of an acquisition: probes, and what the kernel does
}

type site struct {
	Text string `json:"text"`
	Cost string `json:"cost,omitempty"` // of an event
}

// linesOf reads a result of one text column.
func linesOf(ctx context.Context, res wire.Result) (lines, notices []string, err error) {
	for {
		ev, err := res.Next(ctx)
		if err == io.EOF {
			return lines, notices, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if ev.Kind == wire.Notice {
			notices = append(notices, ev.Text)
		}
		if ev.Batch == nil {
			continue
		}
		for i := range ev.Batch.Len() {
			lines = append(lines, ev.Batch.Cols[0].Value(ev.Batch.Row(i)).S)
		}
		ev.Batch.Release()
	}
}

var (
	// An operator's line ends with its site and what was measured of it. The text before
	// it may contain names of the target, so the last parentheses count.
	operatorLine = regexp.MustCompile(`^(.*)  \((kernel|server|client|host[^,()]*|[a-z]+ and [a-z]+)((?:, [^()]*)?)\)$`)
	measuredRows = regexp.MustCompile(`, rows (\d+) -> (\d+), ([^ ,]+)$`)
	siteCost     = regexp.MustCompile(`, about (\S+) an event(.*)$`)
	ranFor       = regexp.MustCompile(`^ran ([0-9a-zµ.]+):`)
)

// planOf reads the lines of EXPLAIN. What it does not know remains a line of text.
func planOf(lines []string) (out explained) {
	out.Operators, out.Lines = []operator{}, []string{}
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
			s := site{Text: text}
			if c := siteCost.FindStringSubmatchIndex(text); c != nil {
				s.Text, s.Cost = text[:c[0]]+text[c[4]:c[5]], text[c[2]:c[3]]
			}
			last.Sites = append(last.Sites, s)
		case m != nil && depth <= most(out.Operators)+1:
			o := operator{Depth: depth, Site: m[2]}
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
func most(all []operator) int {
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1].Depth
}
