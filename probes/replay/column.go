package replay

import (
	"fmt"

	"endoscope/planner/types"
	"endoscope/probes/rows"
)

// column converts one column of the file to one of the batches.
type column struct {
	name      string
	from      int // column of the file
	typ       types.Type
	format    timeFormat
	eventTime bool  // the timestamp or line number of the row
	bad       tally // count of values that do not parse as typ
}

// record is a row of the file.
type record struct {
	cells []cell
	line  int64
	at    int64 // event time
}

// appender returns the writer's column; a value that cannot be parsed is NULL.
func (col *column) appender() rows.Column[record] {
	if col.eventTime {
		return rows.Word(func(r *record) *int64 { return &r.at })
	}
	switch col.typ {
	case types.Varchar:
		return rows.BytesOr(func(r *record) ([]byte, bool) {
			v := &r.cells[col.from]
			return v.text, v.kind != absent
		})
	case types.Double:
		return rows.RealOr(func(r *record) (float64, bool) {
			v := &r.cells[col.from]
			x, ok := parseFloat(v.text)
			return x, ok && v.bare() || col.unreadable(r)
		})
	case types.Boolean:
		return rows.BoolOr(func(r *record) (bool, bool) {
			v := &r.cells[col.from]
			x, ok := parseBool(v.text)
			return x, ok && v.bare() || col.unreadable(r)
		})
	case types.Timestamp:
		return rows.IntOr(func(r *record) (int64, bool) {
			v := r.cells[col.from]
			ns, ok := col.time(v)
			return ns, ok && v.kind != absent || col.unreadable(r)
		})
	}
	parse := parseInt
	if col.typ.Unsigned() {
		parse = parseUint
	}
	return rows.IntOr(func(r *record) (int64, bool) {
		v := &r.cells[col.from]
		x, ok := parse(v.text)
		return x, ok && v.bare() || col.unreadable(r)
	})
}

// bare reports whether a cell is present and unquoted.
func (v *cell) bare() bool { return v.kind != absent && v.kind != quoted }

// unreadable counts a cell that does not parse as the column's type, unless it
// is absent. It returns false: the value is NULL.
func (col *column) unreadable(r *record) bool {
	if r.cells[col.from].kind != absent {
		col.bad.add(r.line)
	}
	return false
}

// time parses a cell of a TIMESTAMP column.
func (col *column) time(v cell) (ns int64, ok bool) {
	switch col.format {
	case nanoseconds:
		ns, ok = parseInt(v.text)
		return ns, ok && v.kind != quoted
	case seconds:
		ns, ok = parseSeconds(v.text)
		return ns, ok && v.kind != quoted
	}
	ns, ok = parseTime(v.text)
	return ns, ok && v.kind != number
}

func (col *column) faults(report func(fault)) {
	col.bad.report(report, false, fmt.Sprintf("unreadable value in column %s", col.name))
}
