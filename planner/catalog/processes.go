package catalog

// Streams of the starts and ends of processes and threads (probes/sched).
const (
	ProcessStart = "process_start"
	ProcessExec  = "process_exec"
	ProcessEnd   = "process_end"
	ThreadStart  = "thread_start"
	ThreadEnd    = "thread_end"
)

const (
	schedHow   = "eBPF at the tracepoint "
	schedCost  = "1 µs for each start or end"
	schedNeeds = "Linux 5.15 with BTF; CAP_BPF and CAP_PERFMON (root); exe at ends: Linux 6.16"
)

var processes = []*Stream{
	{Name: ProcessStart, Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each process that is created (fork); with a target, its processes and their descendants",
		How: schedHow + "sched_process_fork", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, creator, argv), Asked: contained},
	{Name: ProcessExec, Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each program that is executed; with a target, by its processes and their descendants",
		How: schedHow + "sched_process_exec", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, argv), Asked: contained},
	{Name: ProcessEnd, Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each process that ends, with its last thread; with a target, its processes and their descendants",
		How: schedHow + "sched_process_exit", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, ending), Asked: contained},
	{Name: ThreadStart, Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each thread that is created, the first of a process included",
		How: schedHow + "sched_process_fork", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, creator), Asked: contained},
	{Name: ThreadEnd, Kind: Enumerable, Process: true, Everywhere: true,
		Doc: "a tuple for each thread that ends, the last of a process included; a thread that executes a program continues with the tid of its process' first thread",
		How: schedHow + "sched_process_exit", Cost: schedCost, Needs: schedNeeds,
		Columns: columns(stamp, who, parent, ending), Asked: contained},
}

var (
	parent  = []Column{{"parent_pid", tI, "", "the process' parent"}}
	creator = []Column{{"parent_tid", tI, "", "the thread that created it"}}
	argv    = []Column{{"argv", tL, "", "arguments of the program, its name first; of a new process its parent's, until it executes a program"}}
	ending  = []Column{
		{"exit_code", tI, "", "exit code; NULL if a signal ended it"},
		{"signal", tS, "", "the signal that ended it; NULL if none did"},
		{"duration", tD, "ns", "time from its start to its end"},
	}
)
