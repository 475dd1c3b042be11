// Package testplan makes the specifications and predicates that tests of package
// uprobe and its rooms acquire.
//
// It must not import those rooms.
package testplan
