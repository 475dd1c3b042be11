// Package enctest has the sequences and golden files that the tests of encoders share.
//
// No production package imports it.
package enctest
