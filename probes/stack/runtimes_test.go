package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

// pythonThreads is a program with a thread that waits in a queue, and one that
// computes and so holds the interpreter's lock, for which another waits.
const pythonThreads = `
import threading, queue, time
def take(): queue.Queue().get()
def compute():
    while True: sum(range(1000))
threading.Thread(target=take, daemon=True).start()
threading.Thread(target=compute, daemon=True).start()
threading.Thread(target=compute, daemon=True).start()
print(1, flush=True)
def rest(): time.sleep(1000)
rest()
`

// A Python program's stacks consist of its functions, and of the interpreter's
// functions below them; a thread that waits for the interpreter's lock is blocked.
func TestPythonStacks(t *testing.T) {
	testenv.NeedUprobes(t)
	script := filepath.Join(t.TempDir(), "threads.py")
	if err := os.WriteFile(script, []byte(pythonThreads), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, testenv.NeedProgram(t, "/usr/bin/python3"), script)
	r.number(t)
	c := collect(t, r.pid)
	testenv.Until(t, "its threads do what they are to do", func() bool {
		waiting := 0
		for _, s := range snapshot(t, c) {
			if s.state == "WAIT" && (slices.Contains(s.functions, "take") || slices.Contains(s.functions, "rest")) {
				waiting++
			}
		}
		return waiting == 2
	})
	testenv.Once(t, func() error { // a thread may have no processor while it changes from one state to the other
		seenStates := map[string]int{}
		wanted := []string{"take WAIT", "rest WAIT", "compute RUN", "compute BLOCKED"}
		unseen := func(state string) bool { return seenStates[state] == 0 }
		for i := 0; i < 30 || i < 3000 && (slices.ContainsFunc(wanted, unseen) || seenStates["compute BLOCKED"] < 20); i++ {
			for _, s := range snapshot(t, c) {
				for i, f := range s.functions {
					switch f {
					case "take", "rest":
						seenStates[f+" "+s.state]++
						fallthrough
					case "compute":
						if s.origins[i] != originUser || s.modules[i] != "threads.py" {
							t.Errorf("%s is the %s's, of %s", f, s.origins[i], s.modules[i])
						}
						if f == "compute" {
							seenStates[f+" "+s.state]++
						}
					case "Thread.run", "Queue.get", "clock_nanosleep":
						if s.origins[i] != originSystem {
							t.Errorf("%s is the %s's", f, s.origins[i])
						}
					}
				}
			}
			time.Sleep(3 * time.Millisecond) // in which the threads run
		}
		for _, want := range wanted {
			if unseen(want) {
				return fmt.Errorf("%s is not seen: %v", want, seenStates)
			}
		}
		if seenStates["take RUN"] > 0 {
			t.Errorf("seen: %v", seenStates)
		}
		// A thread that is about to wait for the lock is not waiting yet.
		if seenStates["compute WAIT"] > seenStates["compute BLOCKED"]/2 {
			return fmt.Errorf("seen: %v", seenStates)
		}
		return nil
	})
}

// A Java program's stacks are those that its virtual machine reports, if it may be
// asked; its own threads have stacks of machine code.
func TestJavaStacks(t *testing.T) {
	testenv.NeedUprobes(t)
	r := startJava(t, "Waits", `public class Waits {
  static void deep(int n) throws Exception { if (n > 0) deep(n - 1); else synchronized (Waits.class) { Waits.class.wait(); } }
  public static void main(String[] a) throws Exception { new Thread(() -> { try { deep(2); } catch (Exception e) {} }, "deep").start(); System.out.println(1); Thread.sleep(1000000); }
}`)
	r.number(t)
	p, _ := process.Lookup(r.pid)
	s := &source{provider: provider, target: plan.Target{PIDs: []int{r.pid}}, found: []process.Process{p}, spec: &plan.Acquire{Settings: plan.Settings{JavaStacks: JavaDump}}}
	testenv.Once(t, func() error { // a machine without a processor does not answer in time
		c, err := s.open(t.Context())
		if err != nil {
			return err
		}
		defer c.close()
		var all map[string]seen
		testenv.Until(t, "thread deep waits", func() bool {
			all = byName(snapshot(t, c))
			return all["deep"].state == "WAIT"
		})
		if c.undumped > 0 {
			return fmt.Errorf("%d dumps failed", c.undumped)
		}
		deep := all["deep"]
		if text := strings.Join(deep.functions, " "); deep.state != "WAIT" || !strings.Contains(text, "java.lang.Object.wait Waits.deep Waits.deep Waits.deep Waits.lambda$main$0 ") {
			t.Errorf("%s in %s", deep.state, text)
		}
		if vm := all["VM Thread"]; len(vm.functions) == 0 || !slices.Contains(vm.modules, "libjvm.so") {
			t.Errorf("the machine's own thread: %v", vm)
		}
		return nil
	})
	// There is a notice about what is missing if it may not be asked.
	plain, err := provider.Prepare(context.Background(), specification(plan.Target{PIDs: []int{r.pid}}, time.Second))
	if err != nil || len(plain.Info().Notices) != 1 || !strings.Contains(plain.Info().Notices[0], "SET java_stacks = 'threaddump'") {
		t.Errorf("notices %v, error %v", plain.Info().Notices, err)
	}
}

