package introspect

import (
	"endoscope/planner/plan"
	"endoscope/probes/elf"
)

// Program is what a session is about.
type Program struct {
	Target  plan.Target
	Modules *elf.Cache
}
