package catalog

// Streams of what processes and threads use (probes/procfs).
const (
	ProcessUsage = "process_usage"
	ThreadUsage  = "thread_usage"
)

var usage = []*Stream{
	{Name: ProcessUsage, Kind: NonEnumerable, Process: true, Doc: "CPU, memory, files and I/O of each process of the target",
		How: "/proc/PID", Cost: "3 to 20 µs a process and sample, depending on the columns asked for", Needs: "the target's user, or CAP_SYS_PTRACE, for read_bytes, write_bytes and open_files",
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
		}), Asked: contained},
	{Name: ThreadUsage, Kind: NonEnumerable, Process: true, Doc: "CPU and state of each thread of the target",
		How: "/proc/PID/task", Cost: "3 µs a thread and sample", Needs: noNeeds,
		Columns: columns(stamp, who, []Column{
			{"percent_cpu", tF, "%", "CPU time; 100 is one CPU"},
			{"state", tS, "", "R running, S sleeping, D waiting for I/O, T stopped, Z ended"},
			{"run_delay", tD, "ns", "time spent runnable without a CPU, since the start"},
		}), Asked: contained},
}
