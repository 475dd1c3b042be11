// Package definitions holds what users define: the streams of CREATE STREAM, the
// contexts of CREATE CONTEXT, and what the triggers of CREATE TRIGGER read and write, and who owns each. Name
// resolution consults it beside the catalog of built-in streams.
//
// It must not know plans, or how anything is acquired.
package definitions
