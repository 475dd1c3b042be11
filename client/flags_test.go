package client

import (
	"strings"
	"testing"
)

// Of two targets none silently takes the place of the other.
func TestOneTarget(t *testing.T) {
	for line, want := range map[string]string{
		"-p 1 -p 2":                                 "-p can be given once",
		"-p1 --pid=2":                               "-p can be given once",
		"--process a --process b":                   "--process can be given once",
		"--exe /a -c SELECT --exe=":                 "--exe can be given once",
		"--connect a:1 --connect b:1 --connect a:1": "--connect a:1 is given twice",
		"-p 1 --exe /a":                             "-p and --exe exclude each other",
	} {
		if _, err := parseFlags(strings.Fields(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", line, err)
		}
	}
	if f, err := parseFlags([]string{"-p", "7", "-c", "a", "-c", "b"}); err != nil || f.pid != 7 || len(f.scripts) != 2 {
		t.Errorf("a target and two statements: %+v, %v", f, err)
	}
}
