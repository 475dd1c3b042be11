package probes

// Standby is a Source that can be armed before it is wanted: to begin then takes
// microseconds, where to attach takes the kernel milliseconds, which wait until no
// processor is in a section that reads what is changed.
type Standby interface {
	Source
	// StandBy has Start attach everything and give nothing: events that begin
	// before Begin are as those before Start are otherwise, but for what they cost.
	// It is called before Load and Start, if at all.
	StandBy()
	// Begin follows Start. It does nothing if the source has ended.
	Begin() error
	// Waited is how many calls were overlooked since Start, and what each costs the
	// program that makes it, in ns. Safe to call while the source ends.
	Waited() (calls uint64, ns float64)
}
