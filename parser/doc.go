// Package parser turns the text of statements into syntax trees, prints trees
// as canonical text, and words errors with the place where they are.
//
//	text ─ lexer ─► tokens ─ grammar ─► ast
//
// It knows the language's spelling only: not which streams, columns or
// functions exist, nor what a statement means.
package parser
