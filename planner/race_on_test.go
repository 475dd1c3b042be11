//go:build race

package planner

// raceEnabled: the race detector allocates memory of its own.
const raceEnabled = true
