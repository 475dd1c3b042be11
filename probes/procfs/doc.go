// Package procfs is the provider of the streams that have a value at every
// instant and are read from /proc: the load of CPUs, memory, processes,
// threads, disks, network interfaces, and the kernel's pressure figures.
//
// A source samples at start + k·interval. Ticks that it could not keep are
// counted as lost ("sampler overrun"); they are never made up for. Percentages
// and per-second columns cover the last max(interval, rate window): a source
// that samples more often keeps its readings of that time, and gives no row
// until they are complete, so that every rate is a measured one. A rate of
// something that appeared meanwhile (a disk, an interface) is NULL until then.
//
// Behind a gate (package gate) a source looks at it whenever it is due: shut, it
// takes no reading, or takes one for the rates to come and gives no row; or it
// sleeps until the gate is opened by this process.
//
// Files are held open and read with pread into a buffer that is reused; their
// numbers are scanned in place. A steady source allocates nothing per sample but
// what finding processes needs, ten times a second.
//
// Needed: no rights for the system's streams; for another user's process, the
// columns of /proc/PID/io and /proc/PID/fd are NULL without ptrace rights.
//
// The package must not know SQL, operators, sessions or the network.
package procfs
