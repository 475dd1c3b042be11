//go:build race

package graph_test

// raceEnabled: the race detector makes sync.Pool forget things on purpose.
const raceEnabled = true
