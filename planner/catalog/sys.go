package catalog

// Streams of the engine's own state (server).
const (
	SysQueries   = "sys.queries"
	SysProbes    = "sys.probes"
	SysDrops     = "sys.drops"
	SysOperators = "sys.operators"
	SysTriggers  = "sys.triggers"
	SysExports   = "sys.exports"
	SysStanding  = "sys.standing_queries"
)

var sys = []*Stream{
	{Name: SysQueries, Kind: Snapshot, Doc: "the queries that are running", How: "engine", Cost: "none", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"query_id", tI, "", "number of the query, for STOP"},
			{"state", tS, "", "preparing, running, ending"},
			{"statement", tS, "", "its text"},
			{"started", tT, "", "when it was armed"},
			{"rows", tI, "", "rows returned so far"},
			{"acquired", tI, "", "rows acquired so far: tuples, and states of groups that the kernel aggregates"},
			{"lost", tI, "", "events lost so far"},
			{"shares_with", tS, "", "queries that share its probes"},
		}), Asked: owner},
	{Name: SysProbes, Kind: Snapshot, Doc: "the probes that are attached now, and where", How: "engine", Cost: "none", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"provider", tS, "", "uprobe, procfs, ..."},
			{"function_name", tS, "", "function, or the file that is read"},
			{"module", tS, "", "file name of the executable or library"},
			{"address", tI, "", "file offset of the probed instruction"},
			{"method", tS, "", "emulated, stepped, nop, procfs, replay"},
			{"kind", tS, "", "entry or entry+return, and the kind of link"},
			{"cost", tF, "ns", "estimated cost of an event"},
			{"queries", tI, "", "number of queries that use it"},
			{"hits", tI, "", "events so far"},
			{"query_ids", tS, "", "their numbers: those in brackets share one probe, others have their own at the site"},
		})},
	{Name: SysDrops, Kind: Snapshot, Doc: "events lost, by query and cause", How: "engine", Cost: "none", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"query_id", tI, "", "query"},
			{"cause", tS, "", "why"},
			{"n", tI, "", "how many events"},
			{"loss", tB, "", "false: counted, but no event of the result is missing"},
		})},
	{Name: SysOperators, Kind: Snapshot, Doc: "the operators of running queries", How: "engine", Cost: "none", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"query_id", tI, "", "query"},
			{"operator", tS, "", "what it does"},
			{"site", tS, "", "where it runs"},
			{"rows_in", tI, "", "rows received"},
			{"rows_out", tI, "", "rows sent"},
			{"time", tD, "ns", "time spent in it"},
		})},
	{Name: SysTriggers, Kind: Snapshot, Doc: "the triggers that exist", How: "engine", Cost: "none", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"trigger", tS, "", "its name, which is also the name of its stream"},
			{"mode", tS, "", "continuous or once"},
			{"state", tS, "", "waiting; acting: one of its actions is running; ending; ended: its target is gone"},
			{"activations", tI, "", "tuples that satisfied its condition so far"},
			{"skipped", tI, "", "activations that started no query, since the query was still running or its target had ended"},
			{"rows", tI, "", "rows of its stream so far"},
			{"lost", tI, "", "events lost so far, of its condition and its actions, and webhooks not delivered"},
			{"arming", tS, "", "at once: the probes of its actions are attached and closed; else why they are attached only on activation; NULL if no action has probes"},
			{"latency", tD, "ns", "longest time from a tuple until the actions it started were armed"},
			{"overhead", tF, "%", "what its condition takes of the CPU time of the program, with what the engine takes; NULL if it has no WITHIN OVERHEAD"},
			{"error", tS, "", "last error; NULL if there was none"},
			{"statement", tS, "", "its text"},
		}), Asked: owner},
	{Name: SysExports, Kind: Snapshot, Doc: "the exports that exist", How: "engine", Cost: "none", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"export", tS, "", "its name"},
			{"target", tS, "", "PROMETHEUS, or the URL to which it sends"},
			{"state", tS, "", "running; ending; ended: its target is gone, and the last figures stay; failed"},
			{"query_id", tI, "", "number of its query"},
			{"series", tI, "", "series that it has now"},
			{"left_out", tI, "", "series beyond its limit so far"},
			{"sent", tI, "", "data points and spans that the receiver has accepted"},
			{"lost", tI, "", "events lost so far, spans not delivered, and series left out"},
			{"error", tS, "", "last error; NULL if there was none"},
			{"statement", tS, "", "its text"},
		}), Asked: owner},
	{Name: SysStanding, Kind: Snapshot, Doc: "the standing queries of the fleet whose results are kept here", How: "engine", Cost: "none", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"query", tS, "", "its name, which is also the name of its stream"},
			{"state", tS, "", "starting; running; waiting: it could not be executed, and is tried again; standby: another daemon keeps it; stored: only its results are here"},
			{"hosts", tS, "", "how many hosts its results cover, and which not; NULL if that is not known"},
			{"windows", tI, "", "windows and revisions that were stored since the start of the daemon"},
			{"bytes", tI, "bytes", "size of the stored results"},
			{"lost", tI, "", "groups that came too late, and rows that hosts had to drop"},
			{"created", tT, "", "when it was created"},
			{"error", tS, "", "why it waits; NULL if it does not"},
			{"id", tS, "", "its number in the fleet"},
			{"statement", tS, "", "its text"},
		}), Asked: owner},
}

var owner = []Column{{"owner", tS, "", "the user who owns it; NULL in an engine without users"}}
