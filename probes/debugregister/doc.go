// Package debugregister finds out whether the processor's watchpoints work here: some virtual machines
// accept them, and they never fire.
//
// It must not know what is watched.
package debugregister
