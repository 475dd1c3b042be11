// Package sysmon makes the monitor of the Go runtime (sysmon in runtime/proc.go) wake less
// often.
//
// The monitor sleeps 20 us at a time while a goroutine waits in a system call, since it may
// have to give the goroutine's P to others. It does so for up to 10 ms, if nobody wants the P:
// some sixty wakings for each wait in the kernel, 1 to 2 ms of CPU time. An engine that may take
// 1 % of a program's CPU time, which waits for the kernel to attach and detach probes,
// would spend half of that so.
//
// It must not know what the engine waits for.
package sysmon
