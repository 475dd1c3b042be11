package expr

import (
	"strconv"
	"strings"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// Clock is the clock of now() and of the rates of aggregates, in ns since the epoch. The
// embedder sets it, before any operator runs, to the clock of the rows' times: a wall clock
// that is adjusted in between would diverge from them.
var Clock = func() int64 { return time.Now().UnixNano() }

// nowNode is now(): one time for all rows of an evaluation and all its occurrences in an
// expression.
type nowNode struct{ out output }

func now(e *plan.Call, _ []node) (node, error) { return &nowNode{newOutput(e.T)}, nil }

func (n *nowNode) eval(f *frame, r rows) (*batch.Column, error) {
	if f.now == 0 {
		f.now = Clock()
	}
	n.out.begin(r.n)
	r.each(func(i int) { n.out.col.Int[i] = f.now })
	return n.out.end(), nil
}

var truncUnits = map[string]int64{
	"microsecond": 1e3, "millisecond": 1e6, "second": 1e9,
	"minute": 60e9, "hour": 3600e9, "day": 24 * 3600e9,
}

// dateTrunc truncates times to a multiple of a unit since the epoch, which for units up to
// a day agrees with the calendar in UTC.
func dateTrunc(e *plan.Call, args []node) (node, error) {
	if unit, ok := constText(args[0]); ok {
		ns, err := truncUnit(e, unit)
		if err != nil {
			return nil, err
		}
		return newMap(e, args[1], func(t int64) (int64, outcome) { return truncate(t, ns) }), nil
	}
	return newRowNode(e.T, args, func(o *output, args []*batch.Column, i int) error {
		ns, err := truncUnit(e, text(args[0], i))
		if err != nil {
			return err
		}
		t, what := truncate(args[1].Int[i], ns)
		if what == outOfRange {
			return rangeError(e)
		}
		o.col.Int[i] = t
		return nil
	}), nil
}

func truncUnit(e *plan.Call, unit string) (int64, error) {
	ns, ok := truncUnits[strings.ToLower(unit)]
	if !ok {
		return 0, refuse(e.Args[0], "date_trunc does not know the unit '%s'", unit).
			WithHint("one of microsecond, millisecond, second, minute, hour, day")
	}
	return ns, nil
}

// truncate rounds t down to a multiple of unit.
func truncate(t, unit int64) (int64, outcome) {
	down := t % unit
	if down < 0 {
		down += unit
	}
	if t-down > t {
		return 0, outOfRange
	}
	return t - down, valid
}

// timeLayouts are the accepted text forms of a TIMESTAMP; without a zone it is UTC.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999", "2006-01-02 15:04", "2006-01-02",
}

// parseTime parses a TIMESTAMP in the range of int64 ns: the years 1678 to 2262.
func parseTime(s string) (int64, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			ns := t.UnixNano()
			return ns, time.Unix(0, ns).Equal(t)
		}
	}
	return 0, false
}

var durationUnits = map[string]int64{
	"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9,
	"min": 60e9, "h": 3600e9, "d": 24 * 3600e9,
}

// parseDuration parses the output of plan.FormatDuration, and decimals: 1.5s.
func parseDuration(s string) (int64, bool) {
	i := strings.LastIndexAny(s, "0123456789.") + 1
	unit, ok := durationUnits[strings.TrimSpace(s[i:])]
	if !ok {
		return 0, false
	}
	if n, err := strconv.ParseInt(s[:i], 10, 64); err == nil {
		v, excess := mul(n, unit)
		return v, excess == 0
	}
	x, err := strconv.ParseFloat(s[:i], 64)
	if err != nil {
		return 0, false
	}
	v, what := roundToInt(x * float64(unit))
	return v, what == valid
}
