package plan

// Indexes of SelectColumns.
const (
	SelectName = iota
	SelectClass
	SelectModule
)
