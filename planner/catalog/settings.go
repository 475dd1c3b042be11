package catalog

import "endoscope/planner/types"

// Setting is one key of SET.
type Setting struct {
	Name    string
	Type    types.Type
	Default types.Value
	Min     types.Value // IsNull: none
	Max     types.Value
	Doc     string
	Values  []string // of a VARCHAR: the only ones; nil: any
	Later   bool     // known, but not implemented in this version
}

var none = types.NullOf(types.Null)

// Settings lists every setting, in the order in which SHOW prints them.
var Settings = []Setting{
	{Name: "lateness", Type: tD, Default: types.Dur(100e6), Min: types.Dur(0), Max: types.Dur(60e9), Doc: "how long windows wait for events that arrive out of order"},
	{Name: "max_probes", Type: tI, Default: types.Int(10000), Min: types.Int(1), Max: types.Int(1e6), Doc: "maximum number of functions instrumented at a time"},
	{Name: "max_text_copy", Type: tI, Default: types.Int(64 << 20), Min: types.Int(4096), Max: types.Int(1 << 40), Doc: "maximum bytes of code that probes may make the kernel copy, over all processes of a query"},
	{Name: "max_event_rate", Type: tI, Default: types.Int(1e6), Min: types.Int(0), Max: types.Int(1e9), Doc: "maximum function events per second sent to user space by a stream of a query; events above it are lost and counted (0: no limit)"},
	{Name: "max_overhead", Type: tF, Default: types.Float(100), Min: types.Float(0), Max: types.Float(1e6), Doc: "maximum cost of probing more than 100 functions of a program, in percent of the CPUs that it keeps busy (of one at least), estimated from its call rates (0: no limit, and no estimate)"},
	{Name: "max_string", Type: tI, Default: types.Int(200), Min: types.Int(8), Max: types.Int(4096), Doc: "maximum bytes read of a text of a program; longer texts are truncated and counted"},
	{Name: "rate_window", Type: tD, Default: types.Dur(100e6), Min: types.Dur(20e6), Max: types.Dur(60e9), Doc: "interval over which percentages and rates of /proc are computed"},
	{Name: "kernel", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "whether conditions are tested and aggregates computed in the kernel, where possible"},
	{Name: "probe_sites", Type: tS, Default: types.Str("cheapest"), Min: none, Max: none, Values: []string{"cheapest", "entry"}, Doc: "where functions are probed: at the cheapest instruction that each call executes once, or only at the first"},
	{Name: "infer_counts", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "whether functions whose calls follow from those of others are left without a probe, if the query only counts calls"},
	{Name: "return_probes", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "trap", "exits"}, Doc: "how returns are observed: by return traps, by probes at exit instructions, or by traps where they are safe, else exits (auto)"},
	{Name: "probe_links", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "session", "multi", "perf"}, Doc: "how probes are attached: session needs Linux 6.13, multi 6.6, perf 5.15; auto uses the first that the kernel supports"},
	{Name: "sharing", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "whether queries with equal acquisitions share one set of probes"},
	{Name: "placement", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "server", "client"}, Doc: "where filters, projections and aggregates of a query run if a remote client can execute them: at the server, at the client, or where the cost for server and network is lower, which may change during the query (auto)"},
	{Name: "trigger_arming", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "gate", "attach"}, Doc: "how the function probes of a trigger's actions are enabled: attached from the start with a closed gate (gate: enabled at once, but calls have a cost before), attached on activation (attach: about 10 ms), or attached from the start as long as that costs the program at most 2 % of a CPU (auto)"},
	{Name: "webhook_format", Type: tS, Default: types.Str("json"), Min: none, Max: none, Values: []string{"json", "alertmanager"}, Doc: "what the WEBHOOKs of triggers send: the tuple, or an alert in the format of Prometheus' Alertmanager, and its end"},
	{Name: "join_gating", Type: tS, Default: types.Str("exact"), Min: none, Max: none, Values: []string{"exact", "gated"}, Doc: "whether an input of a window join may be acquired only around the other's tuples: only if no pair is lost, or (gated) even if pairs are lost"},
	{Name: "join_plan", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "all", "left", "right"}, Doc: "which input of a window join is acquired all the time: both (all), the left or the right, which then opens the other, or the cheapest (auto)"},
	{Name: "join_memory", Type: tI, Default: types.Int(256 << 20), Min: types.Int(1 << 20), Max: types.Int(1 << 40), Doc: "maximum bytes of rows that a join holds; beyond it the oldest are dropped and counted"},
	{Name: "stack_overhead", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "maximum cost of sampling stacks, in percent of a CPU; if it would be exceeded, samples are taken less often than requested and the footer reports it (0: no limit)"},
	{Name: "stack_bytes", Type: tI, Default: types.Int(8192), Min: types.Int(1024), Max: types.Int(65536), Doc: "bytes of a thread's stack copied for the column stack of calls; larger stacks are truncated and counted"},
	{Name: "handler_min_samples", Type: tI, Default: types.Int(10), Min: types.Int(1), Max: types.Int(1e9), Doc: "event_handlers: minimum samples of a function to classify it by its own; with fewer, its callees' samples are used"},
	{Name: "handler_min_child_samples", Type: tI, Default: types.Int(40), Min: types.Int(1), Max: types.Int(1e9), Doc: "event_handlers: minimum samples of its callees for that"},
	{Name: "handler_min_share", Type: tF, Default: types.Float(0.01), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: minimum percent of its thread's samples for either"},
	{Name: "handler_wait_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples above which it waits for events"},
	{Name: "handler_wait_share", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: minimum percent of its thread's samples that wait in it"},
	{Name: "handler_io_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: like handler_wait_ratio, for functions that read events"},
	{Name: "handler_io_share", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: like handler_wait_share, for functions that read events"},
	{Name: "handler_run_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples above which it works"},
	{Name: "handler_output_ratio", Type: tF, Default: types.Float(75), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples in its own write system calls above which it is not a handler"},
	{Name: "handler_memory", Type: tD, Default: types.Dur(60e9), Min: types.Dur(0), Max: types.Dur(86400e9), Doc: "handler_cost: functions are probed that were event handlers within this time, or up to twice as long ago (0: since the query began)"},
	{Name: "encoder_budget", Type: tI, Default: types.Int(64 << 20), Min: types.Int(64 << 10), Max: types.Int(1 << 40), Doc: "maximum bytes that an encoder holds over all its groups; beyond it the rest is only counted, which the result reports"},
	{Name: "java_stacks", Type: tS, Default: types.Str("off"), Min: none, Max: none, Values: []string{"off", "threaddump", "perfmap"}, Doc: "stacks of Java programs: native stacks of the virtual machine (off), its thread dumps (threaddump), for which it stops for about 0.1 ms each time, or native stacks with the names of compiled methods, which it writes to a map on request (perfmap; JDK 17, -XX:+PreserveFramePointer). It may be signalled once"},
	{Name: "system_modules", Type: tS, Default: types.Str(""), Min: none, Max: none, Doc: "file names of modules, separated by commas, whose functions on stacks count as the system's, in addition to those in system directories; -name: do not"},
}

// FindSetting returns the setting of that name, or nil.
func FindSetting(name string) *Setting {
	for i := range Settings {
		if Settings[i].Name == name {
			return &Settings[i]
		}
	}
	return nil
}
