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
)

// Texts of Needs that several families share.
const (
	uprobeNeeds = "Linux 6.6 with BTF; CAP_BPF and CAP_PERFMON (root)"
	stackNeeds  = "Linux 6.1 with BTF; CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE (root)"
	noNeeds     = "nothing"
)