// There are notices about programs that do not describe their compiled code and about
// stripped programs; a stripped Go program's functions have their names.
func TestNotices(t *testing.T) {
	testenv.NeedUprobes(t)
	stripped := run(t, testenv.CompileGo(t, "testdata/goshapes", "-ldflags=-s -w"))
	stripped.number(t)
	silent := run(t, testenv.NeedProgram(t, "node"), "-e", "console.log(1); setInterval(() => {}, 1000)")
	silent.number(t)
	plain := sleeping(t)
	for pid, want := range map[int]string{stripped.pid: "is a Go program without debug information", silent.pid: "runs JavaScript and does not name", plain.pid: ""} {
		s, err := provider.Prepare(context.Background(), specification(plan.Target{PIDs: []int{pid}}, time.Second))
		if err != nil {
			t.Fatal(err)
		}
		got := s.Info().Notices
		if (want == "") != (len(got) == 0) || want != "" && !strings.Contains(got[0], want) {
			t.Errorf("notices %q, want %q", got, want)
		}
	}
	c := collect(t, stripped.pid)
	testenv.Until(t, "a function of a stripped Go program has its name", func() bool {
		for _, s := range snapshot(t, c) {
			if slices.Contains(s.functions, "main.spin") {
				return true
			}
		}
		return false
	})
}

// Names of code compiled at run time.
func TestCompiledFrame(t *testing.T) {
	for name, want := range map[string]frame{
		"JS:*onMessage /srv/app.js:2:19":                       {function: "onMessage", module: "app.js", file: "/srv/app.js"},
		"JS:^processTimers node:internal/timers:508:20":        {function: "processTimers", module: "node:internal/timers", system: true, file: "node:internal/timers"},
		"JS:~ file:///srv/mod.mjs:1:1":                         {function: "(anonymous)", module: "mod.mjs", file: "/srv/mod.mjs"},
		"LazyCompile:~Server.close /srv/a b.js:10:2":           {function: "Server.close", module: "a b.js", file: "/srv/a b.js"},
		"Script:~ /srv/app.js:1:1":                             {function: "(script)", module: "app.js", file: "/srv/app.js"},
		"Builtin:ArrayForEach":                                 {function: "Builtin:ArrayForEach", module: compiledModule, system: true},
		"RegExp:^a:b$":                                         {function: "RegExp:^a:b$", module: compiledModule, system: true},
		"int java.lang.String.hashCode()":                      {function: "java.lang.String.hashCode", module: compiledModule, system: true},
		"void app.Server$Worker.run(java.lang.String, int)":    {function: "app.Server$Worker.run", module: compiledModule},
		"Interpreter":                                          {function: "Interpreter", module: compiledModule, system: true},
		"StubRoutines (1)":                                     {function: "StubRoutines (1)", module: compiledModule, system: true},
		"void java.util.concurrent.locks.ReentrantLock.lock()": {function: "java.util.concurrent.locks.ReentrantLock.lock", module: compiledModule, system: true, sync: syncLock},
		"":    {function: "", module: compiledModule, system: true},
		"JS:": {function: "(anonymous)", module: "", system: true},
	} {
		if got := compiledFrame(name); got != want {
			t.Errorf("%q is %+v, want %+v", name, got, want)
		}
	}
}
