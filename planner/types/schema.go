package types

// Field is one column of a node's output.
type Field struct {
	Name      string
	Qualifier string // alias or stream name that qualifies it; "" if none
	Type      Type
	Bound     Bound // it bounds the estimate of another column
}

// Bound says that a column is a bound of an estimate, the column whose name it has in
// parentheses: low(count(*)).
type Bound uint8

// Bounds. The estimate of a column is exact where both are equal to it, and has no bound
// where that is NULL.
const (
	NoBound Bound = iota
	Low
	High
)

// Schema is a node's output.
type Schema struct {
	Fields []Field
	// Time is the index of the column that carries event time (TIMESTAMP, or
	// the BIGINT line number of a file without timestamps), or -1.
	Time int
}

// Types lists the column types in order.
func (s Schema) Types() []Type {
	ts := make([]Type, len(s.Fields))
	for i, f := range s.Fields {
		ts[i] = f.Type
	}
	return ts
}

// Index returns the index of the first column called name, or -1.
func (s Schema) Index(name string) int {
	for i, f := range s.Fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}
