package process

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/clock"
	"endoscope/probes/testenv"
)

// The mappings of a process are known after its end, for one that executed a
// program, and for one that was only forked.
func TestHistory(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, `
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void show(void) {
	char line[4096];
	FILE *f = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, f)) fputs(line, stdout);
	fclose(f);
	fflush(stdout);
}
int main(void) {
	pid_t child;
	printf("process %d\n", getpid());
	show();
	fflush(stdout);
	if (!(child = fork())) { printf("process %d\n", getpid()); show(); _exit(0); }
	waitpid(child, 0, 0);
	return 0;
}`, "-O1")
	h, err := WatchHistory()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for range 5 {
		out, err := exec.Command(program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(out), "process ")[1:] { // of the program, and of its child
			number, maps, _ := strings.Cut(part, "\n")
			pid, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			var want []Mapping
			for line := range strings.Lines(maps) {
				if m, ok := parseText([]byte(strings.TrimSuffix(line, "\n"))); ok {
					want = append(want, m)
				}
			}
			if got, exe := h.MappingsBefore(pid, clock.Boot()); !sameCode(got, want) || exe != program {
				t.Errorf("process %d: %+v, want %+v", pid, got, want)
			}
		}
	}
	// A process that runs already.
	cmd, in, out := begin(t, "cat")
	fmt.Fprintln(in)
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has loaded what it needs
		t.Fatal(err)
	}
	h.ReadProcess(cmd.Process.Pid)
	want, err := Text(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := h.MappingsBefore(cmd.Process.Pid, clock.Boot()); got != nil {
		t.Errorf("of a process that runs: %+v", got)
	}
	in.Close()
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, _ := h.MappingsBefore(cmd.Process.Pid, clock.Boot()); !sameCode(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Programs that a process executed one after the other are found by time.
func TestHistoryOfPrograms(t *testing.T) {
	testenv.NeedUprobes(t)
	h, err := WatchHistory()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	cmd, in, out := begin(t, "sh", "-c", "echo; read line; exec cat")
	pid := cmd.Process.Pid
	maps := func() []Mapping {
		if _, err := out.Read(make([]byte, 1)); err != nil { // it has loaded what it needs
			t.Fatal(err)
		}
		text, err := Text(pid)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	shell, inShell := maps(), clock.Boot()
	fmt.Fprint(in, "first\nsecond\n")
	cat := maps()
	if got, _ := h.MappingsBefore(pid, inShell); !sameCode(got, shell) || sameCode(got, cat) {
		t.Errorf("the shell had %+v, want %+v", got, shell)
	}
	if got, _ := h.MappingsBefore(pid, clock.Boot()); got != nil {
		t.Errorf("of the program that runs: %+v", got)
	}
	in.Close()
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, _ := h.MappingsBefore(pid, inShell); !sameCode(got, shell) {
		t.Errorf("the shell had %+v, want %+v", got, shell)
	}
	if got, _ := h.MappingsBefore(pid, clock.Boot()); !sameCode(got, cat) {
		t.Errorf("the next program had %+v, want %+v", got, cat)
	}
}

// begin starts a program that ends when its input is closed.
func begin(t *testing.T, name string, args ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader) {
	t.Helper()
	cmd = exec.Command(name, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, out
}

// sameCode reports whether files have the same mappings in both lists.
func sameCode(got, want []Mapping) bool {
	files := func(list []Mapping) (out []string) {
		for _, m := range list {
			if m.Inode != 0 {
				out = append(out, fmt.Sprintf("%x-%x %x %d %d %s", m.Start, m.End, m.Offset, m.Dev, m.Inode, filepath.Base(m.Path)))
			}
		}
		return out
	}
	return len(files(want)) > 1 && slices.Equal(files(got), files(want))
}

// A mapping replaces those it overlaps.
func TestWithMapping(t *testing.T) {
	var text []Mapping
	for _, m := range []Mapping{{Start: 40, End: 50}, {Start: 10, End: 20}, {Start: 20, End: 30}, {Start: 15, End: 25, Path: "new"}, {Start: 60, End: 70}} {
		text = withMapping(text, m)
	}
	var got []uint64
	for _, m := range text {
		got = append(got, m.Start)
	}
	if want := []uint64{15, 40, 60}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
