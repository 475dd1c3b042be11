package codegen

import "endoscope/planner/plan"

// Kind is how a column's value is stored for the program.
type Kind uint8

// The kinds of columns.
const (
	Unknown  Kind = iota // not available in the kernel
	Number               // 64 bits: BIGINT, UBIGINT, TIMESTAMP, DURATION
	Name                 // NameSize bytes, ended by the first zero byte if there is one: VARCHAR
	Function             // constant for each function; tested by Layout.Fact
	Words                // a text of the target, tested by Layout.Text: VARCHAR
	Enum                 // 64 bits, displayed by the names in Column.Names: VARCHAR
)

// NameSize is the length of a task's name in the kernel (TASK_COMM_LEN).
const NameSize = 16

// Column is the location of a column. A name is never NULL, a number or text
// only if the column says so; for a function's value, Layout.Fact decides.
type Column struct {
	Kind   Kind
	Offset int16 // of the value, from the program's argument
	Shift  int64 // of a Number: added to the stored value, wrapping
	Late   bool  // known at the return only
	// Null: the column may be NULL, as reported by the bit with that number,
	// from 1 on, in Layout.Absent.
	Null uint8
	// Names are those of an Enum's numbers; a number without a name is
	// displayed as it is.
	Names map[int64]string
}

// Layout describes the memory that programs read; they receive its address.
type Layout struct {
	Columns []Column // by the indexes of the expression's columns
	// Facts is the offset of a 64-bit word. Fact returns its bit for a BOOLEAN
	// expression over columns of kind Function: it is set for the functions for
	// which the expression is true. ok is false if no bit is left, or if the
	// expression cannot be evaluated.
	Facts int16
	Fact  func(e plan.Expr) (bit uint8, ok bool)
	// Absent is the offset of a 64-bit word with the NULL bits. Text returns
	// its bit for a test of the column with an index, of kind Words: it is set
	// for the texts that pass; ok is false if no bit is left.
	Absent int16
	Text   func(index int, t TextTest) (bit uint8, ok bool)
}
