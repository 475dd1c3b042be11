// Package pprof makes profiles in the format of profile.proto, which `go tool pprof`,
// Pyroscope and Parca read, of stacks as the engine has them. Results written to a file and
// exports to a profile store share it.
//
// It must not know rows, nor where a profile goes.
package pprof
