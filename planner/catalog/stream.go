package catalog

import (
	"slices"

	"endoscope/planner/types"
)

// Enumerability is the paper's classification of streams (EndoScope, section
// 4.2.1).
type Enumerability uint8

// Enumerable streams have tuples at points in time and can be read as they
// are. NonEnumerable ones have a value at every instant: they need SAMPLE or a
// join. Snapshot streams are non-enumerable too, but used bare they give what
// there is now, once.
const (
	Enumerable Enumerability = iota
	NonEnumerable
	Snapshot
)

// String is how SHOW STREAMS prints it.
func (e Enumerability) String() string {
	return [...]string{"enumerable", "non-enumerable", "snapshot"}[e]
}

// Column of a stream.
type Column struct {
	Name string
	Type types.Type
	Unit string // ns, bytes, %, 1/s; "" where it has none
	Doc  string
}

// Stream describes one stream.
type Stream struct {
	Name    string
	Kind    Enumerability
	Doc     string // one line
	How     string // how it is acquired
	Cost    string // what it costs whom
	Needs   string // kernel, capability, debug information
	Columns []Column
	// Asked are columns, too, of those statements that name them: in others * does
	// not mean them.
	Asked []Column
	// Process says that it is about processes: it takes a target.
	Process bool
	// Everywhere says that it needs none: without one it is about the whole
	// machine, and a target that a query's own conditions name does not do away
	// with them, since the stream may tell of more than them.
	Everywhere bool
	// Functions says that predicates on function_name, class and module choose
	// what is instrumented.
	Functions bool
	// Sampled says that an enumerable stream has values at every instant, too, which
	// SAMPLE gives.
	Sampled bool
	// Later is set for streams whose acquisition this version does not have.
	Later bool
}

// All are all columns, those last that must be asked for.
func (s *Stream) All() []Column { return slices.Concat(s.Columns, s.Asked) }

// Column returns the column of that name.
func (s *Stream) Column(name string) (Column, bool) {
	for _, c := range s.All() {
		if c.Name == name {
			return c, true
		}
	}
	return Column{}, false
}

const (
	tB = types.Boolean
	tI = types.Bigint
	tF = types.Double
	tS = types.Varchar
	tT = types.Timestamp
	tD = types.Duration
	tL = types.List
)

// columns joins groups of columns.
func columns(groups ...[]Column) []Column {
	var out []Column
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}

var (
	stamp = []Column{{"timestamp", tT, "", "when it happened, by the boot clock"}}
	who   = []Column{
		{"pid", tI, "", "process"},
		{"tid", tI, "", "thread"},
		{"process", tS, "", "name of the process: its leader's comm"},
		{"thread_name", tS, "", "name of the thread"},
		{"exe", tS, "", "path of the executable"},
	}
	function = []Column{
		{"function_name", tS, "", "demangled name; of a place that the program's author has marked (USDT) usdt:provider:name"},
		{"class", tS, "", "C++ class or namespace, Go receiver, Rust type; '' if none"},
		{"module", tS, "", "file name of the executable or library"},
	}
	rawArgs = []Column{
		{"arg0", tI, "", "first integer or pointer argument, raw"},
		{"arg1", tI, "", "second argument"},
		{"arg2", tI, "", "third argument"},
		{"arg3", tI, "", "fourth argument"},
		{"arg4", tI, "", "fifth argument"},
		{"arg5", tI, "", "sixth argument"},
	}
	contained = []Column{{"container", tS, "", "control group of the process: the path in the hierarchy of cgroup v2, or else the longest in one of v1; / is no container; NULL if the process had ended when it was looked at first"}}
	parent    = []Column{{"parent_pid", tI, "", "the process' parent"}}
	maker     = Column{"parent_tid", tI, "", "the thread that made it"}
	argv      = Column{"argv", tL, "", "arguments of the program, its name first; until a new process executes one, its parent's"}
	ending    = []Column{
		{"exit_code", tI, "", "with what it ended; NULL if a signal ended it"},
		{"signal", tS, "", "the signal that ended it; NULL if none did"},
		{"duration", tD, "ns", "how long it lived"},
	}
	depth = []Column{{"depth", tI, "", "monitored calls that enclose this one on its thread; 0: outermost"}}
	// objects are columns that cost the target more, or say nothing of most programs.
	objects = []Column{
		{Name: "receiver", Type: tI, Doc: "address of the object whose method is called: C++ this, a Go pointer receiver. Of functions in namespaces and static methods it is what they are given first: names do not tell them from methods"},
		{Name: "receiver_class", Type: tS, Doc: "class of that object. C++: by its virtual table and run-time type information, at the entry, that of constructors and destructors being their own; NULL if it has no virtual functions. Go: the receiver's type"},
		{Name: "receiver_lineage", Type: tS, Doc: "what receiver_class derives from: 'Circle < Round < Shape', chains by '; '"},
		{Name: "class_lineage", Type: tS, Doc: "what class derives from; NULL if there is no run-time type information of it"},
		{Name: "lookup_distance", Type: tI, Doc: "steps from receiver_class up to class, which has the method; 0: its own"},
		{Name: "method_size", Type: tI, Unit: "bytes", Doc: "size of the function's code; NULL if not known"},
		{Name: "is_native", Type: tB, Doc: "of a Go program: assembler or C; FALSE in others, which have no language of their own"},
	}
)

