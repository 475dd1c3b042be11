// Package variable observes the values of variables: the stream variable_value.
//
// It observes two kinds of variables.
//
// Variables with a fixed address: global and static ones and their parts. A
// hardware watchpoint of the processor sees a write, and traps after the
// instruction. There are at most four, of up to eight bytes each; writes by the
// kernel (a read(2) into the variable) are not seen. The pointers on the path
// to a variable are watched too, and when one changes, the watchpoints after it
// move. A sample is read from the memory of the process, at no cost to it.
//
// Parameters and variables of a function, if the query names one. Probes read
// them at the first instructions of the lines at which they are live. A row is
// produced when a call first has a value, and when a line finds it changed.
//
//	find     a variable by its name: address and type, by DWARF or the symbol table
//	layout   locations of variables in a file, cached for all processes that run it
//	image    identifies what a process executes, which changes at execve
//	value    decodes bytes as values
//	reach    follows pointers
//	watch    watchpoints on every thread, and on threads created later
//	guard    keeps a process alive where a virtual machine loses the report of a watchpoint
//	points   the set of watchpoints, of variables and of pointers on the path to them
//	follow   moves watchpoints with pointers, and counts what was missed meanwhile
//	writers  functions by the addresses of their instructions
//	local    variables of functions: the lines at which they are live
//	trace    probes at these lines, and comparison with the last value
//	unseen   processes that ended before they could be observed
//	source   writes, and variables of functions, as rows; samples as rows
//
// It must not know SQL, operators or the engine.
package variable
