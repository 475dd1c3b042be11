// Package stack samples the stacks of all threads of running programs: the
// stream stack_sample.
//
// No thread is stopped. Programs in the kernel (package bpf, stack.bpf.c) copy the
// registers and the top of the stack: of running threads in an interrupt on their CPU,
// of waiting threads from where they wait. A copy that may be inconsistent is
// discarded and taken again. In user space the copy is unwound by the unwind tables of
// the modules (package elf), else by frame pointers.
//
//	sampler   loads and runs the programs, and reads the samples
//	space     which code a process has where
//	module    cached results per instruction: function, inlined calls, lines, origin, unwind rule
//	unwinder  computes a sample's frames
//	interner  shares one value among equal stacks
//	state     RUN, WAIT, IO or BLOCKED
//	goroutine stacks of goroutines without a thread (package lang/golang)
//	collector one observation of each thread, or a count of the causes without one
//	source    observations as rows, at a rate or on demand
//	context   what threads and goroutines are inside of, which another package follows
//	copied    stacks of calls, copied by another package's programs
//
// It must not know SQL, operators or the engine.
package stack
