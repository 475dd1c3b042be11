//go:build race

package parser

// raceEnabled: the race detector allocates memory of its own.
const raceEnabled = true
