//go:build race

package operators

// raceEnabled: the race detector makes sync.Pool forget things on purpose.
const raceEnabled = true
