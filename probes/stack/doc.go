// Package stack samples the stacks of all threads of running programs: the
// stream stack_sample.
//
// No thread is stopped. Programs in the kernel (package bpf, stack.bpf.c) copy the
// registers and the top of the stack: of running threads in an interrupt on their CPU,
// of waiting threads from where they wait. A copy that may be inconsistent is
// discarded and taken again. In user space the copy is unwound by the unwind tables of
// the modules (package elf), else by frame pointers.
//
//	sampler   loads the programs, has them run, and reads the samples
//	space     which code a process has where
//	module    what is known of an instruction: function, origin, unwind rule
//	unwinder  a sample's frames
//	interner  equal stacks are one value
//	state     RUN, WAIT, IO or BLOCKED
//	goroutine those of Go programs that have no thread (package lang/golang)
//	collector one observation of each thread, or a count of why there is none
//	source    observations as rows, at a rate or on demand
//	stacks    the stacks of calls, that another package's programs have copied
//
// It must not know SQL, operators or the engine.
package stack
