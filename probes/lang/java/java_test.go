package java

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
)

const dump = `2026-11-21 18:00:00
Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6-Debian-1deb12u1 mixed mode, sharing):

"worker \"0\"" #12 prio=5 os_prio=0 cpu=55.49ms elapsed=2.14s tid=0x00007f211411d7e0 nid=0x5363 in Object.wait()  [0x00007f20ec150000]
   java.lang.Thread.State: WAITING (on object monitor)
	at java.lang.Object.wait(java.base@17.0.15/Native Method)
	- waiting on <no object reference available>
	at java.lang.Object.wait(java.base@17.0.15/Object.java:338)
	at app.Server.nextJob(Server.java:12)
	- locked <0x000000069ec1de28> (a java.util.LinkedList)
	at app.Server$Worker.run(Server.java:16)

"reader" #14 prio=5 nid=0x5365 runnable  [0x00007f2092efe000]
   java.lang.Thread.State: RUNNABLE
	at sun.nio.ch.SocketDispatcher.read0(java.base@17.0.15/Native Method)
	at java.net.Socket$SocketInputStream.read(java.base@17.0.15/Socket.java:966)
	at app.Server$Reader.run(Server.java:22)

"writer" #15 nid=21350 runnable
   java.lang.Thread.State: RUNNABLE
	at sun.nio.ch.SocketDispatcher.write0(java.base@21/Native Method)
	at sun.nio.ch.NioSocketImpl.tryWrite(java.base@21/NioSocketImpl.java:394)
	at com.example/app.Out.send(Out.java:7)

"selector" #16 nid=0x5367 runnable
   java.lang.Thread.State: RUNNABLE
	at sun.nio.ch.EPoll.wait(java.base@17/Native Method)
	at sun.nio.ch.EPollSelectorImpl.doSelect(java.base@17/EPollSelectorImpl.java:118)
	at app//app.Loop.run(Loop.java:3)

"locks" #17 nid=0x5368 waiting on condition
   java.lang.Thread.State: WAITING (parking)
	at jdk.internal.misc.Unsafe.park(java.base@17/Native Method)
	at java.util.concurrent.locks.LockSupport.park(java.base@17/LockSupport.java:211)
	at java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire(java.base@17/AbstractQueuedSynchronizer.java:715)
	at java.util.concurrent.locks.ReentrantLock.lock(java.base@17/ReentrantLock.java:322)
	at app.A.f(A.java:1)

"condition" #18 nid=0x5369 waiting on condition
   java.lang.Thread.State: WAITING (parking)
	at jdk.internal.misc.Unsafe.park(java.base@17/Native Method)
	at java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await(java.base@17/AbstractQueuedSynchronizer.java:1623)
	at java.util.concurrent.LinkedBlockingQueue.take(java.base@17/LinkedBlockingQueue.java:435)
	at app.B.f(B.java:1)

"monitor" #19 nid=0x536a waiting for monitor entry
   java.lang.Thread.State: BLOCKED (on object monitor)
	at app.C.f(C.java:1)

"busy" #20 nid=0x536b runnable
   java.lang.Thread.State: RUNNABLE
	at app.D$$Lambda$3/0x00007f2098001288.run(Unknown Source)
	at java.lang.Thread.run(java.base@17/Thread.java:840)

"GC Thread#0" os_prio=0 cpu=1.0ms nid=0x5354 runnable

JNI global refs: 12, weak refs: 0
`

