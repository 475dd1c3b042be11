package replay

import (
	"fmt"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// dictLimit is when a column's strings move to a new dictionary.
const dictLimit = 1 << 16

// column makes one column of the batches from one column of the file.
type column struct {
	name      string
	from      int // column of the file
	typ       types.Type
	format    timeFormat
	eventTime bool // the timestamp or line number of the row
	dict      *batch.Dict
	bad       tally // values that do not read as typ
}

// append adds a cell as row n of c; a value that cannot be read is NULL.
func (col *column) append(c *batch.Column, n int, v cell, line int64) {
	if v.kind == absent {
		c.Append(n, types.NullOf(col.typ))
		return
	}
	ok := true
	switch col.typ {
	case types.Varchar:
		c.Code = append(c.Code, c.Dict.CodeBytes(v.text))
		return
	case types.Bigint:
		var i int64
		if i, ok = parseInt(v.text); ok && v.kind != quoted {
			c.Int = append(c.Int, i)
			return
		}
	case types.Double:
		var f float64
		if f, ok = parseFloat(v.text); ok && v.kind != quoted {
			c.Float = append(c.Float, f)
			return
		}
	case types.Boolean:
		var b bool
		if b, ok = parseBool(v.text); ok && v.kind != quoted {
			c.Bool = append(c.Bool, b)
			return
		}
	case types.Timestamp:
		var ns int64
		if ns, ok = col.time(v); ok {
			c.Int = append(c.Int, ns)
			return
		}
	}
	col.bad.add(line)
	c.Append(n, types.NullOf(col.typ))
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