// self is a column for which all functions of a query must be followed.
var self = []Column{
	{Name: "self_time", Type: tD, Unit: "ns", Doc: "duration less that of the calls it made, on its thread or goroutine, of functions that the query monitors, whether or not they are rows; calls that did not return are part of it, but for what they called"},
}

// whence are columns of where calls come from.
var whence = []Column{
	{Name: "caller", Type: tS, Doc: "function that the call returns to; NULL if that has no name"},
	{Name: "stack", Type: tL, Doc: "the call's stack, itself first: [function, module, 'user' or 'system'], as of stack_sample; see format_stack, folded_stack, frame, and SET stack_bytes"},
}

// whenceOfEvents are these of a sequence.
var whenceOfEvents = []Column{
	{Name: "caller", Type: tS, Doc: "function that the event's call returns to; NULL if that has no name, and of a GAP"},
	{Name: "stack", Type: tL, Doc: "of an ENTER and a LEAVE the call's stack, itself first, as of stack_sample; NULL of others; see format_stack, folded_stack, frame, and SET stack_bytes"},
}

// costs are columns of what calls use.
var costs = []Column{
	{Name: "cpu_time", Type: tD, Unit: "ns", Doc: "CPU time of the thread from entry to return; NULL where the call returned on another thread. Of a goroutine that waited meanwhile it is what its thread did"},
	{Name: "read_bytes", Type: tI, Unit: "bytes", Doc: "what the thread read meanwhile by read(2) and its like (as /proc/PID/io: rchar)"},
	{Name: "written_bytes", Type: tI, Unit: "bytes", Doc: "what it wrote by write(2) and its like (wchar)"},
}

const (
	uprobeHow    = "eBPF uprobes on the functions that the query names"
	allocatorHow = "eBPF uprobes on malloc, calloc, realloc, free and their like in all modules of the target: the C library's, jemalloc's, tcmalloc's, with the operators new and delete of these; Go's mallocgc"
	returnHow    = ", with return traps where those are safe, else exit probes"
	uprobeNeeds  = "Linux 6.6 with BTF; CAP_BPF and CAP_PERFMON (root)"
	procNeeds    = "nothing"
	schedHow     = "eBPF at the tracepoint "
	schedCost    = "1 µs for each that comes or goes"
	schedNeeds   = "Linux 5.15 with BTF; CAP_BPF and CAP_PERFMON (root); exe at ends: Linux 6.16"
)

