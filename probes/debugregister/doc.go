// Package debugregister finds out whether the processor's watchpoints work here: some virtual machines
// accept them, and they never fire. It also says whether the machine is virtual: some lose what a
// watchpoint has reported.
//
// It must not know what is watched.
package debugregister
