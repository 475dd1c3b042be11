package catalog

import "endoscope/planner/types"

// Setting is one key of SET.
type Setting struct {
	Name    string
	Type    types.Type
	Default types.Value
	Min     types.Value // NULL: no minimum
	Max     types.Value // NULL: no maximum
	Doc     string
	Values  []string // of a VARCHAR: the only ones; nil: any
	Later   bool     // known, but not implemented in this version
}

var none = types.NullOf(types.Null)

// Settings lists every setting, in the order in which SHOW prints them.
var Settings = []Setting{
	{Name: "lateness", Type: tD, Default: types.Dur(100e6), Min: types.Dur(0), Max: types.Dur(60e9), Doc: "how long windows wait for events that arrive out of order"},
	{Name: "max_probes", Type: tI, Default: types.Int(10000), Min: types.Int(1), Max: types.Int(1e6), Doc: "maximum number of functions instrumented at a time"},
	{Name: "max_text_copy", Type: tI, Default: types.Int(64 << 20), Min: types.Int(4096), Max: types.Int(1 << 40), Doc: "maximum bytes of program code that probes may make the kernel copy, over all processes of a query"},
	{Name: "max_event_rate", Type: tI, Default: types.Int(1e6), Min: types.Int(0), Max: types.Int(1e9), Doc: "maximum function events per second that a stream of a query sends to user space; events above the rate are dropped and counted (0: no limit)"},
	{Name: "max_overhead", Type: tF, Default: types.Float(100), Min: types.Float(0), Max: types.Float(1e6), Doc: "maximum cost of the probes of a query, in percent of the CPU time that the program uses (of at least one CPU): that of more than 100 functions is estimated before they are probed, and a query that exceeds it for two seconds in a row ends with what it has (0: no limit and no estimate)"},
	{Name: "overhead", Type: tF, Default: types.Float(0), Min: types.Float(0), Max: types.Float(99), Doc: "maximum cost of observing calls of functions, in percent of the CPU time that the program uses: queries that aggregate are answered by estimates with intervals, and rows are a sample, as with WITHIN OVERHEAD; what has no meaning so is refused (0: results are exact)"},
	{Name: "overhead_floor", Type: tF, Default: types.Float(0.1), Min: types.Float(0), Max: types.Float(1024), Doc: "number of CPUs that a program is taken to use at least when overhead is measured: an idle program can thereby be observed"},
	{Name: "overhead_drain", Type: tD, Default: types.Dur(5e6), Min: types.Dur(0), Max: types.Dur(1e9), Doc: "how long calls that were seen in a slice within an overhead may take to end; those that take longer are missing, and averages and quantiles of their function have no interval then. Probes stay for as long as such calls are under way, which costs more of the overhead"},
	{Name: "estimates", Type: tS, Default: types.Str("sign"), Min: none, Max: none, Values: []string{"sign", "columns"}, Doc: "how tables show estimates: with their interval in one column, 1.23M ±2% (sign), or with the bounds in columns of their own, as other formats do (columns)"},
	{Name: "recall_memory", Type: tI, Default: types.Int(64 << 20), Min: types.Int(1 << 20), Max: types.Int(1 << 32), Doc: "bytes in which a trigger with RECALL records calls of functions: 128 KiB for each thread, goroutine or coroutine; if there are more of them, the calls of those idle longest are given up"},
	{Name: "max_string", Type: tI, Default: types.Int(200), Min: types.Int(8), Max: types.Int(4096), Doc: "maximum bytes read of a string of a program; longer strings are truncated and counted"},
	{Name: "statement_timeout", Type: tD, Default: types.Dur(0), Min: types.Dur(0), Max: types.Dur(365 * 86400e9), Doc: "how long a statement may take, from its arrival: a query that would go on ends with the rows it has, and the footer says so; one over files fails. An administrator may set a maximum for a user. Triggers are not affected (0: no limit)"},
	{Name: "absent_memory", Type: tS, Default: types.Str("wait"), Min: none, Max: none, Values: []string{"wait", "null"}, Doc: "values of calls in memory that the kernel has to load first: the calling thread waits for it, as it would if it read them itself (wait, Linux 6.9), or they are NULL and counted (null)"},
	{Name: "rate_window", Type: tD, Default: types.Dur(100e6), Min: types.Dur(20e6), Max: types.Dur(60e9), Doc: "period over which percentages and rates of /proc are computed"},
	{Name: "kernel", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "evaluate conditions and aggregates in the kernel where possible"},
	{Name: "probe_sites", Type: tS, Default: types.Str("cheapest"), Min: none, Max: none, Values: []string{"cheapest", "entry"}, Doc: "where functions are probed: at the cheapest instruction that each call executes exactly once (cheapest), or at the first instruction (entry)"},
	{Name: "infer_counts", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "do not probe functions whose number of calls follows from that of other functions, if a query only counts calls"},
	{Name: "return_probes", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "trap", "exits"}, Doc: "how returns are observed: by return traps (trap), by probes at the exits of functions (exits), or by traps where they are safe and otherwise at the exits (auto)"},
	{Name: "probe_links", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "session", "multi", "perf"}, Doc: "how probes are attached: session needs Linux 6.13, multi 6.6, perf 5.15; auto uses the first that the kernel supports"},
	{Name: "follow", Type: tS, Default: types.Str("none"), Min: none, Max: none, Values: []string{"none", "children"}, Doc: "whether the processes that a target's processes start, and those that these start, are observed too (children), or only counted (none); a session that starts a program begins with children"},
	{Name: "sharing", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "queries that acquire the same events share one set of probes; off: each query has its own"},
	{Name: "placement", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "server", "client"}, Doc: "where filters, projections and aggregates are executed if the client is on another machine and supports it: at the server, at the client, or where the cost for server and network is lower, which may change while the query runs (auto)"},
	{Name: "trigger_arming", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "gate", "attach"}, Doc: "how a trigger starts the function probes of its actions: they are attached in advance but disabled (gate: starts at once, but calls have a cost before), attached when the trigger fires (attach: some 10 ms), or attached in advance while that costs the program at most 2 % of a CPU (auto)"},
	{Name: "webhook_format", Type: tS, Default: types.Str("json"), Min: none, Max: none, Values: []string{"json", "alertmanager"}, Doc: "what the WEBHOOKs of triggers send: the tuple (json), or an alert and its end in the format of Prometheus' Alertmanager (alertmanager)"},
	{Name: "join_gating", Type: tS, Default: types.Str("exact"), Min: none, Max: none, Values: []string{"exact", "gated"}, Doc: "whether one input of a window join may be acquired only around the tuples of the other: only if no pair is lost (exact), or also if pairs are lost (gated)"},
	{Name: "join_plan", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "all", "left", "right"}, Doc: "which input of a window join is acquired continuously: both (all), the left or the right one, which then enables the other, or the cheapest choice (auto)"},
	{Name: "join_memory", Type: tI, Default: types.Int(256 << 20), Min: types.Int(1 << 20), Max: types.Int(1 << 40), Doc: "maximum bytes of rows that a join keeps; beyond it the oldest rows are dropped and counted"},
	{Name: "stack_overhead", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "maximum cost of sampling stacks in percent of a CPU; if it would be higher, the sampling rate is reduced, and the footer reports it (0: no limit)"},
	{Name: "stack_bytes", Type: tI, Default: types.Int(8192), Min: types.Int(1024), Max: types.Int(65536), Doc: "bytes of a thread's stack that are copied for the column stack of calls; deeper stacks are truncated and counted"},
	{Name: "handler_min_samples", Type: tI, Default: types.Int(10), Min: types.Int(1), Max: types.Int(1e9), Doc: "event_handlers: minimum samples of a function to classify it; with fewer, the samples of its callees are used"},
	{Name: "handler_min_child_samples", Type: tI, Default: types.Int(40), Min: types.Int(1), Max: types.Int(1e9), Doc: "event_handlers: minimum samples of the callees to use them"},
	{Name: "handler_min_share", Type: tF, Default: types.Float(0.01), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: minimum percent of the thread's samples, for the function and for its callees"},
	{Name: "handler_wait_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples above which the function is said to wait for events"},
	{Name: "handler_wait_share", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: minimum percent of the thread's samples that are such waits"},
	{Name: "handler_io_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: like handler_wait_ratio, for functions that read events"},
	{Name: "handler_io_share", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: like handler_wait_share, for functions that read events"},
	{Name: "handler_run_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples above which the function is said to compute"},
	{Name: "handler_output_ratio", Type: tF, Default: types.Float(75), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples in its own writing system calls above which it is not a handler"},
	{Name: "handler_memory", Type: tD, Default: types.Dur(60e9), Min: types.Dur(0), Max: types.Dur(86400e9), Doc: "handler_cost: probe the functions that were event handlers within this period, at most twice as long ago (0: since the query began)"},
	{Name: "encoder_budget", Type: tI, Default: types.Int(64 << 20), Min: types.Int(64 << 10), Max: types.Int(1 << 40), Doc: "maximum bytes that an encoder uses over all its groups; beyond it the existing content stays, further input is only counted, and the result reports it"},
	{Name: "java_stacks", Type: tS, Default: types.Str("off"), Min: none, Max: none, Values: []string{"off", "threaddump", "perfmap"}, Doc: "stacks of Java programs: native frames of the virtual machine (off); thread dumps by the virtual machine, which stops it for some 0.1 ms each time (threaddump); or native stacks with the names of compiled methods from a perf map (perfmap; JDK 17, -XX:+PreserveFramePointer). The virtual machine may be signalled once"},
	{Name: "python_entries", Type: tS, Default: types.Str("free"), Min: none, Max: none, Values: []string{"free", "lines"}, Doc: "how entries of functions of Python are observed: only where the interpreter reports them at no other cost (free: CPython 3.9 and 3.10), or also where it has to trace lines for it (lines: CPython 3.11), which makes the Python code of the process some ten times slower while the query runs"},
	{Name: "debug_directory", Type: tS, Default: types.Str(""), Min: none, Max: none, Doc: "colon-separated directories of debug files, which are searched by build-id and by path before /usr/lib/debug"},
	{Name: "debuginfod", Type: tS, Default: types.Str("off"), Min: none, Max: none, Doc: "debuginfod servers from which debug files that are not found are fetched by build-id: none (off), those of the engine's environment variable DEBUGINFOD_URLS (on), or URLs separated by spaces"},
	{Name: "system_modules", Type: tS, Default: types.Str(""), Min: none, Max: none, Doc: "comma-separated file names of modules whose functions count as system functions on stacks, in addition to those in system directories; -name excludes a module"},
}

// FindSetting returns the setting with that name, or nil.
func FindSetting(name string) *Setting {
	for i := range Settings {
		if Settings[i].Name == name {
			return &Settings[i]
		}
	}
	return nil
}
