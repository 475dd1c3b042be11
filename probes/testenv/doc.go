// Package testenv says what a test needs of its machine, builds the target programs
// that tests monitor, and waits for what happens by itself. A need that is not met skips
// the test with its reason, or fails it where ENDOSCOPE_REQUIRE=all.
//
// Only tests import it, those of every part of the tree: it must not know any other
// package of this module.
package testenv
