package planner

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Export is a planned CREATE EXPORT. Its query returns either figures, which are columns
// that become labels and columns that become metrics, or calls, which become spans.
type Export struct {
	Name    string
	Key     string // its qualified name
	To      string // the URL; "": Prometheus
	Start   int    // where the URL is in the statement: its offset, and its end
	Stop    int
	Options ExportOptions
	Query   *plan.Query
	Labels  []Label
	Metrics []Metric
	Spans   *Spans // nil: the query returns figures
	Stack   int    // the label that is a stack, of an export to a store of profiles; -1: there is none
	Notices []string
}

// DefaultExportOverhead is the share of its processor time that an export may cost a program
// unless the statement or the session says otherwise: it runs for as long as nobody looks.
const DefaultExportOverhead = 0.01

// ExportOptions are the options in the WITH of an export.
type ExportOptions struct {
	Exact    bool          // without a default overhead
	Interval time.Duration // between two results: EMIT EVERY
	Series   int           // of one metric
	Memory   int64         // of the query's operators, bytes
	Queue    int           // spans that wait for the receiver
	Timeout  time.Duration // of one request
	Hold     time.Duration // how long a span waits for the call that encloses it
	Headers  string        // of requests: name=value, separated by commas
}

// Protocols of receivers, as the schemes of their URLs begin, beside OTLP.
const (
	RemoteWrite = "prometheus"
	Pyroscope   = "pyroscope"
	Parca       = "parca"
)

// ExportSchemes are the schemes of the URLs to which exports send, with their default ports.
var ExportSchemes = map[string]int{
	"otlp": 4317, "otlps": 4317, "otlp+http": 4318, "otlp+https": 4318,
	RemoteWrite + "+http": 9090, RemoteWrite + "+https": 443,
	Pyroscope + "+http": 4040, Pyroscope + "+https": 443,
	Parca: 7070, Parca + "s": 7070,
}

// writesRemotely reports whether an export goes to a receiver of remote write.
func (e *Export) writesRemotely() bool { return strings.HasPrefix(e.To, RemoteWrite+"+") }

// storesProfiles reports whether an export goes to a store of profiles.
func (e *Export) storesProfiles() bool {
	return strings.HasPrefix(e.To, Pyroscope) || strings.HasPrefix(e.To, Parca)
}

// Label is a column that becomes a label, or an attribute.
type Label struct {
	Name   string
	Column int
}

// MetricKind is the kind of a metric.
type MetricKind uint8

// Kinds of metric.
const (
	Gauge MetricKind = iota
	Counter
	Exponential // a column of SKETCH: an exponential (native) histogram
	Bucketed    // a column of HISTOGRAM with borders
)

// String returns the kind as SHOW EXPORTS and DESCRIBE show it.
func (k MetricKind) String() string {
	return [...]string{"gauge", "counter", "exponential histogram", "histogram"}[k]
}

// Metric is a column that becomes a metric.
type Metric struct {
	Name   string // without the suffixes for its unit and kind
	Unit   Unit
	Kind   MetricKind
	Column int
	Sum    int    // the column with the sum of a histogram's values
	Help   string // the expression
	Type   types.Type
	// Part is which figures the metric has, if the query has estimates; the interval of a
	// figure is in the columns Low and High.
	Part      FigurePart
	Low, High int
	// Borders are the upper borders of a histogram's buckets, but the last one, in the
	// type's own unit.
	Borders []float64
}

// FigurePart is the part of the figures of a column that a metric has.
type FigurePart uint8

// Parts of figures. A counter that may fall is none: the estimates of a total, which may, are
// gauges.
const (
	AllFigures     FigurePart = iota
	ExactFigures              // those that are exact
	EstimateFigure            // those that are not
	LowerBounds               // the lower ends of their intervals
	UpperBounds
)

var partSuffixes = [...]string{EstimateFigure: "_estimate", LowerBounds: "_low", UpperBounds: "_high"}

// Suffix returns the end of the metric's name that says which figures it has.
func (m *Metric) Suffix() string {
	if int(m.Part) < len(partSuffixes) {
		return partSuffixes[m.Part]
	}
	return ""
}