func TestParse(t *testing.T) {
	var got []string
	for _, th := range Parse([]byte(dump)) {
		if len(th.Frames) == 0 {
			continue
		}
		var fs []string
		for _, f := range th.Frames {
			origin := "user"
			if f.System {
				origin = "system"
			}
			fs = append(fs, fmt.Sprintf("%s[%s,%s]", f.Method, f.Module, origin))
		}
		got = append(got, fmt.Sprintf("%s %d %d %s", th.Name, th.TID, th.State, fs[len(fs)-1]))
	}
	want := []string{
		`worker \"0\" 21347 1 app.Server$Worker.run[Server.java,user]`,
		`reader 21349 2 app.Server$Reader.run[Server.java,user]`,
		`writer 21350 3 com.example/app.Out.send[Out.java,user]`,
		`selector 21351 1 app//app.Loop.run[Loop.java,user]`,
		`locks 21352 4 app.A.f[A.java,user]`,
		`condition 21353 1 app.B.f[B.java,user]`,
		`monitor 21354 4 app.C.f[C.java,user]`,
		`busy 21355 0 java.lang.Thread.run[java.base,system]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for cut := range len(dump) { // a truncated dump causes no panic
		Parse([]byte(dump[:cut]))
	}
}

// A machine may have no processor for a while.
func init() { attachWait, answerWait = time.Minute, time.Minute }

const program = `
public class Waits {
  static void deep(int n) throws Exception { if (n > 0) deep(n - 1); else Thread.sleep(1000000); }
  public static void main(String[] a) throws Exception {
    Thread t = new Thread(() -> { try { deep(3); } catch (Exception e) {} }, "deep");
    t.start();
    while (t.getState() != Thread.State.TIMED_WAITING) Thread.sleep(1);
    System.out.println("ready");
    t.join();
  }
}`

// start runs the program, with options of the virtual machine.
func start(t *testing.T, options ...string) *exec.Cmd {
	t.Helper()
	testenv.NeedRoot(t)
	dir := testenv.CompileJavaText(t, "Waits", program)
	cmd := exec.Command(testenv.NeedProgram(t, "java"), append(options, "-Xmx64m", "-cp", dir, "Waits")...)
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.ForgetJava(t, cmd.Process.Pid)
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A machine that was not attached before returns its threads, with tids of our
// namespace, and no file is left behind.
func TestThreads(t *testing.T) {
	cmd := start(t)
	m, err := Attach(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for round := range 3 {
		ts, cost, err := m.Threads()
		if err != nil {
			t.Fatal(err)
		}
		if round > 0 && (cost <= 0 || cost > time.Minute) {
			t.Errorf("it cost the machine %v", cost)
		}
		found := map[string]Thread{}
		for _, th := range ts {
			found[th.Name] = th
		}
		var methods []string
		for _, f := range found["deep"].Frames {
			methods = append(methods, f.Method)
		}
		text := strings.Join(methods, " ")
		if !strings.HasPrefix(text, "java.lang.Thread.sleep Waits.deep Waits.deep Waits.deep Waits.deep Waits.lambda$main$0 ") || found["deep"].State != Waiting {
			t.Errorf("thread deep: %v in %s", found["deep"].State, text)
		}
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", cmd.Process.Pid, found["deep"].TID))
		if string(name) != "deep\n" {
			t.Errorf("thread %d is called %q", found["deep"].TID, name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cmd.Dir, ".attach_pid*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A machine that SIGQUIT would kill is not signalled: it has its socket from
// the start (-Xrs), or cannot be asked.
func TestUnpreparedMachineIsNotSignalled(t *testing.T) {
	for options, want := range map[string]error{"-Xrs": nil, "-Xrs -XX:+DisableAttachMechanism": ErrDisabled, "-XX:+DisableAttachMechanism": ErrDisabled} {
		cmd := start(t, strings.Fields(options)...)
		m, err := Attach(cmd.Process.Pid)
		if !errors.Is(err, want) {
			t.Errorf("%s: error %v", options, err)
		}
		if m != nil {
			m.Close()
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("%s: it is dead: %v", options, err)
		}
		cmd.Wait()
		if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() && s.Signal() == syscall.SIGQUIT {
			t.Errorf("%s: SIGQUIT has killed it", options)
		}
	}
	sleep := exec.Command(testenv.NeedProgram(t, "sleep"), "100") // no Java machine, and without a handler
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sleep.Process.Kill(); sleep.Wait() }()
	if _, err := Attach(sleep.Process.Pid); !errors.Is(err, ErrSignal) {
		t.Errorf("error %v", err)
	}
}

// A symbolic link in place of the file is not followed, and no other process
// may answer instead of the machine.
func TestPlantedLinkIsNotFollowed(t *testing.T) {
	cmd := start(t)
	pid := cmd.Process.Pid
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, dir := range []string{cmd.Dir, "/tmp"} {
		link := fmt.Sprintf("%s/.attach_pid%d", dir, pid)
		if err := os.Symlink(elsewhere, link); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(link)
	}
	if _, err := Attach(pid); err == nil {
		t.Error("it attaches where the file cannot be made")
	}
	if _, err := os.Lstat(elsewhere); err == nil {
		t.Error("a symbolic link was followed")
	}
	path := fmt.Sprintf("/tmp/.java_pid%d", pid)
	l, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(l)
	defer os.Remove(path)
	if err := errors.Join(syscall.Bind(l, &syscall.SockaddrUnix{Name: path}), syscall.Listen(l, 5)); err != nil {
		t.Fatal(err)
	}
	m, err := Attach(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, _, err := m.Threads(); err == nil || !strings.Contains(err.Error(), "served by another process") {
		t.Errorf("error %v", err)
	}
}
