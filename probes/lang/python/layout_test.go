package python

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/lang/interpreter"
	"endoscope/probes/lang/interpreter/interpretertest"
	"endoscope/probes/testenv"
)

// threads is a program with three threads, each of which waits in different
// functions, and prints their numbers.
const threads = `
import threading, sys, time
class Queue:
    def take(self): ready.set(); time.sleep(1000)
def worker(q):
    q.take()
def größe(): time.sleep(1000)
def 大きさ(): größe()
ready = threading.Event()
for f in (lambda: worker(Queue())), 大きさ:
    t = threading.Thread(target=f, daemon=True)
    t.start()
    print(t.native_id, flush=True)
ready.wait()
time.sleep(0.1)
def last(): print("go", flush=True); sys.stdin.read()
last()
`

// interpreters returns the installed ones: the system's, and by version.
func interpreters(t *testing.T) []string {
	found := []string{testenv.NeedProgram(t, "/usr/bin/python3")}
	home, _ := os.UserHomeDir()
	for _, versions := range []string{"8", "9", "1*"} {
		more, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/3."+versions+".*/bin/python3"))
		found = append(found, more...)
	}
	return found
}

// Each thread's functions are found in every known version; unknown versions
// are refused.
func TestStacks(t *testing.T) {
	testenv.NeedRoot(t)
	script := filepath.Join(t.TempDir(), "threads.py")
	if err := os.WriteFile(script, []byte(threads), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, python := range interpreters(t) {
		t.Run(python, func(t *testing.T) {
			cmd := exec.Command(python, script)
			in, _ := cmd.StdinPipe()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { in.Close(); cmd.Process.Kill(); cmd.Wait() }()
			lines := bufio.NewScanner(out)
			tids := []int{}
			for lines.Scan() && lines.Text() != "go" {
				n, _ := strconv.Atoi(lines.Text())
				tids = append(tids, n)
			}
			p, err := interpretertest.Open(cmd.Process.Pid, &Language)
			var unknown *interpreter.ErrVersion
			if errors.As(err, &unknown) && strings.Contains(python, "/3.8.") {
				return
			}
			if err != nil || len(tids) != 2 {
				t.Fatal(err, tids)
			}
			qualified := p.Layout.(*Layout).owner != 0
			for tid, want := range map[int]string{
				tids[0]:         "Queue.take worker <lambda> Thread.run Thread._bootstrap_inner Thread._bootstrap",
				tids[1]:         "größe 大きさ Thread.run Thread._bootstrap_inner Thread._bootstrap",
				cmd.Process.Pid: "last <module>",
			} {
				if !qualified {
					want = strings.NewReplacer("Thread.", "", "Queue.", "").Replace(want)
				}
				var frames []interpreter.Frame
				testenv.UntilNil(t, "the thread waits", func() error {
					thread, ok := p.Thread(tid)
					if !ok {
						return fmt.Errorf("thread %d is not found", tid)
					}
					calls, ok := p.Calls(thread, nil)
					if !ok {
						return fmt.Errorf("thread %d cannot be read", tid)
					}
					frames, ok = p.Functions(calls, nil)
					var names []string
					for _, f := range frames {
						names = append(names, f.Function)
					}
					if got := strings.Join(names, " "); !ok || got != want {
						return fmt.Errorf("thread %d is in %q, want %q", tid, got, want)
					}
					return nil
				})
				if frames[0].File != script {
					t.Errorf("%s is of %s", frames[0].Function, frames[0].File)
				}
			}
			if _, ok := p.Thread(1); ok {
				t.Error("a thread of another program is found")
			}
			main, _ := p.Thread(cmd.Process.Pid)
			main.ID++
			if _, ok := p.Calls(main, nil); ok {
				t.Error("the state of another thread is read")
			}
			if _, ok := p.Functions([]interpreter.Call{{Code: main.State}}, nil); ok {
				t.Error("a thread's state is taken for a code object")
			}
		})
	}
}

// Damaged files yield errors and no panics.
func TestDamagedFilesAreErrors(t *testing.T) {
	interpretertest.ReadDamaged(t, &Language, testenv.NeedProgram(t, "/usr/bin/python3"), "python3.11")
}
