package stack

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

// javaThreads has threads that wait, compute, and wait for a lock that another thread
// holds. The last thread starts, and its methods are compiled, when a line is read.
const javaThreads = `
import java.util.concurrent.locks.ReentrantLock;
public class Threads {
  static volatile long sink;
  static final ReentrantLock lock = new ReentrantLock();
  static void deep(int n) throws Exception { if (n > 0) deep(n - 1); else synchronized (Threads.class) { Threads.class.wait(); } sink++; }
  static void spin(int n) { if (n > 0) spin(n - 1); else for (;;) { sink++; } sink++; }
  static void take() { lock.lock(); sink++; }
  static void later() throws Exception { Thread.sleep(1000000); sink++; }
  interface Task { void run() throws Exception; }
  static void start(String name, Task t) { new Thread(() -> { try { t.run(); } catch (Exception e) {} }, name).start(); }
  public static void main(String[] a) throws Exception {
    lock.lock();
    start("deep", () -> deep(2));
    start("spin", () -> spin(2));
    start("take", () -> take());
    Thread.sleep(50);
    System.out.println(1);
    System.in.read();
    start("later", () -> later());
    System.out.println(2);
    Thread.sleep(1000000);
  }
}`

// startJava compiles a class and starts it.
func startJava(t *testing.T, class, text string, options ...string) *target {
	t.Helper()
	dir := testenv.CompileJavaText(t, class, text)
	r := run(t, testenv.NeedProgram(t, "java"), append(options, "-Xmx64m", "-cp", dir, class)...)
	testenv.ForgetJava(t, r.pid)
	return r
}

// A Java program that keeps frame pointers and reports its methods has stacks of
// these, together with the machine's own frames; it is not stopped. Methods compiled
// later become known after a while.
func TestJavaPerfMap(t *testing.T) {
	testenv.NeedUprobes(t)
	var r *target
	testenv.Once(t, func() error { // a machine without a processor does not answer in time
		r = startJava(t, "Threads", javaThreads, "-XX:+PreserveFramePointer", "-Xcomp", "-XX:TieredStopAtLevel=1", "-XX:-Inline")
		r.number(t)
		p, _ := process.Lookup(r.pid)
		s := &source{provider: provider, target: plan.Target{PIDs: []int{r.pid}}, found: []process.Process{p}, spec: &plan.Acquire{Settings: plan.Settings{JavaStacks: JavaMaps}}}
		c, err := s.open(t.Context())
		if err != nil {
			return err
		}
		defer c.close()
		find := func(name, state, calls string) seen {
			t.Helper()
			var one seen
			testenv.UntilNil(t, "thread "+name+" is seen in Java", func() error {
				one = byName(snapshot(t, c))[name]
				if text := strings.Join(one.functions, " "); !strings.Contains(text, calls) || state != "" && one.state != state {
					return fmt.Errorf("%s (%v) in %s", one.state, one.cause, text)
				}
				return nil
			})
			return one
		}
		for name, want := range map[string]struct{ state, calls string }{
			"deep": {"WAIT", "java.lang.Object.wait Threads.deep Threads.deep Threads.deep Threads.lambda$main$"},
			"spin": {"RUN", "Threads.spin Threads.spin Threads.spin Threads.lambda$main$"},
			"take": {"BLOCKED", "java.util.concurrent.locks.ReentrantLock.lock Threads.take Threads.lambda$main$"},
		} {
			one := find(name, want.state, want.calls)
			text := strings.Join(one.functions, " ")
			if !strings.Contains(text, " java.lang.Thread.run ") || !strings.Contains(text, "JavaCalls::call") || !strings.HasSuffix(text, " clone3") && !strings.HasSuffix(text, " clone") {
				t.Errorf("%s: %s (%v) in %s", name, one.state, one.cause, text)
			}
			for i, f := range one.functions {
				if user := strings.HasPrefix(f, "Threads"); user != (one.origins[i] == originUser) {
					t.Errorf("%s is the %s's", f, one.origins[i])
				}
			}
		}
		fmt.Fprintln(r.in)
		r.number(t)
		find("later", "", "Threads.")
		if c.javaTime <= 0 {
			t.Errorf("the maps took %v", c.javaTime)
		}
		if c.undumped > 0 {
			return fmt.Errorf("%d maps were not written", c.undumped)
		}
		return nil
	})
	// A notice says what the stacks lack; a machine without frame pointers is rejected
	// with the reason.
	spec := specification(plan.Target{PIDs: []int{r.pid}}, time.Second)
	spec.Settings.JavaStacks = JavaMaps
	prepared, err := provider.Prepare(context.Background(), spec)
	if err != nil || len(prepared.Info().Notices) != 1 || !strings.Contains(prepared.Info().Notices[0], "interpreted ones are called Interpreter") {
		t.Errorf("notices %v, error %v", prepared.Info().Notices, err)
	}
	other := startJava(t, "Threads", javaThreads)
	other.number(t)
	spec.Target = plan.Target{PIDs: []int{other.pid}}
	testenv.Once(t, func() error { // a machine without a processor does not answer in time
		if prepared, err = provider.Prepare(context.Background(), spec); err != nil {
			t.Fatal(err)
		}
		if err := prepared.Start(context.Background(), newRecord(), probes.Options{}); err == nil || !strings.Contains(err.Error(), "-XX:+PreserveFramePointer") {
			return fmt.Errorf("error %v", err)
		}
		return nil
	})
}
