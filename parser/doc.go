// Package parser turns the text of statements into syntax trees, prints trees as canonical
// text, and reports errors with their positions.
//
//	text ─ scan ─► tokens ─ cut ─► statements ─ grammar ─► rules ─ lower ─► tree
//	                                               └─ diagnose ─► *Error
//
// It knows only the language's syntax: not which streams, columns or functions exist, nor
// what a statement means.
//
// The grammar (grammar.go) is LL(1), so that a statement fails at the first token that
// cannot continue it. The message about that token comes from two sources: rules for common
// mistakes (mistakes.go, mistakes_query.go), and the grammar itself, which determines the
// tokens it would have accepted (diagnose.go). Neither has a cost for a correct statement.
//
// Before anything is built, the tokens of a text are counted (limits.go): operators,
// nesting, tokens, and the memory that parsing them takes at most, which Memory reports.
// The constants at the beginning of a list of IN are one token.
//
// Parse parses one statement; Classify describes the effect of executing one, from its
// tree. Split, Complete, Highlight and Keywords serve an editor, and accept invalid text
// too. Printing and parsing are inverse: the text of a tree parses to the same
// tree except for positions.
package parser
