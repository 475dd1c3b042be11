// Package ringbuf reads BPF ring buffers where the kernel writes them: the pages
// are mapped into memory, and records are given to a function without a copy. A
// Waiter sleeps until the kernel wakes it for them.
//
// It must not know what records mean, nor when to look at the buffer: that is
// its user's business.
package ringbuf
