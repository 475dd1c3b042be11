// Package interpreter reads the stacks of running programs that an interpreter
// executes: the functions of the program, where the machine's stack only shows the
// interpreter.
//
// It has what the interpreters have in common: threads by their numbers, the walk over
// the frames of a thread, what is cached, and the limits on what a program may say.
// Packages python, ruby and php know where their interpreters keep these things, each
// for the versions that it names, and give it as a Language.
//
// Nothing is stopped: frames belong together only if their thread did not run while
// they were read, which the caller has to find out; of a running thread, a program in
// the kernel reads them in an interrupt (package stack). Memory of a target is hostile:
// what is read from it is bounded and checked.
//
// It must not know any language, eBPF, unwinding, SQL or streams.
package interpreter
