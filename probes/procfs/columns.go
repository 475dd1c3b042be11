package procfs

import (
	"strings"

	"endoscope/planner/types"
)

// Columns are the streams of this provider, each with all its columns; a
// specification may ask for any of them, in any order.
//
//   - Percentages are 0 to 100; percent_cpu is 100 for each CPU used.
//   - cpu_usage, cpu_core_usage: busy = 100 - idle - iowait = user (with nice
//     and guests) + system (with interrupts) + steal.
//   - memory_usage, in bytes: used = total - available, which is what programs
//     could have without swapping; cached is the page cache.
//   - process_usage: rss and vsize in bytes; faults, bytes and switches count
//     from the start of the process. The bytes are those that reached storage.
//     The switches are those of threads that were alive at the first sample or
//     started later.
//   - thread_usage: state is the kernel's letter (R, S, D, T, t, Z, I);
//     run_delay is the time that the thread has waited for a CPU since it began.
//   - disk_usage: whole block devices that have done any I/O since boot.
//   - pressure: shares of time in which some, or all (full), tasks waited for
//     the resource; avg10, avg60 and avg300 are the kernel's averages over so
//     many seconds, some_percent and full_percent those of the rate window.
var Columns = map[string][]types.Field{
	"cpu_usage": columns(`timestamp TIMESTAMP,
		percent_busy DOUBLE, percent_idle DOUBLE, percent_user DOUBLE,
		percent_system DOUBLE, percent_iowait DOUBLE, percent_steal DOUBLE`),
	"cpu_core_usage": columns(`timestamp TIMESTAMP,
		percent_busy DOUBLE, percent_idle DOUBLE, percent_user DOUBLE,
		percent_system DOUBLE, percent_iowait DOUBLE, percent_steal DOUBLE, cpu BIGINT`),
	"memory_usage": columns(`timestamp TIMESTAMP,
		total BIGINT, used BIGINT, available BIGINT, percent_used DOUBLE, cached BIGINT, swap_used BIGINT`),
	"process_usage": columns(`timestamp TIMESTAMP,
		pid BIGINT, process VARCHAR, exe VARCHAR,
		percent_cpu DOUBLE, rss BIGINT, vsize BIGINT, threads BIGINT, open_files BIGINT,
		minor_faults BIGINT, major_faults BIGINT, read_bytes BIGINT, write_bytes BIGINT,
		voluntary_switches BIGINT, involuntary_switches BIGINT`),
	"thread_usage": columns(`timestamp TIMESTAMP,
		pid BIGINT, tid BIGINT, process VARCHAR, thread_name VARCHAR, exe VARCHAR,
		percent_cpu DOUBLE, state VARCHAR, run_delay DURATION`),
	"disk_usage": columns(`timestamp TIMESTAMP, device VARCHAR,
		reads_per_s DOUBLE, writes_per_s DOUBLE,
		read_bytes_per_s DOUBLE, write_bytes_per_s DOUBLE, percent_busy DOUBLE`),
	"network_usage": columns(`timestamp TIMESTAMP, interface VARCHAR,
		rx_bytes_per_s DOUBLE, tx_bytes_per_s DOUBLE, rx_packets_per_s DOUBLE, tx_packets_per_s DOUBLE,
		rx_errors_per_s DOUBLE, tx_errors_per_s DOUBLE, rx_drops_per_s DOUBLE, tx_drops_per_s DOUBLE`),
	"pressure": columns(`timestamp TIMESTAMP, resource VARCHAR,
		some_avg10 DOUBLE, some_avg60 DOUBLE, some_avg300 DOUBLE,
		full_avg10 DOUBLE, full_avg60 DOUBLE, full_avg300 DOUBLE,
		some_percent DOUBLE, full_percent DOUBLE`),
}

// columns reads a list such as one writes in SQL.
func columns(list string) []types.Field {
	var fs []types.Field
	for _, column := range strings.Split(list, ",") {
		words := strings.Fields(column)
		t, _ := types.ParseType(words[1])
		fs = append(fs, types.Field{Name: words[0], Type: t})
	}
	return fs
}
