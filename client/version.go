package client

import (
	"fmt"
	"runtime/debug"
)

// builtFromSource is the version of a program that was built without one.
const builtFromSource = "(built from source)"

// version returns the version that the linker or the go command has given to the program.
func (p *Program) version() string {
	if p.Version != "" {
		return p.Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return builtFromSource
	}
	return info.Main.Version
}

// versionLine returns version, commit and date of the commit.
func (p *Program) versionLine() string {
	line := "endoscope " + p.version()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return line
	}
	built := map[string]string{}
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	if built["vcs.revision"] == "" { // go run and go test do not record it
		return line
	}
	changed := ""
	if built["vcs.modified"] == "true" {
		changed = " with changes"
	}
	return fmt.Sprintf("%s, commit %.12s%s, %s", line, built["vcs.revision"], changed, built["vcs.time"])
}
