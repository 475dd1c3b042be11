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
	{Name: "max_probes", Type: tI, Default: types.Int(10000), Min: types.Int(1), Max: types.Int(1e6), Doc: "most functions that may be instrumented at a time"},
	{Name: "max_text_copy", Type: tI, Default: types.Int(64 << 20), Min: types.Int(4096), Max: types.Int(1 << 40), Doc: "bytes of code that probes may make the kernel copy, over all processes of a query"},
	{Name: "max_event_rate", Type: tI, Default: types.Int(1e6), Min: types.Int(0), Max: types.Int(1e9), Doc: "function events per second that a stream of a query may bring to user space; what is above it is lost and counted (0: no limit)"},
	{Name: "max_overhead", Type: tF, Default: types.Float(100), Min: types.Float(0), Max: types.Float(1e6), Doc: "percent of the CPUs that a program keeps busy (of one at least) that probing more than 100 functions may cost it, as estimated from the rates of calls (0: no limit, and no estimate)"},
	{Name: "max_string", Type: tI, Default: types.Int(200), Min: types.Int(8), Max: types.Int(4096), Doc: "bytes of a text of a program that are read; what is longer is cut off, and counted"},
	{Name: "rate_window", Type: tD, Default: types.Dur(100e6), Min: types.Dur(20e6), Max: types.Dur(60e9), Doc: "time over which percentages and rates of /proc are taken"},
	{Name: "kernel", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "conditions are tested and aggregates computed in the kernel, where it can do that"},
	{Name: "probe_sites", Type: tS, Default: types.Str("cheapest"), Min: none, Max: none, Values: []string{"cheapest", "entry"}, Doc: "where functions are probed: at the cheapest instruction that each call executes once, or at the first alone"},
	{Name: "infer_counts", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "functions whose calls follow from those of others need no probe, where only numbers of calls are asked"},
	{Name: "return_probes", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "trap", "exits"}, Doc: "how returns are observed: by return traps, by probes where functions leave, or by traps where they are safe and else by exits"},
	{Name: "probe_links", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "session", "multi", "perf"}, Doc: "how probes are attached: session needs Linux 6.13, multi 6.6, perf 5.15; auto takes the first that the kernel has"},
	{Name: "sharing", Type: tS, Default: types.Str("on"), Min: none, Max: none, Values: []string{"on", "off"}, Doc: "queries that acquire the same share one set of probes, or have each its own"},
	{Name: "placement", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "server", "client"}, Doc: "where filters, projections and aggregates of a query are executed whose client is elsewhere and can do that: at the server, at the client, or where it costs the server and the network less, which may change while it runs (auto)"},
	{Name: "trigger_arming", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "gate", "attach"}, Doc: "how what a trigger turns on of functions comes on: its probes are attached from the start and shut (gate: at once, but calls cost something before), are attached then (attach: some 10 ms), or are attached from the start as long as that costs the program at most 2 % of a CPU (auto)"},
	{Name: "webhook_format", Type: tS, Default: types.Str("json"), Min: none, Max: none, Values: []string{"json", "alertmanager"}, Doc: "what the WEBHOOKs of triggers send: the tuple, or an alert as Prometheus' Alertmanager takes it, and its end"},
	{Name: "join_gating", Type: tS, Default: types.Str("exact"), Min: none, Max: none, Values: []string{"exact", "gated"}, Doc: "whether an input of a window join may be acquired only around the other's tuples: where no pair is lost by it, or (gated) also where pairs are"},
	{Name: "join_plan", Type: tS, Default: types.Str("auto"), Min: none, Max: none, Values: []string{"auto", "all", "left", "right"}, Doc: "which input of a window join is acquired all the time: both (all), the left or the right, which then opens the other, or what costs least (auto)"},
	{Name: "join_memory", Type: tI, Default: types.Int(256 << 20), Min: types.Int(1 << 20), Max: types.Int(1 << 40), Doc: "bytes of rows that a join may hold; beyond it the oldest are forgotten, and counted"},
	{Name: "stack_overhead", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "percent of a CPU that sampling stacks may cost; where it would cost more, samples are taken less often than asked, which the footer says (0: no limit)"},
	{Name: "stack_bytes", Type: tI, Default: types.Int(8192), Min: types.Int(1024), Max: types.Int(65536), Doc: "how much of a thread's stack is copied for the column stack of calls; stacks that are larger end in the middle, and are counted"},
	{Name: "handler_min_samples", Type: tI, Default: types.Int(10), Min: types.Int(1), Max: types.Int(1e9), Doc: "event_handlers: samples of a function by which it is judged; with fewer, by those of what it calls"},
	{Name: "handler_min_child_samples", Type: tI, Default: types.Int(40), Min: types.Int(1), Max: types.Int(1e9), Doc: "event_handlers: how many it takes of what it calls"},
	{Name: "handler_min_share", Type: tF, Default: types.Float(0.01), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of its thread's samples that either must be"},
	{Name: "handler_wait_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples above which it waits for events"},
	{Name: "handler_wait_share", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of its thread's samples that those must be"},
	{Name: "handler_io_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: as handler_wait_ratio, of functions that read events"},
	{Name: "handler_io_share", Type: tF, Default: types.Float(1), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: as handler_wait_share, of functions that read events"},
	{Name: "handler_run_ratio", Type: tF, Default: types.Float(60), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples above which it works"},
	{Name: "handler_output_ratio", Type: tF, Default: types.Float(75), Min: types.Float(0), Max: types.Float(100), Doc: "event_handlers: percent of a function's samples in system calls of its own that write, above which it handles nothing"},
	{Name: "handler_memory", Type: tD, Default: types.Dur(60e9), Min: types.Dur(0), Max: types.Dur(86400e9), Doc: "handler_cost: functions are probed that were event handlers in this time, or up to twice as long ago (0: since the query began)"},
	{Name: "encoder_budget", Type: tI, Default: types.Int(64 << 20), Min: types.Int(64 << 10), Max: types.Int(1 << 40), Doc: "bytes that an encoder may hold over all its groups; beyond it what it has stays and the rest is counted, which the result says"},
	{Name: "java_stacks", Type: tS, Default: types.Str("off"), Min: none, Max: none, Values: []string{"off", "threaddump", "perfmap"}, Doc: "stacks of Java programs: those of the virtual machine that runs them (off), what it says when it is asked (threaddump), for which it halts for some 0.1 ms each time, or those with the names of compiled methods, which it writes down when it is asked (perfmap; JDK 17, -XX:+PreserveFramePointer). It may be signalled once"},
	{Name: "system_modules", Type: tS, Default: types.Str(""), Min: none, Max: none, Doc: "file names of modules, separated by commas, whose functions are the system's on stacks, beyond those that are so by where they lie; -name: are not"},
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
