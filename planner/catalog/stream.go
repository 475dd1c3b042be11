package catalog

import (
	"fmt"
	"slices"

	"endoscope/planner/types"
)

// Streams lists every built-in stream, in the order in which SHOW prints them.
var Streams = slices.Concat(functions, allocations, processes, machine, usage, stacks, devices, sys, variables, entities)

// Enumerability is the paper's classification of streams (EndoScope, section
// 4.2.1).
type Enumerability uint8

// Enumerable streams have tuples at points in time and can be read directly. NonEnumerable
// streams have a value at every instant: they need SAMPLE or a join. Snapshot streams are
// non-enumerable too, but a query without SAMPLE returns their present value once.
const (
	Enumerable Enumerability = iota
	NonEnumerable
	Snapshot
)

// String returns the text that SHOW STREAMS prints.
func (e Enumerability) String() string {
	return [...]string{"enumerable", "non-enumerable", "snapshot"}[e]
}

// Column of a stream.
type Column struct {
	Name string
	Type types.Type
	Unit string // ns, bytes, %, 1/s; "" where it has none
	Doc  string
}

// Stream describes one stream.
type Stream struct {
	Name    string
	Kind    Enumerability
	Doc     string // one line
	How     string // how it is acquired
	Cost    string // what it costs, and which program
	Needs   string // kernel, capability, debug information
	Columns []Column
	// Asked are columns that a statement must name: * does not include them.
	Asked []Column
	// Process is set for streams about processes: they take a target.
	Process bool
	// Everywhere is set for streams that need no target: without one they cover the
	// whole machine. A target that a query's own conditions name does not make the
	// conditions redundant, since the stream may report more processes than it.
	Everywhere bool
	// Functions is set where predicates on function_name, class and module choose
	// what is instrumented.
	Functions bool
	// Sampled is set for enumerable streams that also have a value at every instant,
	// which SAMPLE reads.
	Sampled bool
	// Later is set for streams that this version cannot acquire.
	Later bool
}

// All returns all columns, Asked last.
func (s *Stream) All() []Column { return slices.Concat(s.Columns, s.Asked) }

// Column returns the column of that name.
func (s *Stream) Column(name string) (Column, bool) {
	for _, c := range s.All() {
		if c.Name == name {
			return c, true
		}
	}
	return Column{}, false
}

// Fields returns all columns as fields of a schema, in the order of All.
func (s *Stream) Fields() []types.Field {
	var fields []types.Field
	for _, c := range s.All() {
		fields = append(fields, types.Field{Name: c.Name, Type: c.Type})
	}
	return fields
}

// Find returns the built-in stream of that name, or nil.
func Find(name string) *Stream {
	for _, s := range Streams {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Must returns the built-in stream of that name and panics if there is none. It is
// for package variables: what acquires a stream that is not listed does not start.
func Must(name string) *Stream {
	s := Find(name)
	if s == nil {
		panic(fmt.Sprintf("catalog: there is no stream %s", name))
	}
	return s
}

// Position returns the position of a column in the stream's All, and panics if there
// is none. It is for package variables, as Must is.
func Position(stream, column string) int {
	i := slices.IndexFunc(Must(stream).All(), func(c Column) bool { return c.Name == column })
	if i < 0 {
		panic(fmt.Sprintf("catalog: %s has no column %s", stream, column))
	}
	return i
}

// Having lists the streams that have a column of that name.
func Having(column string) (names []string) {
	for _, s := range Streams {
		if _, ok := s.Column(column); ok {
			names = append(names, s.Name)
		}
	}
	return names
}

// Positions returns the positions of several columns.
func Positions(stream string, columns ...string) []int {
	var at []int
	for _, c := range columns {
		at = append(at, Position(stream, c))
	}
	return at
}
