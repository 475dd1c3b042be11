// Package procfs is the provider of the streams that have a value at every
// instant and are read from /proc: the load of CPUs, memory, processes,
// threads, disks, network interfaces, and the kernel's pressure figures.
//
// A source samples at start + k·interval. Missed ticks are counted as lost
// ("sampler overrun") and never made up for. Percentages and per-second columns
// cover the last max(interval, rate window): a source that samples more often
// keeps the readings of that time, and produces no row until the window is
// complete, so that every rate is measured. The rate of something that appeared
// meanwhile (a disk, an interface) is NULL until then.
//
// A source with a gate (package gate) checks it at each tick. While it is shut,
// the source takes no reading, or takes one for later rates and produces no
// row; or it sleeps until this process opens the gate.
//
// Files are kept open and read with pread into a reused buffer; numbers are
// parsed in place. A steady source allocates nothing per sample except for
// finding processes, ten times a second.
//
// Rights: none for the system's streams; for another user's process, the
// columns of /proc/PID/io and /proc/PID/fd are NULL without ptrace rights.
//
// The package must not know SQL, operators, sessions or the network.
package procfs
