package probes

// Reteller is a Source whose rows rest on each other: who has missed some cannot
// understand those that follow.
type Reteller interface {
	Source
	// Retell has the source tell anew what there is, soon. Safe to call from the
	// sink's methods.
	Retell()
}
