package introspect

import (
	"endoscope/planner/plan"
	"endoscope/probes/elf"
)

// Program is the target of a session.
type Program struct {
	Target  plan.Target
	Modules *elf.Cache
}
