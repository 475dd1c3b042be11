//go:build race

package batch

// raceEnabled: the race detector makes sync.Pool forget things on purpose.
const raceEnabled = true
