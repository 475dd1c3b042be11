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
	Words                // a text of the target, of which Layout.Text tells what tests come to: VARCHAR
	Enum                 // 64 bits, shown by the names in Column.Names: VARCHAR
)

// NameSize is the length of a task's name in the kernel (TASK_COMM_LEN).
const NameSize = 16

// Column says where the program finds a column. No name is ever NULL, a number or text
// only if the column says so; whether a function's is, Layout.Fact knows.
type Column struct {
	Kind   Kind
	Offset int16 // of the value, from the program's argument
	Shift  int64 // of Number: the column's value is the stored one plus this, wrapping
	Late   bool  // known at the return only
	// Null: it may be NULL, which the bit of that number, from 1 on, of Layout.Absent says.
	Null uint8
	// Names are those of an Enum's numbers; one without is shown as it is.
	Names map[int64]string
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
	// Absent is the offset of a word of 64 bits that says what is NULL. In it Text names
	// a bit for a test of the column of that index, of kind Words, which is set for the
	// texts that pass; ok is false if there is none left.
	Absent int16
	Text   func(index int, t TextTest) (bit uint8, ok bool)
}
