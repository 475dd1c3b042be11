//go:build race

package uprobe

const raceEnabled = true
