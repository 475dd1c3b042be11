package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
)

// Each stream that needs capabilities is refused without them in the same form: the stream,
// what it needs, its place in the statement, and a hint.
func TestStreamsWithoutRights(t *testing.T) {
	program := testenv.Command(t, ".")
	var without []string // the command that drops all capabilities
	if os.Geteuid() == 0 {
		without = []string{testenv.NeedProgram(t, "setpriv"), "--bounding-set=-all", "--inh-caps=-all"}
	}
	want := regexp.MustCompile(`^error: (\w+) needs CAP_BPF and CAP_PERFMON( and CAP_SYS_PTRACE)?, which this process does not have\n` +
		`  SELECT .*\n +\^\nhint: no process here can have CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE: .*; streams of /proc \(\w+(, \w+)*\) need no rights\n$`)
	checked := 0
	for _, s := range catalog.Streams {
		if !strings.Contains(s.Needs, "CAP_BPF") {
			continue
		}
		checked++
		from := s.Name
		if s.Kind == catalog.NonEnumerable {
			from = "SAMPLE(" + from + ", 1s)"
		}
		if _, named := s.Column("var_name"); named {
			from += " WHERE var_name = 'x'"
		}
		line := append(without, program, "-p", strconv.Itoa(os.Getpid()), "-c", fmt.Sprintf("SELECT COUNT(*) FROM %s", from))
		out, err := exec.Command(line[0], line[1:]...).CombinedOutput()
		got := want.FindStringSubmatch(string(out))
		if err == nil || got == nil || got[1] != s.Name {
			t.Errorf("%s: %v\n%s", s.Name, err, out)
		} else if ptrace := strings.Contains(s.Needs, "CAP_SYS_PTRACE"); ptrace != (got[2] != "") {
			t.Errorf("%s: its description says %q, and the error\n%s", s.Name, s.Needs, out)
		}
	}
	if checked < 12 {
		t.Errorf("only %d streams need capabilities", checked)
	}
}