// FullName returns the metric's name by the conventions of Prometheus.
func (m *Metric) FullName() string {
	name := m.Name
	if m.Unit.Suffix != "" {
		name += "_" + m.Unit.Suffix
	}
	name += m.Suffix()
	if m.Kind == Counter {
		name += "_total"
	}
	return name
}

// Unit is the unit of a metric.
type Unit struct {
	Suffix string  // in the name of a Prometheus metric
	Code   string  // UCUM, as OTLP has it
	Per    float64 // how many of the column's units make one of these
	trims  []string
}

var noUnit = Unit{Code: "1", Per: 1}

// units are those of the catalog's columns. trims are parts of a column's name that say the
// same as the unit.
var units = map[string]Unit{
	"ns":      {"seconds", "s", 1e9, []string{"_ns", "_seconds"}},
	"bytes":   {"bytes", "By", 1, []string{"_bytes"}},
	"%":       {"ratio", "1", 100, []string{"percent_", "_percent", "_ratio"}},
	"1/s":     {"per_second", "1/s", 1, []string{"_per_s", "_per_second"}},
	"bytes/s": {"bytes_per_second", "By/s", 1, []string{"_bytes_per_s", "_bytes_per_second"}},
}

// unitOf returns the unit of values of a type that come from a column; column may be "".
func unitOf(t types.Type, column string) Unit {
	if t == types.Duration {
		return units["ns"]
	}
	unit := ""
	for i, name := range catalog.Having(column) {
		c, _ := catalog.Find(name).Column(column)
		if i > 0 && c.Unit != unit {
			return noUnit // the name alone does not tell
		}
		unit = c.Unit
	}
	if u, ok := units[unit]; ok && unit != "ns" {
		return u
	}
	return noUnit
}

