package catalog

import "endoscope/planner/types"

// Short names of the types of columns.
const (
	tB = types.Boolean
	tI = types.Bigint
	tU = types.Ubigint
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

// Groups of columns that several families have.
var (
	stamp = []Column{{"timestamp", tT, "", "when it happened, by the boot clock"}}
	who   = []Column{
		{"pid", tI, "", "process"},
		{"tid", tI, "", "thread"},
		{"process", tS, "", "name of the process: its leader's comm"},
		{"thread_name", tS, "", "name of the thread"},
		{"exe", tS, "", "path of the executable"},
	}
	contained = []Column{
		{"container", tS, "", "container of the process: its name, or its id where no container runtime tells its name; outside of containers its control group; NULL if the process had ended before it was looked up"},
		{"cgroup", tS, "", "control group of the process: its path in the hierarchy of cgroup v2, else the longest path in one of v1; NULL if the process had ended before it was looked up"},
		{"pod", tS, "", "pod of the container; NULL if it is in none"},
		{"namespace", tS, "", "Kubernetes namespace of the pod; NULL if there is none"},
		{"labels", tS, "", "labels of the container and its pod, as JSON; label('app') is one of them; NULL if it has none"},
	}
)

// Texts of Needs that several families share.
const (
	uprobeNeeds = "Linux 6.6 with BTF; CAP_BPF and CAP_PERFMON (root)"
	stackNeeds  = "Linux 6.1 with BTF; CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE (root)"
	noNeeds     = "nothing"
)
