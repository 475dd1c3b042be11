package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// holdEnv makes the test program start a command, hold it, print its pid and
// wait to be killed.
const holdEnv = "ENDOSCOPE_TEST_HOLD"

func TestMain(m *testing.M) {
	mapPages = 512 // other programs may run while this one has no processor
	if program := os.Getenv(holdEnv); program != "" {
		c, err := Launch([]string{program, "60"}, nil, nil, nil, nil)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(c.PID())
		time.Sleep(time.Minute) // until it is killed
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// launch starts a command whose output goes to the returned pipe.
func launch(t *testing.T, env []string, argv ...string) (*Command, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c, err := Launch(argv, nil, w, w, env)
	if err != nil {
		r.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		<-c.Wait()
		r.Close()
	})
	return c, r
}

func output(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestNothingRunsBeforeRelease(t *testing.T) {
	program := testenv.CompileCText(t, `
		#include <unistd.h>
		#include <sys/wait.h>
		__attribute__((constructor)) static void first(void) { write(1, "constructor\n", 12); }
		int main(void) {
			write(1, "main\n", 5);
			if (fork() == 0) { write(1, "child\n", 6); _exit(0); }
			wait(0);
			return 7;
		}
	`)
	c, out := launch(t, nil, program)
	if p, ok := Lookup(c.PID()); !ok || p.Exe != program {
		t.Errorf("held process is %+v, want one that runs %s", p, program)
	}
	modules, err := Modules(c.PID())
	if err != nil || len(modules) == 0 || modules[0].Path != program {
		t.Errorf("the executable is not mapped: %+v, %v", modules, err)
	}
	for _, m := range modules {
		if strings.Contains(m.Path, "libc") {
			t.Errorf("the dynamic linker has already run: %s is mapped", m.Path)
		}
	}
	out.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	var b [64]byte
	if n, _ := out.Read(b[:]); n > 0 {
		t.Fatalf("printed before Release: %q", b[:n])
	}
	out.SetReadDeadline(time.Time{})
	if c.ExitCode() != -1 {
		t.Errorf("exit code of a held process: %d", c.ExitCode())
	}

	for range 2 {
		if err := c.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := output(t, out), "constructor\nmain\nchild\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	within(t, c.Wait(), "the end of the command")
	if c.ExitCode() != 7 {
		t.Errorf("exit code %d, want 7", c.ExitCode())
	}
	if err := c.Release(); err != nil {
		t.Errorf("released after its end: %v", err)
	}
}

func TestReleasedCommandIsNeverStopped(t *testing.T) {
	// exec and signals would stop a process that is still traced.
	c, out := launch(t, nil, testenv.NeedProgram(t, "sh"), "-c", `trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.01; done`)
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	unix.Kill(c.PID(), unix.SIGUSR1)
	if line, err := r.ReadString('\n'); line != "caught\n" {
		t.Fatalf("%q, %v", line, err)
	}
	within(t, c.Wait(), "the end of the command")
	if c.ExitCode() != 3 {
		t.Errorf("exit code %d, want 3", c.ExitCode())
	}
}

func TestLaunchScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec echo $0 $1 $ANSWER\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, out := launch(t, []string{"ANSWER=42", "PATH=/usr/bin:/bin"}, script, "one")
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if got, want := output(t, out), script+" one 42\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestLaunchKeepsTheTerminal(t *testing.T) {
	c, _ := launch(t, nil, "sleep", "60")
	if got, _ := unix.Getpgid(c.PID()); got != unix.Getpgrp() {
		t.Errorf("process group %d, want ours, %d", got, unix.Getpgrp())
	}
	ours, _ := unix.Getsid(0)
	if got, _ := unix.Getsid(c.PID()); got != ours {
		t.Errorf("session %d, want ours, %d", got, ours)
	}
}

func TestKill(t *testing.T) {
	for _, released := range []bool{false, true} {
		t.Run(fmt.Sprintf("released %v", released), func(t *testing.T) {
			defer goleak.VerifyNone(t)
			c, err := Launch([]string{"sleep", "60"}, nil, nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if released {
				if err := c.Release(); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := c.Kill(); err != nil {
					t.Fatal(err)
				}
				within(t, c.Wait(), "the end of a killed command")
			}
			if c.ExitCode() != 128+int(unix.SIGKILL) {
				t.Errorf("exit code %d", c.ExitCode())
			}
			if err := c.Release(); err != nil {
				t.Errorf("released after it was killed: %v", err)
			}
		})
	}
}

func TestHeldCommandDiesWithItsHolder(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(self)
	holder.Env = append(os.Environ(), holdEnv+"="+testenv.NeedProgram(t, "sleep"))
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer holder.Process.Kill()
	line, _ := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("the holder says %q", line)
	}
	ended, stop, err := Watch(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	holder.Process.Kill()
	within(t, ended, "the end of a held command whose holder was killed")
}

func TestLaunchErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "x", 0o644)
	lost := file("lost", "#!/no/such/interpreter\n", 0o755)
	text := file("text", "no program\n", 0o755)
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, "there is no command to start"},
		{[]string{""}, "there is no command to start"},
		{[]string{"no-such-program-anywhere"}, "no-such-program-anywhere: no such program in PATH"},
		{[]string{dir + "/absent"}, dir + "/absent: no such file"},
		{[]string{plain + "/x"}, plain + "/x: no such file"},
		{[]string{plain}, plain + ": not executable"},
		{[]string{dir}, dir + ": is a directory"},
		{[]string{lost}, lost + ": the interpreter that it names does not exist"},
		{[]string{text}, text + ": neither a program nor a script that names its interpreter"},
	} {
		c2, err := Launch(c.argv, nil, nil, nil, nil)
		if err == nil {
			c2.Kill()
			t.Errorf("%q was started", c.argv)
		} else if err.Error() != c.want {
			t.Errorf("%q: %v\nwant: %s", c.argv, err, c.want)
		}
	}
}
