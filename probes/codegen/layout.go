package codegen

import "endoscope/planner/plan"

// Kind is how a column's value is kept where the program finds it.
type Kind uint8

// The kinds of columns.
const (
	Unknown  Kind = iota // the kernel does not have it
	Number               // 64 bits: BIGINT, TIMESTAMP, DURATION
	Name                 // NameSize bytes, ended by the first zero byte if there is one: VARCHAR
	Function             // constant for each function: decided by Layout.Fact
)

// NameSize is the length of a task's name in the kernel (TASK_COMM_LEN).
const NameSize = 16

// Column says where the program finds a column. No number or name is ever NULL;
// whether a function's is, Layout.Fact knows.
type Column struct {
	Kind   Kind
	Offset int16 // of the value, from the program's argument
	Shift  int64 // of Number: the column's value is the stored one plus this, wrapping
	Late   bool  // known at the return only
}

// Layout is what programs look at: a piece of memory of which they get the
// address.
type Layout struct {
	Columns []Column // by the indexes of the expression's columns
	// Facts is the offset of a word of 64 bits, of which Fact names one for a
	// BOOLEAN expression over columns of kind Function: the bit is set for the
	// functions for which it is true. ok is false if there is none left, or if
	// the expression cannot be evaluated.
	Facts int16
	Fact  func(e plan.Expr) (bit uint8, ok bool)
}
