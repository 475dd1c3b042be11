package planner

import (
	"fmt"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// resolver resolves the names of one statement; src changes while it is inside the
// definition of a view.
type resolver struct {
	env     *Env
	src     string
	views   []string // definitions being inlined, by qualified name, outermost first
	sources int      // number of sources inlined so far
	columns int      // number of columns of all sources, joins and sub-queries so far
	outer   place    // where the statement itself names the definition being inlined
	notices []string
	asks    []string // columns that the plan needs, though the statement does not name them
	trigger string   // qualified name of the trigger being defined, or ""
	finals  bool     // of standing queries only final rows are read
	fresh   bool     // and only those that come
	// known are the value types found so far, by acquisition; serial is the number of the
	// next acquisition with values.
	known map[valueKey]types.Type
	// castTypes are the types to which the statement casts values of unknown type, by name.
	castTypes map[string][]types.Type
	serial    int
	// contexts are those that columns tell, by acquisition and name.
	contexts map[valueKey]*plan.Context
	estimation
	maySample   bool   // the rows of the statement may be a sample of the calls: they are its result
	samplesRows bool   // and are
	share       *share // the share of one of several hosts (Env.Host); nil: the whole statement
}

// estimation says how the results of the query that is being resolved are estimated: those of
// the whole statement, or of a sub-query.
type estimation struct {
	overhead *plan.Budget      // of its acquisition; nil: it is exact
	within   *parser.Precision // ERROR WITHIN, or nil
	// confidence is that of the intervals of estimates.
	confidence float64
}

// place is a part of a text.
type place struct {
	pos parser.Span
	src string
}

// maxSources limits the sources of a statement after inlining: definitions that each name
// another twice double with each step.
const maxSources = 1000

// maxWidth limits the columns of a source, a join or a sub-query: each takes memory in
// every batch. maxColumns limits them over all parts of a statement: with each * over
// another, columns multiply.
const (
	maxWidth   = 4000
	maxColumns = 100_000
)

// countColumns counts the columns of a part of the statement.
func (r *resolver) countColumns(n int, at parser.Span) error {
	r.columns += n
	msg := ""
	switch {
	case n > maxWidth:
		msg = fmt.Sprintf("these are more than %d columns", maxWidth)
	case r.columns > maxColumns:
		msg = fmt.Sprintf("this statement expands to more than %d columns", maxColumns)
	default:
		return nil
	}
	place := place{at, r.src}
	if len(r.views) > 0 && r.outer.src != "" {
		place = r.outer
	}
	return &parser.Error{Msg: msg, Hint: "name the columns that you need", Pos: place.pos, Src: place.src}
}

// level is the position of a query, for clauses that are not allowed everywhere.
type level uint8

const (
	top        level = iota
	nested           // sub-query, WITH
	definition       // CREATE STREAM: bare non-enumerable streams are allowed
)

// scope is a resolved source: a node, and the names of its columns.
type scope struct {
	node plan.Node
	// visible columns are included in *; those after them can only be named (the timestamp
	// that a sub-query did not select).
	visible int
	// names are the aliases by which alias.* may refer to the source.
	names []string
	// windowed: window_start and window_end are columns, and grouping is by window.
	windowed bool
	// ends: the rows are results of windows, whose time is the window's end.
	ends bool
	// misnamed: a column named timestamp is not the time of the rows.
	misnamed bool
	// estimated: the rows are those of a query within an overhead: a sub-query, or a standing one.
	estimated bool
	// finite sources end by themselves.
	finite bool
	// bare is the non-enumerable stream that is not yet sampled (in a definition).
	bare *catalog.Stream
	// sampled is the stream of the tuples, if it also has values at every instant.
	sampled *catalog.Stream
}

func (s *scope) fields() []types.Field { return s.node.Schema().Fields }

// column finds a column by its parts (name, or qualifier and name); n is the number of
// matches.
func (s *scope) column(qualifier, name string) (index, n int) {
	index = -1
	for i, f := range s.fields() {
		if f.Name == name && (qualifier == "" || f.Qualifier == qualifier) {
			if index < 0 {
				index = i
			}
			n++
		}
	}
	return index, n
}

// errorf returns an error at a position.
func (r *resolver) errorf(pos parser.Span, format string, args ...any) error {
	return &parser.Error{Msg: fmt.Sprintf(format, args...), Pos: pos, Src: r.src}
}

// hintf returns an error with a hint ("": none).
func (r *resolver) hintf(pos parser.Span, hint, format string, args ...any) error {
	return &parser.Error{Msg: fmt.Sprintf(format, args...), Hint: hint, Pos: pos, Src: r.src}
}

func (r *resolver) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, n := range r.notices {
		if n == text {
			return
		}
	}
	r.notices = append(r.notices, text)
}
