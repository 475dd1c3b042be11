// Package ringbuf reads BPF ring buffers in place: the pages are mapped into
// memory, and records are passed to a function without a copy. A Waiter sleeps
// until the kernel signals new records.
//
// It must not know the meaning of records, nor when to read the buffer: the
// caller decides.
package ringbuf
