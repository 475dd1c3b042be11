package container

import (
	"endoscope/probes/rows"
)

// Extend adds the columns of containers to those of a stream. of returns the container of a
// record; nil: unknown.
func Extend[T any](columns rows.Columns[T], of func(*T) *Container) rows.Columns[T] {
	for _, name := range Columns {
		columns[name] = rows.Text(func(t *T) string {
			c := of(t)
			if c == nil {
				return ""
			}
			return c.Get(name)
		})
	}
	return columns
}