// Streams lists every built-in stream, in the order in which SHOW prints them.
var Streams = []*Stream{
	{Name: "function_start", Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each call of a function, at its start",
		How: uprobeHow, Cost: "0.5 µs a call; 18 µs where the entry instruction must be single-stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, rawArgs, depth), Asked: slices.Concat(contained, objects, whence)},
	{Name: "function_end", Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each call of a function, at its return",
		How: uprobeHow + returnHow, Cost: "0.8 µs a call, 1.0 µs with exit probes; 18 µs where stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, []Column{{"retval", tI, "", "what the function returns, of the type that debug information says (retval.NAME is a field); BIGINT, the register as it is, where nothing is known or functions differ; NULL where a tail call ends the call"}}, depth), Asked: slices.Concat(contained, objects, whence)},
	{Name: "function_duration", Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each finished call of a function, with its duration; timestamp is the end",
		How: uprobeHow + returnHow, Cost: "0.9 µs a call, 1.0 µs with exit probes; 18 µs where stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, []Column{
			{"start_time", tT, "", "when the call began"},
			{"duration", tD, "ns", "time from entry to return"},
		}, rawArgs, []Column{{"retval", tI, "", "what the function returns, of the type that debug information says (retval.NAME is a field); BIGINT, the register as it is, where nothing is known or functions differ; NULL where a tail call ends the call"}}, depth), Asked: slices.Concat(contained, self, objects, costs, whence)},
	{Name: "function_call", Kind: Enumerable, Process: true, Functions: true,
		Doc: "entries and returns of functions, in order for each thread, in Go for each goroutine; process, tid and thread_name of all events of a call are those at its entry",
		How: uprobeHow + ", with return traps where those are safe, else at the instructions by which functions leave", Cost: "0.9 µs a call, 2 µs at exits; 18 µs more where stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, who, []Column{
			{"event", tS, "", "ENTER; LEAVE: returned, or went on by a tail call; UNWIND: left without returning (longjmp, exception, panic, exec, end of the thread or goroutine), innermost first, told as soon as it shows; GAP: events of the thread or goroutine are missing here; it comes whatever functions are chosen, with function_name NULL and the depth of the next event"},
		}, function, depth, []Column{
			{"goroutine", tI, "", "of calls of Go: the number of the goroutine, which may go on on another thread; where the program was stripped of its debug information, the address by which its runtime knows it; NULL: the sequence is the thread's"},
		}), Asked: slices.Concat(contained, objects, whenceOfEvents)},

	{Name: "allocation", Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each allocation of memory, at the return of the allocator's outermost function; a realloc that succeeds is one, and a deallocation before it",
		How: allocatorHow + returnHow, Cost: "0.9 µs a call; 18 µs where exits are stepped: Go's, operators new of jemalloc and tcmalloc", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, []Column{
			{"address", tI, "", "of the memory"},
			{"size", tI, "bytes", "what was asked for"},
		}), Asked: whence},
	{Name: "deallocation", Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each release of memory by a call, timestamp being its beginning, from which on others may be given the memory",
		How: allocatorHow + returnHow, Cost: "0.9 µs a call", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, []Column{
			{"address", tI, "", "of the memory"},
			{"size", tI, "bytes", "what the call says; NULL where it does not, as most do"},
		}), Asked: whence},

	{Name: "process_start", Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each process that is made (fork); with a target, its own and those of their descendants",
		How: schedHow + "sched_process_fork", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, []Column{maker, argv})},
	{Name: "process_exec", Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each program that is executed; with a target, by it and its descendants",
		How: schedHow + "sched_process_exec", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, []Column{argv})},
	{Name: "process_end", Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each process that ends, with its last thread; with a target, its own and those of their descendants",
		How: schedHow + "sched_process_exit", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, ending)},
	{Name: "thread_start", Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each thread that is made, the first of a process included",
		How: schedHow + "sched_process_fork", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, []Column{maker})},
	{Name: "thread_end", Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each thread that ends, the last of a process included; one that executes a program goes on under the number of its process' first",
		How: schedHow + "sched_process_exit", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, ending)},

	{Name: "cpu_usage", Kind: NonEnumerable, Doc: "load of all CPUs together",
		How: "/proc/stat", Cost: "2 µs a sample", Needs: procNeeds,
		Columns: columns(stamp, cpuColumns)},
	{Name: "cpu_core_usage", Kind: NonEnumerable, Doc: "load of each CPU",
		How: "/proc/stat", Cost: "2 µs a sample", Needs: procNeeds,
		Columns: columns(stamp, cpuColumns, []Column{{"cpu", tI, "", "number of the CPU"}})},
	{Name: "memory_usage", Kind: NonEnumerable, Doc: "memory of the machine",
		How: "/proc/meminfo", Cost: "4 µs a sample", Needs: procNeeds,
		Columns: columns(stamp, []Column{
			{"total", tI, "bytes", "usable memory"},
			{"used", tI, "bytes", "total less available"},
			{"available", tI, "bytes", "what programs can have without swapping"},
			{"percent_used", tF, "%", "used of total"},
			{"cached", tI, "bytes", "page cache"},
			{"swap_used", tI, "bytes", "swap in use"},
		})},
	{Name: "process_usage", Kind: NonEnumerable, Process: true, Doc: "CPU, memory, files and I/O of each process of the target",
		How: "/proc/PID", Cost: "3 to 20 µs a process and sample, by the columns asked for", Needs: "the target's user, or CAP_SYS_PTRACE, for read_bytes, write_bytes and open_files",
		Columns: columns(stamp, []Column{who[0], who[2], who[4]}, []Column{
			{"percent_cpu", tF, "%", "CPU time; 100 is one CPU"},
			{"rss", tI, "bytes", "resident memory"},
			{"vsize", tI, "bytes", "address space"},
			{"threads", tI, "", "number of threads"},
			{"open_files", tI, "", "number of file descriptors"},
			{"minor_faults", tI, "", "page faults without I/O, since the start"},
			{"major_faults", tI, "", "page faults with I/O, since the start"},
			{"read_bytes", tI, "bytes", "read from storage, since the start"},
			{"write_bytes", tI, "bytes", "written to storage, since the start"},
			{"voluntary_switches", tI, "", "context switches while waiting, since the start"},
			{"involuntary_switches", tI, "", "context switches by preemption, since the start"},
		})},
	{Name: "thread_usage", Kind: NonEnumerable, Process: true, Doc: "CPU and state of each thread of the target",
		How: "/proc/PID/task", Cost: "3 µs a thread and sample", Needs: procNeeds,
		Columns: columns(stamp, who, []Column{
			{"percent_cpu", tF, "%", "CPU time; 100 is one CPU"},
			{"state", tS, "", "R running, S sleeping, D waiting for I/O, T stopped, Z ended"},
			{"run_delay", tD, "ns", "time spent runnable without a CPU, since the start"},
		})},
	{Name: "stack_sample", Kind: NonEnumerable, Process: true, Doc: "stack and state of each thread of the target, running or not; no thread is stopped",
		How: "eBPF: an iterator over threads, and an interrupt on each CPU; unwound by .eh_frame, Go's tables and frame pointers", Cost: "0.5 µs a thread that has not run since the sample before, else about 10; 50 µs a CPU",
		Needs: "Linux 6.1 with BTF; CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE (root)",
		Columns: columns(stamp, who, []Column{
			{"state", tS, "", "RUN; WAIT: for something to happen; IO; BLOCKED: on a lock, or stopped"},
			{"syscall", tS, "", "name of the system call that the thread is in; NULL in user mode"},
			{"stack", tL, "", "frames, leaf first: [function, module, 'user' or 'system']; see format_stack, folded_stack, frame"},
			{"complete", tB, "", "whether the stack reaches the thread's first function"},
			{"goroutine", tI, "", "number of a Go goroutine that waits, or waits for a thread: its row has no tid; NULL for threads"},
		})},
	{Name: "event_handlers", Kind: NonEnumerable, Process: true, Doc: "functions that handle events, found in stack samples; SAMPLE's interval is how often the samples so far are analysed",
		How: "stack_sample, 100 times a second", Cost: "that of stack_sample", Needs: "Linux 6.1 with BTF; CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE (root)",
		Columns: columns(stamp, []Column{
			{"handler", tS, "", "function"},
			{"module", tS, "", "file name of the executable or library"},
			{"kind", tS, "", "EVENT: called by a loop between waiting or reading; CALLBACK: called by a library"},
			{"node_type", tS, "", "of an EVENT, what brings its events: NODE_WAIT or NODE_IO"},
			{"samples", tI, "", "samples of threads in it"},
			{"confidence", tF, "", "lower end of the 95 % interval of the share of those that run (EVENT), or that have it (CALLBACK)"},
		})},
	{Name: "handler_cost", Kind: Enumerable, Process: true, Doc: "a tuple for each finished call of a function that is found to handle events, while it is; timestamp is the end",
		How: "event_handlers, and eBPF uprobes on what it finds, which come and go with that; C, C++, Rust and Go", Cost: "that of event_handlers, and of function_duration", Needs: uprobeNeeds,
		Columns: columns(stamp, who, []Column{
			{"handler", tS, "", "function"},
			{"module", tS, "", "file name of the executable or library"},
			{"start_time", tT, "", "when the call began"},
			{"duration", tD, "ns", "time from entry to return"},
		}, costs)},
	{Name: "disk_usage", Kind: NonEnumerable, Doc: "traffic of each block device",
		How: "/proc/diskstats", Cost: "3 µs a sample", Needs: procNeeds,
		Columns: columns(stamp, []Column{
			{"device", tS, "", "name of the device"},
			{"reads_per_s", tF, "1/s", "reads finished"},
			{"writes_per_s", tF, "1/s", "writes finished"},
			{"read_bytes_per_s", tF, "bytes/s", "read"},
			{"write_bytes_per_s", tF, "bytes/s", "written"},
			{"percent_busy", tF, "%", "time with a request under way"},
		})},
	{Name: "network_usage", Kind: NonEnumerable, Doc: "traffic of each network interface",
		How: "/proc/net/dev", Cost: "3 µs a sample", Needs: procNeeds,
		Columns: columns(stamp, []Column{
			{"interface", tS, "", "name of the interface"},
			{"rx_bytes_per_s", tF, "bytes/s", "received"},
			{"tx_bytes_per_s", tF, "bytes/s", "sent"},
			{"rx_packets_per_s", tF, "1/s", "packets received"},
			{"tx_packets_per_s", tF, "1/s", "packets sent"},
			{"rx_errors_per_s", tF, "1/s", "receive errors"},
			{"tx_errors_per_s", tF, "1/s", "transmit errors"},
			{"rx_drops_per_s", tF, "1/s", "dropped on receipt"},
			{"tx_drops_per_s", tF, "1/s", "dropped on sending"},
		})},
	{Name: "pressure", Kind: NonEnumerable, Doc: "time that work waited for CPU, memory and I/O",
		How: "/proc/pressure", Cost: "5 µs a sample", Needs: "a kernel with CONFIG_PSI",
		Columns: columns(stamp, []Column{
			{"resource", tS, "", "cpu, memory or io"},
			{"some_avg10", tF, "%", "time with some task waiting, over 10 s"},
			{"some_avg60", tF, "%", "over 60 s"},
			{"some_avg300", tF, "%", "over 300 s"},
			{"full_avg10", tF, "%", "time with all tasks waiting, over 10 s"},
			{"full_avg60", tF, "%", "over 60 s"},
			{"full_avg300", tF, "%", "over 300 s"},
			{"some_percent", tF, "%", "time with some task waiting, over the rate window"},
			{"full_percent", tF, "%", "time with all tasks waiting, over the rate window"},
		})},

	{Name: "sys.queries", Kind: Snapshot, Doc: "the queries that are running", How: "engine", Cost: "none", Needs: procNeeds,
		Columns: columns(stamp, []Column{
			{"query_id", tI, "", "what STOP takes"},
			{"state", tS, "", "preparing, running, ending"},
			{"statement", tS, "", "its text"},
			{"started", tT, "", "when it was armed"},
			{"rows", tI, "", "rows given so far"},
			{"acquired", tI, "", "rows acquired so far: tuples, and states of groups that the kernel aggregates"},
			{"lost", tI, "", "events lost so far"},
			{"shares_with", tS, "", "queries with which it shares what it acquires"},
		})},
	{Name: "sys.probes", Kind: Snapshot, Doc: "what is attached now, and to what", How: "engine", Cost: "none", Needs: procNeeds,
		Columns: columns(stamp, []Column{
			{"provider", tS, "", "uprobe, procfs, ..."},
			{"function_name", tS, "", "function, or the file that is read"},
			{"module", tS, "", "file name of the executable or library"},
			{"address", tI, "", "file offset of the probed instruction"},
			{"method", tS, "", "emulated, stepped, nop, procfs, replay"},
			{"kind", tS, "", "entry or entry+return, and the kind of link"},
			{"cost", tF, "ns", "estimated cost of an event"},
			{"queries", tI, "", "queries that use it"},
			{"hits", tI, "", "events so far"},
			{"query_ids", tS, "", "which: those in brackets share one probe, others have their own at the site"},
		})},
	{Name: "sys.drops", Kind: Snapshot, Doc: "events lost, by query and cause", How: "engine", Cost: "none", Needs: procNeeds,
		Columns: columns(stamp, []Column{
			{"query_id", tI, "", "query"},
			{"cause", tS, "", "why"},
			{"n", tI, "", "how many events"},
			{"loss", tB, "", "false: counted, but no event of the result is missing"},
		})},
	{Name: "sys.operators", Kind: Snapshot, Doc: "the operators of running queries", How: "engine", Cost: "none", Needs: procNeeds,
		Columns: columns(stamp, []Column{
			{"query_id", tI, "", "query"},
			{"operator", tS, "", "what it does"},
			{"site", tS, "", "where it runs"},
			{"rows_in", tI, "", "rows that came"},
			{"rows_out", tI, "", "rows that went"},
			{"time", tD, "ns", "time spent in it"},
		})},

	{Name: "sys.triggers", Kind: Snapshot, Doc: "the triggers there are", How: "engine", Cost: "none", Needs: procNeeds,
		Columns: columns(stamp, []Column{
			{"trigger", tS, "", "its name, which is a stream, too"},
			{"mode", tS, "", "continuous or once"},
			{"state", tS, "", "waiting; acting: something that it turned on is acquired or under way; ending; ended: its target is gone"},
			{"activations", tI, "", "tuples that satisfied its condition so far"},
			{"skipped", tI, "", "of these, for how many a query was not run again, as it was still running, or what is monitored had ended"},
			{"rows", tI, "", "rows of its stream so far"},
			{"lost", tI, "", "events lost so far, of its tuples and of what it acquires, and webhooks not delivered"},
			{"arming", tS, "", "at once: what it turns on stands by with its probes attached; or why they are attached only then; NULL if it turns on nothing"},
			{"latency", tD, "ns", "longest time from a tuple until what it turned on was armed"},
			{"error", tS, "", "what went wrong last; NULL if nothing did"},
			{"statement", tS, "", "its text"},
		})},

	{Name: "variable_value", Kind: Enumerable, Sampled: true, Process: true, Doc: "a tuple for each write to a variable, or its value at each sample",
		How:   "hardware watchpoints on every thread; of a function's variables, uprobes where the lines begin at which they live (AND function_name = '...'); sampled: the process' memory is read",
		Cost:  "a trap for each write, or for each line of a function: 1 to 2 us, on a virtual machine up to 18; samples cost the program nothing",
		Needs: "Linux 5.15 with BTF, CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE; debug information (-g) for anything but plain numbers; of a function's variables Linux 6.10",
		Columns: columns(stamp, who, []Column{
			{"var_name", tS, "", "as it is asked for: a global, a static one (function::name, namespace::name), or a part of it (.field, [0]; in samples ->field too); at most four are watched, of up to 8 bytes, and writes by the kernel are not seen. With function_name = '...': a parameter or variable of it, or what it leads to (a.b, a->b), told when a call is first seen with it and when a line finds it changed"},
			{"var_value", tI, "", "a whole number, pointer, boolean, or the number of an enumeration's value; else NULL"},
			{"var_real", tF, "", "a real number, or what is nearest to a whole one"},
			{"var_text", tS, "", "the value as its language writes it; a text of 256 bytes at most"},
			{"function_name", tS, "", "the function that wrote, or whose variable it is; NULL in samples"},
			{"line", tI, "", "of a function's variable: the line before which it was found to have the value; else NULL"},
			{"module", tS, "", "file name of the executable or library that has the variable; the executable if the query names none"},
		})},
	{Name: "entity_events", Kind: Enumerable, Process: true,
		Doc:  "lives of types, objects, threads and invocations of native programs; those that are there when it begins are told first. See CONSISTENT",
		How:  "threads: eBPF at sched tracepoints and task_rename, and /proc; types: run-time type information of the modules, when the program begins and whenever the dynamic linker changes what is mapped; objects: calls of C++ constructors and destructors; invocations: calls of the executable's functions (function_call). Which of them: by conditions on category. Of Java: methods and their classes where the machine has -XX:+ExtendedDTraceProbes, but no objects, whose addresses it does not tell",
		Cost: "1 µs for each thread that comes, goes or is renamed; 0.9 µs for each call, 2 µs at exits, 18 µs more where stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, acting, []Column{
			{"category", tS, "", "TYPE, OBJECT, THREAD, INVOCATION"},
			{"event", tS, "", "CREATE, LOAD (of a type), RENAME (of a thread), RECLAIM, ENTER and LEAVE (of an invocation); UNKNOWN: it has ended, or nobody knows, since events were lost"},
		}, event)},
	{Name: "activity_events", Kind: Enumerable, Process: true,
		Doc: "what the threads of native programs do to mutexes, rwlocks and condition variables: waits are those for a lock that another thread has",
		How: "eBPF uprobes on the functions of libc, which C++'s call, too. Of Java: waits for monitors, as the machine (-XX:+ExtendedDTraceProbes) tells them; who has one that somebody waits for is read in its memory", Cost: "1.6 µs for each lock that is taken and released", Needs: uprobeNeeds,
		Columns: columns(stamp, acting, []Column{
			{"category", tS, "", "NULL"},
			{"event", tS, "", "ACQUIRE, RELEASE, BEGIN_WAIT, END_WAIT; UNKNOWN: what the thread does to the lock is not known any more, since it has ended, or events were lost"},
		}, event)},
}

