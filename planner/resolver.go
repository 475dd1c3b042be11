package planner

import (
	"fmt"
	"strings"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// resolver gives names their meaning. One resolver serves one statement; src
// changes while it is inside the definition of a view.
type resolver struct {
	env     *Env
	src     string
	views   []string // definitions being inlined, outermost first
	sources int      // of all that was inlined so far
	outer   place    // where the statement itself names what is being inlined
	notices []string
	trigger string // that is being defined, or ""
	// known are the types of values so far, by acquisition; serial is the number of the
	// next one that has any.
	known map[valueKey]types.Type
	// said are the types to which the statement casts values that are of no type yet, by
	// their names.
	said   map[string][]types.Type
	serial int
	share  *share // of the statement, one of several hosts' (Env.Host); nil: it is not shared
}

// place is a part of a text.
type place struct {
	pos parser.Span
	src string
}

// maxSources is how many sources a statement may have once its definitions are
// inlined: definitions that name each other twice double with each step.
const maxSources = 1000

// level says where a query stands, for the clauses that not every place allows.
type level uint8

const (
	top        level = iota
	nested           // sub-query, WITH
	definition       // CREATE STREAM: bare non-enumerable streams are allowed
)

// scope is a resolved source: a node, and what its columns may be called.
type scope struct {
	node plan.Node
	// visible columns are what * means; those after them are only there to be
	// named (the timestamp that a sub-query did not select).
	visible int
	// names are the aliases by which alias.* may refer to the source.
	names []string
	// windowed: window_start and window_end are columns, and grouping is by
	// window.
	windowed bool
	// ends: the rows are results of windows, whose time is the window's end.
	ends bool
	// misnamed: a column is called timestamp that is not the time of the rows.
	misnamed bool
	// finite sources end by themselves.
	finite bool
	// sampleable: non-enumerable and not yet sampled (in a definition).
	bare *catalog.Stream
	// sampled is the stream whose tuples they are, if it has values at every instant,
	// too.
	sampled *catalog.Stream
}

func (s *scope) fields() []types.Field { return s.node.Schema().Fields }

// column finds a column by its parts (name, or qualifier and name); n is the
// number of matches.
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

// errorf is a refusal at a place.
func (r *resolver) errorf(pos parser.Span, format string, args ...any) error {
	return &parser.Error{Msg: fmt.Sprintf(format, args...), Pos: pos, Src: r.src}
}

// hintf is a refusal with a hint of what to write instead ("": none).
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

// nearestHint words a hint from the names that were meant, or from all of them
// when there are few.
func nearestHint(name string, names []string) string {
	if near := plan.Nearest(name, names, 3); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}
