package catalog

// Streams of the whole machine (probes/procfs).
const (
	CPUUsage     = "cpu_usage"
	CPUCoreUsage = "cpu_core_usage"
	MemoryUsage  = "memory_usage"
	DiskUsage    = "disk_usage"
	NetworkUsage = "network_usage"
	Pressure     = "pressure"
)

var machine = []*Stream{
	{Name: CPUUsage, Kind: NonEnumerable, Doc: "load of all CPUs together",
		How: "/proc/stat", Cost: "2 µs a sample", Needs: noNeeds,
		Columns: columns(stamp, cpuTime)},
	{Name: CPUCoreUsage, Kind: NonEnumerable, Doc: "load of each CPU",
		How: "/proc/stat", Cost: "2 µs a sample", Needs: noNeeds,
		Columns: columns(stamp, cpuTime, []Column{{"cpu", tI, "", "number of the CPU"}})},
	{Name: MemoryUsage, Kind: NonEnumerable, Doc: "memory of the machine",
		How: "/proc/meminfo", Cost: "4 µs a sample", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"total", tI, "bytes", "usable memory"},
			{"used", tI, "bytes", "total less available"},
			{"available", tI, "bytes", "what programs can allocate without swapping"},
			{"percent_used", tF, "%", "used as a share of total"},
			{"cached", tI, "bytes", "page cache"},
			{"swap_used", tI, "bytes", "swap in use"},
		})},
}

var cpuTime = []Column{
	{"percent_busy", tF, "%", "100 less idle and iowait"},
	{"percent_idle", tF, "%", "idle"},
	{"percent_user", tF, "%", "user mode, nice included"},
	{"percent_system", tF, "%", "kernel mode, interrupts included"},
	{"percent_iowait", tF, "%", "idle while I/O was in progress"},
	{"percent_steal", tF, "%", "taken by the hypervisor"},
}

var devices = []*Stream{
	{Name: DiskUsage, Kind: NonEnumerable, Doc: "traffic of each block device",
		How: "/proc/diskstats", Cost: "3 µs a sample", Needs: noNeeds,
		Columns: columns(stamp, []Column{
			{"device", tS, "", "name of the device"},
			{"reads_per_s", tF, "1/s", "reads finished"},
			{"writes_per_s", tF, "1/s", "writes finished"},
			{"read_bytes_per_s", tF, "bytes/s", "read"},
			{"write_bytes_per_s", tF, "bytes/s", "written"},
			{"percent_busy", tF, "%", "time with a request in progress"},
		})},
	{Name: NetworkUsage, Kind: NonEnumerable, Doc: "traffic of each network interface",
		How: "/proc/net/dev", Cost: "3 µs a sample", Needs: noNeeds,
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
	{Name: Pressure, Kind: NonEnumerable, Doc: "time that work waited for CPU, memory and I/O",
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
}
