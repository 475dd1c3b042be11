// Package parser turns the text of statements into syntax trees, prints trees
// as canonical text, and words errors with the place where they are.
//
//	text ─ scan ─► tokens ─ cut ─► statements ─ grammar ─► rules ─ lower ─► tree
//	                                               └─ diagnose ─► *Error
//
// It knows the language's spelling only: not which streams, columns or
// functions exist, nor what a statement means.
//
// The grammar (grammar.go) is LL(1), so that a statement goes wrong at the
// first token that cannot continue it. What is told about that token comes
// from two sources: rules for the mistakes that people make (mistakes.go,
// mistakes_query.go), and the grammar itself, which is asked what else it
// would have taken there (diagnose.go). Neither costs a correct statement
// anything.
//
// Parse reads one statement and ParseAll many; Classify says what executing one
// does, from its tree. Split, Complete, Highlight and
// Keywords serve an editor, and take broken text too. Printing and parsing are
// inverse: the text of a tree gives the same tree but for positions.
package parser
