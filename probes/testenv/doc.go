// Package testenv checks what a test needs of its machine, builds the target
// programs that tests monitor, and waits for conditions. An unmet need skips
// the test with the reason, or fails it if ENDOSCOPE_REQUIRE=all is set.
//
// It is for tests only, of all parts of the tree: it must not know any other
// package of this module.
package testenv
