package planner

import (
	"regexp"
	"strings"
	"time"

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
