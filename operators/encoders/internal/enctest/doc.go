// Package enctest holds the sequences and golden files that the encoder tests share.
//
// No production package imports it.
package enctest
