package catalog

// Streams of calls of functions (probes/uprobe).
const (
	FunctionStart    = "function_start"
	FunctionEnd      = "function_end"
	FunctionDuration = "function_duration"
	FunctionCall     = "function_call"
)

const (
	uprobeHow = "eBPF uprobes on the functions that the query names"
	returnHow = ", with return traps where those are safe, else exit probes"
)

var functions = []*Stream{
	{Name: FunctionStart, Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each call of a function, at its start",
		How: uprobeHow, Cost: "0.5 µs a call; 18 µs where the entry instruction must be single-stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, rawArgs, depth), Asked: columns(contained, goroutine, objects, origin)},
	{Name: FunctionEnd, Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each call of a function, at its return",
		How: uprobeHow + returnHow, Cost: "0.8 µs a call, 1.0 µs with exit probes; 18 µs where stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, result, depth), Asked: columns(contained, goroutine, objects, origin)},
	{Name: FunctionDuration, Kind: Enumerable, Process: true, Functions: true,
		Doc: "a tuple for each finished call of a function, with its duration; timestamp is the end",
		How: uprobeHow + returnHow, Cost: "0.9 µs a call, 1.0 µs with exit probes; 18 µs where stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, who, function, extent, rawArgs, result, depth), Asked: columns(contained, goroutine, self, objects, costs, origin)},
	{Name: FunctionCall, Kind: Enumerable, Process: true, Functions: true,
		Doc: "entries and returns of functions, in order for each thread, goroutine or coroutine; process, tid and thread_name of all events of a call are those at its entry",
		How: uprobeHow + ", with return traps where those are safe, else probes at the instructions that leave the functions", Cost: "0.9 µs a call, 2 µs at exits; 18 µs more where stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, who, []Column{
			{"event", tS, "", "ENTER; LEAVE: the call returned, or ended in a tail call; UNWIND: it was left without returning (longjmp, exception, panic, exec, end of the thread or goroutine), innermost first, reported as soon as it is detected; GAP: events of the thread or goroutine are missing here; a GAP is reported whatever functions are chosen, with function_name NULL and the depth of the next event"},
		}, function, depth, []Column{
			{"goroutine", tI, "", "of calls of Go: the goroutine's number, which stays the same when it moves to another thread; in a stripped program, the address by which the runtime knows it. Of calls on the stack of a coroutine (C, C++): a number that the query gives to it. NULL: the sequence is the thread's"},
		}), Asked: columns(contained, objects, originOfEvents)},
}

// Columns of every stream of calls.
var (
	function = []Column{
		{"function_name", tS, "", "demangled name; for a USDT probe usdt:provider:name"},
		{"class", tS, "", "C++ class or namespace, Go receiver, Rust type; '' if none"},
		{"module", tS, "", "file name of the executable or library"},
	}
	rawArgs = []Column{
		{"arg0", tI, "", "first integer or pointer argument, raw; args.NAME is an argument by its name, args all of them as one object"},
		{"arg1", tI, "", "second argument"},
		{"arg2", tI, "", "third argument"},
		{"arg3", tI, "", "fourth argument"},
		{"arg4", tI, "", "fifth argument"},
		{"arg5", tI, "", "sixth argument; arg6 to arg15 are those after it: in C the words on the stack, in Go three more registers"},
	}
	extent = []Column{
		{"start_time", tT, "", "when the call began"},
		{"duration", tD, "ns", "time from entry to return"},
	}
	result = []Column{{"retval", tI, "", "the function's result, of the type in its debug information (retval.NAME is a field); BIGINT, the raw register, where the type is not known or the functions differ; NULL where a tail call ends the call"}}
	depth  = []Column{{"depth", tI, "", "number of monitored calls that enclose this one on its thread; 0: outermost"}}
)

// goroutine is the column of streams other than function_call, where it is that of a sequence.
var goroutine = []Column{{Name: "goroutine", Type: tI, Doc: "of calls of Go: the goroutine's number; in a stripped program, the address by which the runtime knows it. NULL in other programs, in assembler, and where the runtime runs no goroutine"}}

// objects are columns with a higher cost for the target, or NULL for most programs.
var objects = []Column{
	{Name: "receiver", Type: tI, Doc: "address of the object whose method is called: C++ this, a Go pointer receiver. For functions in namespaces and static methods it is their first argument: names do not distinguish them from methods"},
	{Name: "receiver_class", Type: tS, Doc: "class of that object. C++: from its virtual table and run-time type information at the entry; for constructors and destructors their own class; NULL if it has no virtual functions. Go: the receiver's type"},
	{Name: "receiver_lineage", Type: tS, Doc: "base classes of receiver_class: 'Circle < Round < Shape', several chains separated by '; '"},
	{Name: "class_lineage", Type: tS, Doc: "base classes of class; NULL if it has no run-time type information"},
	{Name: "lookup_distance", Type: tI, Doc: "steps from receiver_class up to class, which has the method; 0: its own"},
	{Name: "method_size", Type: tI, Unit: "bytes", Doc: "size of the function's code; NULL if not known"},
	{Name: "is_native", Type: tB, Doc: "for a Go program: assembler or C; FALSE in other programs"},
}

// self is a column for which all functions of a query must be traced.
var self = []Column{
	{Name: "self_time", Type: tD, Unit: "ns", Doc: "duration less that of the calls it made, on its thread, goroutine or coroutine, of functions that the query monitors, whether or not they are rows; calls that did not return count as part of it, the calls below them do not"},
}

// origin holds the columns about the callers.
var origin = []Column{
	{Name: "caller", Type: tS, Doc: "function that the call returns to, the inlined one if there is one; NULL if that has no name"},
	{Name: "stack", Type: tL, Doc: "the call's stack, itself first: [function, module, 'user' or 'system'], as in stack_sample; see format_stack, folded_stack, source_stack, frame, and SET stack_bytes"},
}

// originOfEvents is origin for a sequence.
var originOfEvents = []Column{
	{Name: "caller", Type: tS, Doc: "function that the event's call returns to; NULL if that has no name, and for a GAP"},
	{Name: "stack", Type: tL, Doc: "for an ENTER and a LEAVE the call's stack, itself first, as in stack_sample; NULL for others; see format_stack, folded_stack, source_stack, frame, and SET stack_bytes"},
}

// costs holds the columns about the resources that calls use.
var costs = []Column{
	{Name: "cpu_time", Type: tD, Unit: "ns", Doc: "CPU time of the thread from entry to return; NULL where the call returned on another thread. For a goroutine that waited in between it includes what the thread did meanwhile"},
	{Name: "read_bytes", Type: tI, Unit: "bytes", Doc: "bytes that the thread read meanwhile by read(2) and similar calls (rchar in /proc/PID/io)"},
	{Name: "written_bytes", Type: tI, Unit: "bytes", Doc: "bytes that it wrote by write(2) and similar calls (wchar)"},
}
