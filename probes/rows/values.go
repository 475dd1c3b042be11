package rows

import (
	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/types"
)

// Row is a row of values, one for each column of a stream in the order of the
// catalog. It is for streams with few rows. A zero Value is NULL.
type Row = []types.Value

// Values returns the table of a stream whose records are rows of values.
func Values(stream string) *Table[Row] {
	return ValuesOf(catalog.Must(stream))
}

// ValuesOf is Values for a stream that is not listed in the catalog.
func ValuesOf(s *catalog.Stream) *Table[Row] {
	columns := Columns[Row]{}
	for i, c := range s.All() {
		columns[c.Name] = Column[Row]{op: opCell, stores: c.Type.Physical(), at: uintptr(i)}
	}
	return &Table[Row]{s, columns}
}

// cell appends a value as a row of a column.
func cell(c *batch.Column, row int, v types.Value) {
	if v.IsNull || v.Type == types.Invalid {
		c.Nulls.Set(row)
		v = types.Value{}
	}
	switch c.Type.Physical() {
	case types.PhysBool:
		c.Bool = append(c.Bool, v.I != 0)
	case types.PhysInt:
		c.Int = append(c.Int, v.I)
	case types.PhysFloat:
		c.Float = append(c.Float, v.F)
	case types.PhysCode:
		c.Code = append(c.Code, c.Dict.Code(v.S))
	case types.PhysAny:
		c.Any = append(c.Any, v.A)
	}
}
