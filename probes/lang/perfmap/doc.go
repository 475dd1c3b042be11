// Package perfmap reads the files in which runtimes that compile code at run time
// say which functions it is: /tmp/perf-PID.map, with a line "address size name"
// for each. Node writes one when it is run with --perf-basic-prof, and grows it
// while it runs.
//
// The file is hostile input: it is bounded, and lines that are none are left out.
// The package must not know eBPF, unwinding, SQL or streams.
package perfmap
