package uprobe

import "endoscope/planner/catalog"

// The streams of this package.
const (
	FunctionStart    = catalog.FunctionStart
	FunctionEnd      = catalog.FunctionEnd
	FunctionDuration = catalog.FunctionDuration
	FunctionCall     = catalog.FunctionCall
)

// The streams of memory that is allocated and released: of the calls of
// allocators, the outermost of each thread or goroutine.
const (
	Allocation   = catalog.Allocation
	Deallocation = catalog.Deallocation
)
