// Package variable observes the values of variables: the stream variable_value.
//
// A variable is one with an address of its own for as long as its program runs: a
// global, a static one, or a part of such a one. A write to it is seen by a hardware
// watchpoint of the processor, which traps after the instruction: at most four, of up to
// eight bytes, and writes by the kernel (a read(2) into the variable) are not seen. The
// pointers on the way to a variable are watched too, and where one changes the watchpoints
// behind it follow. A sample is read from the process' memory, and costs it
// nothing.
//
// Or it is a parameter or variable of a function, where the query names that: it is read
// by probes at the instructions where the lines begin at which it lives, and told when a
// call is first seen with it and when a line finds it changed.
//
//	find     a variable by its name: address and type, by DWARF or the symbol table
//	layout   where variables are in a file, once for all processes that execute it
//	image    what a process executes, which changes at execve
//	value    what its bytes mean
//	reach    what pointers lead to
//	watch    watchpoints on every thread, and on those that they make later
//	points   which there are, of variables and of pointers on the way to them
//	follow   how they follow the pointers, and what was missed meanwhile
//	writers  functions by the addresses of their instructions
//	local    variables of functions: the lines at which they live
//	trace    probes at these lines, and what has changed since the last one
//	unseen   processes that were gone before they could be observed
//	source   writes, and variables of functions, as rows; samples as rows
//
// It must not know SQL, operators or the engine.
package variable