// trim returns a name without what the unit says again.
func (u Unit) trim(name string) string {
	for _, t := range u.trims {
		if strings.HasSuffix(t, "_") {
			name = strings.TrimPrefix(name, t)
		} else {
			name = strings.TrimSuffix(name, t)
		}
	}
	return name
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_]+`)

// metricName returns text as a part of a metric's name, or as a label's name.
func metricName(text string) string {
	name := strings.Trim(notInNames.ReplaceAllString(text, "_"), "_")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// identities are columns of numbers that say which thing a row is about.
var identities = map[string]bool{"pid": true, "tid": true, "cpu": true, "parent_pid": true, "parent_tid": true, "goroutine": true, "query_id": true, "line": true}

// Spans says in which columns of calls is what a span has. -1: there is none.
type Spans struct {
	Events     bool // the rows are entries and returns (function_call), no finished calls
	Name       int
	Event      int
	Start, End int // of an event both are its time
	PID, TID   int
	Depth      int
	Goroutine  int
	Trace      int // the trace id, or what determines it
}

// distribution returns the call of HISTOGRAM or SKETCH that an item is, or nil.
func distribution(x parser.Expr) *parser.Call {
	c, ok := x.(*parser.Call)
	if !ok || c.Star || !strings.EqualFold(c.Name.Name, "histogram") && !strings.EqualFold(c.Name.Name, "sketch") {
		return nil
	}
	return c
}

// metric returns the metric that an item with aggregates becomes. sum is the type of the sum
// of a histogram's values.
func (r *resolver) metric(e *Export, it *parser.SelectItem, f types.Field, sum types.Type, windowed bool) (*Metric, error) {
	m := &Metric{Unit: noUnit, Help: it.X.String(), Type: f.Type}
	base, column := "", ""
	call, fn := aggregateCall(it.X)
	if fn != "" && len(call.Args) > 0 {
		base = call.Args[0].X.String()
		if ref, ok := call.Args[0].X.(*parser.ColumnRef); ok {
			column = ref.Parts[len(ref.Parts)-1].Name
			base = column
		}
	}
	accumulates := false
	switch fn {
	case "count":
		if accumulates = !call.Distinct; call.Distinct {
			base = "distinct_" + base
		}
	case "rate":
		m.Unit = units["1/s"]
	case "histogram", "sketch":
		if windowed {
			return nil, r.hintf(it.Pos(), "without the window its counts add up from the start, as receivers expect", "a window has no histogram that can be exported")
		}
		m.Type, m.Unit, m.Kind = sum, unitOf(sum, column), Exponential
		if err := r.borders(m, call); err != nil {
			return nil, err
		}
	case "sum":
		m.Unit = unitOf(f.Type, column)
		accumulates = f.Type == types.Duration || m.Unit.Suffix == "bytes"
	case "variance":
		base += "_variance"
	case "":
		if it.Alias == nil {
			return nil, r.hintf(it.Pos(), it.X.String()+" AS name", "a metric that is computed needs a name")
		}
		m.Unit = unitOf(f.Type, "")
	default:
		m.Unit = unitOf(f.Type, column)
		base = m.Unit.trim(base) + "_" + fn
	}
	if m.Kind == Gauge && !m.Type.Numeric() && m.Type != types.Boolean {
		return nil, r.hintf(it.Pos(), "COUNT, SUM, AVG, MIN, MAX, QUANTILE and HISTOGRAM have numbers", "%s is a %s and cannot be a metric", it.X, m.Type)
	}
	if it.Alias != nil {
		var total bool
		base, total = strings.CutSuffix(it.Alias.Name, "_total")
		accumulates = accumulates || total
	}
	if m.Kind == Gauge && accumulates && !windowed {
		m.Kind = Counter
	}
	m.Name = exportName(e.Name, m.Unit.trim(base))
	return m, nil
}

// exportName returns the name of a metric of an export.
func exportName(export, base string) string {
	return strings.Trim(metricName(export)+"_"+metricName(base), "_")
}

// aggregateCall returns the call of an aggregate that an expression is, and its name in lower
// case; "" if it is something else.
func aggregateCall(x parser.Expr) (*parser.Call, string) {
	if c, ok := x.(*parser.Call); ok {
		if name := strings.ToLower(c.Name.Name); plan.FindAgg(name) != nil {
			return c, name
		}
	}
	return nil, ""
}

// maxBorders is the largest number of borders of a histogram: each is a series.
const maxBorders = 200

// borders sets the borders of HISTOGRAM(x, low, high, step), as the aggregate has them.
func (r *resolver) borders(m *Metric, call *parser.Call) error {
	if len(call.Args) != 4 {
		return nil
	}
	var n [3]float64
	for i, a := range call.Args[1:] {
		k, err := (&exprCtx{r: r}).constant(a.X, "HISTOGRAM")
		if err != nil {
			return err
		}
		if n[i] = k.V.F; k.V.Type != types.Double {
			n[i] = float64(k.V.I)
		}
	}
	m.Kind = Bucketed
	low, high, step := n[0], n[1], n[2]
	if (high-low)/step > maxBorders {
		return r.errorf(call.Pos(), "an exported histogram has at most %d buckets", maxBorders)
	}
	for i := 0; ; i++ {
		b := min(low+float64(i)*step, high)
		if m.Type != types.Double {
			b = math.Ceil(b)
		}
		if m.Borders = append(m.Borders, b); b >= high {
			return nil
		}
	}
}

// estimates returns the metrics of a column whose interval is in the columns low(name) and
// high(name), if there are such columns: exact figures keep the kind of the metric, and
// estimates are gauges, as are the ends of their intervals.
func estimates(m *Metric, fields []types.Field, name string) []Metric {
	column := func(b types.Bound, fn string) int {
		return slices.IndexFunc(fields, func(f types.Field) bool { return f.Bound == b && f.Name == fn+"("+name+")" })
	}
	m.Low, m.High = column(types.Low, plan.LowBound), column(types.High, plan.HighBound)
	all := []Metric{*m}
	if m.Low < 0 || m.High < 0 {
		return all
	}
	add := func(p FigurePart, column int, help string) {
		part := *m
		part.Kind, part.Part, part.Column, part.Help = Gauge, p, column, help+m.Help
		all = append(all, part)
	}
	if m.Kind == Counter {
		all[0].Part = ExactFigures
		add(EstimateFigure, m.Column, "estimate of ")
	}
	add(LowerBounds, m.Low, "lower end of the interval of ")
	add(UpperBounds, m.High, "upper end of the interval of ")
	return all
}
