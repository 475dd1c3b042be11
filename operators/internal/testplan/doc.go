// Package testplan holds what the tests of operators share: plans written as short texts,
// streams of events, and sinks that record.
//
// No production package imports it. It does not build plans, so that tests inside a package
// that package graph imports may use it.
package testplan
