package catalog

// Streams of stacks (probes/stack) and of what is found in them (server).
const (
	StackSample   = "stack_sample"
	EventHandlers = "event_handlers"
	HandlerCost   = "handler_cost"
)

var stacks = []*Stream{
	{Name: StackSample, Kind: NonEnumerable, Process: true, Doc: "stack and state of each thread of the target, running or not; no thread is stopped",
		How: "eBPF: an iterator over threads, and an interrupt on each CPU; unwound by .eh_frame, Go's tables and frame pointers", Cost: "0.5 µs a thread that has not run since the previous sample, else about 10; 50 µs a CPU",
		Needs: stackNeeds,
		Columns: columns(stamp, who, []Column{
			{"state", tS, "", "RUN; WAIT: waiting for an event; IO; BLOCKED: on a lock, or stopped"},
			{"runnable", tB, "", "whether the thread was on a CPU or waited for one, be it in a system call: the share of a thread's samples in which it is TRUE is that of the time in which it wants a CPU"},
			{"syscall", tS, "", "name of the system call that the thread is in; NULL in user mode"},
			{"stack", tL, "", "frames, leaf first: [function, module, 'user' or 'system'] and, if the query reads them, file, line and inlined; see format_stack, folded_stack, source_stack, frame"},
			{"complete", tB, "", "whether the stack reaches the thread's first function"},
			{"goroutine", tI, "", "number of a Go goroutine that waits, or waits for a thread: its row has no tid; NULL for threads"},
		}), Asked: contained},
	{Name: EventHandlers, Kind: NonEnumerable, Process: true, Doc: "functions that handle events, found in stack samples; the interval of SAMPLE is how often the samples so far are analysed",
		How: "stack_sample, 100 times a second", Cost: "that of stack_sample", Needs: stackNeeds,
		Columns: columns(stamp, []Column{
			{"handler", tS, "", "function"},
			{"module", tS, "", "file name of the executable or library"},
			{"kind", tS, "", "EVENT: called by a loop between waiting or reading; CALLBACK: called by a library"},
			{"node_type", tS, "", "for an EVENT, how the loop gets its events: NODE_WAIT or NODE_IO"},
			{"samples", tI, "", "samples of threads in it"},
			{"confidence", tF, "", "lower end of the 95 % interval of the share of those that run (EVENT), or that have it (CALLBACK)"},
		})},
	{Name: HandlerCost, Kind: Enumerable, Process: true, Doc: "a tuple for each finished call of a function while it is found to handle events; timestamp is the end",
		How: "event_handlers, and eBPF uprobes on what it finds, attached and detached as that changes; C, C++, Rust and Go", Cost: "that of event_handlers, and of function_duration", Needs: "Linux 6.6 with BTF; CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE (root)",
		Columns: columns(stamp, who, []Column{
			{"handler", tS, "", "function"},
			{"module", tS, "", "file name of the executable or library"},
		}, extent, costs)},
}
