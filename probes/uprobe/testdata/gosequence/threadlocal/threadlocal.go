// Package threadlocal has C with thread-local data, which lie where a program
// without C has its goroutine.
package threadlocal

/*
static __thread const void *volatile last[64];
static void touch(void) { for (int i = 0; i < 64; i++) last[i] = (void *)8; }
*/
import "C"

// Touch writes to them.
func Touch() { C.touch() }
