package catalog

// Streams of types, objects, threads, invocations and locks (probes/entities).
const (
	EntityEvents   = "entity_events"
	ActivityEvents = "activity_events"
)

var entities = []*Stream{
	{Name: EntityEvents, Kind: Enumerable, Process: true,
		Doc:  "creation and end of types, objects, threads and invocations of native programs; those that exist when it begins are reported first. See CONSISTENT",
		How:  "threads: eBPF at sched tracepoints and task_rename, and /proc; types: run-time type information of the modules, when the program begins and whenever the dynamic linker changes the mappings; objects: calls of C++ constructors and destructors; invocations: calls of the executable's functions (function_call). Conditions on category choose among them. For Java: methods and their classes where the virtual machine has -XX:+ExtendedDTraceProbes, but no objects, whose addresses it does not report",
		Cost: "1 µs for each start, end or rename of a thread; 0.9 µs for each call, 2 µs at exits, 18 µs more where stepped", Needs: uprobeNeeds,
		Columns: columns(stamp, actor, []Column{
			{"category", tS, "", "TYPE, OBJECT, THREAD, INVOCATION"},
			{"event", tS, "", "CREATE, LOAD (of a type), RENAME (of a thread), RECLAIM, ENTER and LEAVE (of an invocation); UNKNOWN: it has ended, or its state is not known, since events were lost"},
		}, entity)},
	{Name: ActivityEvents, Kind: Enumerable, Process: true,
		Doc: "operations of the threads of native programs on mutexes, rwlocks and condition variables; waits are those for a lock that another thread holds",
		How: "eBPF uprobes on the functions of libc, which C++'s call too. For Java: waits for monitors, as the virtual machine reports them (-XX:+ExtendedDTraceProbes); the holder of a monitor that is waited for is read from its memory", Cost: "1.6 µs for each lock that is taken and released", Needs: uprobeNeeds,
		Columns: columns(stamp, actor, []Column{
			{"category", tS, "", "NULL"},
			{"event", tS, "", "ACQUIRE, RELEASE, BEGIN_WAIT, END_WAIT; UNKNOWN: the thread's relation to the lock is no longer known, since it has ended, or events were lost"},
		}, entity)},
}

// Columns before and after category and event. Both streams have the same columns, so that
// they can be united.
var (
	actor = []Column{
		{"pid", tI, "", "process"},
		{"tid", tI, "", "thread on which it happened; NULL: it existed when monitoring began"},
		{"process", tS, "", "name of the process: its leader's comm"},
		{"thread_name", tS, "", "name of that thread"},
		{"exe", tS, "", "path of the executable"},
	}
	entity = []Column{
		{"entity_id", tS, "", "identifies the entity or lock; never used again"},
		{"name", tS, "", "name of a type, thread or function; mutex, rwlock or condition"},
		{"type_name", tS, "", "type of an object; class of a function"},
		{"parent_id", tS, "", "a type's first base; the creator of a thread; the invocation around one"},
		{"other_id", tS, "", "a type's second base; the object that is called; the thread that holds the lock that is waited for"},
		{"thread_id", tS, "", "the thread on which it happened, as its entity_id"},
		{"began", tT, "", "when an entity that is created or entered began; NULL for an invocation that was in progress when it was first seen"},
	}
)
