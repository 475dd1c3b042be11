// Package perfmap reads the files in which runtimes with a compiler list the
// functions compiled at run time: /tmp/perf-PID.map, with a line "address size
// name" for each. Node writes one when it is run with --perf-basic-prof, and
// appends to it while it runs.
//
// The file is hostile input: it is bounded, and malformed lines are skipped.
// The package must not know eBPF, unwinding, SQL or streams.
package perfmap