// Columns of the streams of entities, before and behind what happened.
var (
	acting = []Column{
		{"pid", tI, "", "process"},
		{"tid", tI, "", "thread on which it happened; NULL: it was there when monitoring began"},
		{"process", tS, "", "name of the process: its leader's comm"},
		{"thread_name", tS, "", "name of that thread"},
		{"exe", tS, "", "path of the executable"},
	}
	event = []Column{
		{"entity_id", tS, "", "which entity, or lock: never used again"},
		{"name", tS, "", "of a type, thread or function; mutex, rwlock or condition"},
		{"type_name", tS, "", "of an object; class of a function"},
		{"parent_id", tS, "", "a type's first base; what made a thread; the invocation around one"},
		{"other_id", tS, "", "a type's second base; the object that is called; the thread that has the lock that is waited for"},
		{"thread_id", tS, "", "the thread on which it happened, as entity_id has it"},
		{"began", tT, "", "when an entity began that is created or entered; NULL of an invocation that was under way when it was first seen"},
	}
)

var cpuColumns = []Column{
	{"percent_busy", tF, "%", "100 less idle and iowait"},
	{"percent_idle", tF, "%", "idle"},
	{"percent_user", tF, "%", "user mode, nice included"},
	{"percent_system", tF, "%", "kernel mode, interrupts included"},
	{"percent_iowait", tF, "%", "idle while I/O was under way"},
	{"percent_steal", tF, "%", "taken by the hypervisor"},
}

// Find returns the built-in stream of that name, or nil.
func Find(name string) *Stream {
	for _, s := range Streams {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Having lists the streams that have a column of that name.
func Having(column string) (names []string) {
	for _, s := range Streams {
		if _, ok := s.Column(column); ok {
			names = append(names, s.Name)
		}
	}
	return names
}
