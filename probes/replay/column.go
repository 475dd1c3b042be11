package replay

import (
	"fmt"

	"endoscope/planner/types"
	"endoscope/probes/rows"
)

// column makes one column of the batches from one column of the file.
type column struct {
	name      string
	from      int // column of the file
	typ       types.Type
	format    timeFormat
	eventTime bool  // the timestamp or line number of the row
	bad       tally // values that do not read as typ
}

// record is a row of the file.
type record struct {
	cells []cell
	line  int64
	at    int64 // event time
}

// appender makes the column's values; one that cannot be read is NULL.
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
		return rows.RealOr(func(r *record) (float64, bool) { return read(col, r, parseFloat) })
	case types.Boolean:
		return rows.BoolOr(func(r *record) (bool, bool) { return read(col, r, parseBool) })
	case types.Timestamp:
		return rows.IntOr(func(r *record) (int64, bool) {
			v := r.cells[col.from]
			if v.kind == absent {
				return 0, false
			}
			ns, ok := col.time(v)
			if !ok {
				col.bad.add(r.line)
			}
			return ns, ok
		})
	}
	return rows.IntOr(func(r *record) (int64, bool) { return read(col, r, parseInt) })
}

// read reads a cell that is written without quotes.
func read[V any](col *column, r *record, parse func([]byte) (V, bool)) (x V, ok bool) {
	v := &r.cells[col.from]
	if v.kind == absent {
		return x, false
	}
	if x, ok = parse(v.text); !ok || v.kind == quoted {
		col.bad.add(r.line)
		return x, false
	}
	return x, true
}

// time reads a cell of a TIMESTAMP column.
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
