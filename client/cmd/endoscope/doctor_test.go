package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/probes/debugregister"
	"endoscope/probes/testenv"
)

// checkRow is a row of doctor --json.
type checkRow struct{ Kind, Name, Verdict, Found, Remedy string }

// run runs a command, with its standard output, standard error and exit code.
func run(t *testing.T, line ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(line[0], line[1:]...)
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("%s: %v", line, err)
	} else if ok {
		code = exit.ExitCode()
	}
	return out.String(), errs.String(), code
}

// What doctor says of each stream is what happens to a query of it: as root, as a user
// without rights, as one whose program has capabilities, without capabilities, and in a
// container with its own PID namespace.
func TestDoctorEqualsQueries(t *testing.T) {
	testenv.Long(t)
	testenv.NeedUprobes(t)
	setpriv, setcap := testenv.NeedProgram(t, "setpriv"), testenv.NeedProgram(t, "setcap")
	const nobody = "65534"
	asNobody := []string{setpriv, "--reuid=" + nobody, "--regid=" + nobody, "--clear-groups"}
	dir, err := os.MkdirTemp("", "endoscope-doctor")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program, capable := filepath.Join(dir, "endoscope"), filepath.Join(dir, "capable")
	testenv.Output(t, "cp", testenv.Command(t, "."), program)
	testenv.Output(t, "cp", program, capable)
	target := filepath.Join(dir, "target")
	testenv.Output(t, "cp", testenv.CompileCText(t, `#include <unistd.h>
int counter; int main(void) { for (;;) { counter++; usleep(10000); } }`), target)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(program, 0o755), os.Chmod(capable, 0o755), os.Chmod(target, 0o755)); err != nil {
		t.Fatal(err)
	}
	testenv.Output(t, setcap, "cap_bpf,cap_perfmon,cap_sys_ptrace+ep", capable)

	for _, c := range []struct {
		name    string
		as      []string
		program string
		refused string // of streams that attach; "": they work
	}{
		{"root", nil, program, ""},
		{"nobody", asNobody, program, "setcap cap_bpf,cap_perfmon,cap_sys_ptrace\\+ep " + program + ", or ask the endoscoped of root with --connect"},
		{"setcap", asNobody, capable, ""},
		{"without capabilities", []string{setpriv, "--bounding-set=-all", "--inh-caps=-all"}, program, "no process here can have CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE: add it to the container"},
		{"container", []string{testenv.NeedProgram(t, "unshare"), "--pid", "--fork", "--mount-proc"}, program, "the host's PID namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			with := func(args ...string) []string { return append(append(c.as[:len(c.as):len(c.as)], c.program), args...) }
			out, errs, code := run(t, with("doctor", "--json")...)
			var rows []checkRow
			if err := json.Unmarshal([]byte(out), &rows); err != nil {
				t.Fatalf("%v\n%s%s", err, out, errs)
			}
			found := map[string]checkRow{}
			failed := 0
			for _, r := range rows {
				if r.Kind == "stream" {
					found[r.Name] = r
					if r.Verdict != "ok" {
						failed++
					}
				}
				if (r.Verdict != "ok") != (r.Remedy != "") {
					t.Errorf("the remedy of %+v", r)
				}
			}
			if want := failed > 0; want != (code == 1) || code > 1 {
				t.Errorf("%d streams do not work, and the exit code is %d: %s", failed, code, errs)
			}
			for _, s := range catalog.Streams {
				if s.Later {
					continue
				}
				r, ok := found[s.Name]
				if !ok {
					t.Errorf("nothing is said about %s", s.Name)
					continue
				}
				args := []string{"-c", statementOf(s), "--", target}
				_, errs, code := run(t, with(args...)...)
				if (r.Verdict == "ok") != (code == 0) {
					t.Errorf("%s: doctor says %+v, and the query\n%s", s.Name, r, errs)
				}
				if code == 0 {
					continue
				}
				message := regexp.MustCompile(`(?s)error: (.*?)\n.*hint: (.*)\n`).FindStringSubmatch(errs)
				if message == nil || message[1] != r.Found || message[2] != r.Remedy {
					t.Errorf("%s: doctor says %+v, and the query\n%s", s.Name, r, errs)
				}
				if s.Name == catalog.VariableValue && !debugregister.Fire() {
					continue // on no machine of this kind
				}
				if c.refused == "" || !regexp.MustCompile(c.refused).MatchString(r.Remedy) {
					t.Errorf("%s: the remedy %s", s.Name, r.Remedy)
				}
			}
			if works := found[catalog.FunctionStart].Verdict == "ok"; works != (c.refused == "") {
				t.Errorf("function_start: %+v", found[catalog.FunctionStart])
			}
			if found[catalog.ProcessUsage].Verdict != "ok" {
				t.Errorf("process_usage: %+v", found[catalog.ProcessUsage])
			}
		})
	}
}

// statementOf returns a query of a stream on the test's target.
func statementOf(s *catalog.Stream) string {
	from := s.Name
	if s.Kind == catalog.NonEnumerable {
		from = "SAMPLE(" + from + ", 20ms)"
	}
	if _, named := s.Column("var_name"); named {
		from += " WHERE var_name = 'counter'"
	} else if _, called := s.Column("depth"); called {
		from += " WHERE function_name = 'main'"
	}
	if s.Kind != catalog.Snapshot {
		from += " FOR 30ms"
	}
	return "SELECT COUNT(*) FROM " + from
}

// What doctor says of a program is what it was built with.
func TestDoctorOfTarget(t *testing.T) {
	testenv.NeedUprobes(t)
	const source = `#include <unistd.h>
static int helper(int n) { return n + 1; } int main(void) { for (int i = 0;; i = helper(i)) usleep(10000); }`
	plain, stripped := testenv.CompileCText(t, source, "-g", "-O0"), testenv.CompileCText(t, source, "-O0", "-s", "-Wl,--build-id")
	for _, c := range []struct{ program, functions, debug string }{
		{plain, "ok", "its own"},
		{stripped, "limited", "none"},
	} {
		target := exec.Command(c.program)
		if err := target.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { target.Process.Kill(); target.Wait() }()
		out, errs, _ := run(t, testenv.Command(t, "."), "doctor", "--format", "json", "-p", strconv.Itoa(target.Process.Pid))
		var rows []checkRow
		if err := json.Unmarshal([]byte(out), &rows); err != nil {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
		got := map[string]checkRow{}
		for _, r := range rows {
			if r.Kind == "target" {
				got[r.Name] = r
			}
		}
		if got["process"].Found != fmt.Sprintf("%s, pid %d", filepath.Base(c.program)[:min(15, len(filepath.Base(c.program)))], target.Process.Pid) ||
			got["memory"].Verdict != "ok" || got["executable"].Found != c.program || got["functions"].Verdict != c.functions ||
			!strings.HasPrefix(got["debug information"].Found, c.debug) {
			t.Errorf("%s: %+v", c.program, got)
		}
		if c.functions != "ok" && !strings.Contains(got["functions"].Remedy, "build-id") {
			t.Errorf("%+v", got["functions"])
		}
	}
}
