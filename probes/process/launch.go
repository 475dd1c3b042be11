package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a program that was started and is held before its first
// instruction, that of the dynamic linker: its executable is mapped, none of
// its code has run.
//
// It is held by ptrace: the kernel stops a traced process when exec is done. It
// stays in our session and process group, so that the terminal and its signals
// reach it as if it ran alone. If we end before Release, in any way, the kernel
// kills it (PTRACE_O_EXITKILL).
type Command struct {
	process  *os.Process
	release  func() error // once
	released atomic.Bool
	let      chan struct{} // closed to release it
	letGo    chan error    // the result of that
	ended    chan struct{}
	exit     int // valid when ended is closed
}

// Launch starts argv, looked up in PATH as a shell does, and holds it. Nil
// files are /dev/null; a nil env is our own environment. A set-user-ID program
// runs without those rights unless we have CAP_SYS_PTRACE.
func Launch(argv []string, stdin, stdout, stderr *os.File, env []string) (*Command, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("there is no command to start")
	}
	program, err := lookPath(argv[0])
	if err != nil {
		return nil, err
	}
	files := []*os.File{stdin, stdout, stderr}
	for i, f := range files {
		if f != nil {
			continue
		}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		defer null.Close()
		files[i] = null
	}
	c := &Command{let: make(chan struct{}), letGo: make(chan error, 1), ended: make(chan struct{})}
	c.release = sync.OnceValue(func() error {
		close(c.let)
		select {
		case err := <-c.letGo:
			return err
		case <-c.ended:
			return nil
		}
	})
	started := make(chan error)
	go c.trace(program, argv, &os.ProcAttr{
		Env:   env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Ptrace: true},
	}, started)
	if err := <-started; err != nil {
		return nil, err
	}
	launched.Store(c.process.Pid, true)
	go c.wait()
	return c, nil
}

// trace starts the program and holds it until it is released or has ended. It
// runs on a thread of its own: only the thread that started a traced process
// may control it, and the process is detached when that thread ends.
func (c *Command) trace(program string, argv []string, attr *os.ProcAttr, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess(program, argv, attr)
	if err != nil {
		started <- startError(argv[0], program, err)
		return
	}
	c.process = p
	if err := hold(p.Pid); err != nil {
		p.Kill()
		p.Wait()
		started <- fmt.Errorf("%s cannot be held before it starts: %w", argv[0], err)
		return
	}
	started <- nil
	select {
	case <-c.let:
		err := unix.PtraceDetach(p.Pid)
		if err == unix.ESRCH { // it was killed meanwhile
			err = nil
		}
		c.letGo <- err
	case <-c.ended:
	}
}

// hold waits until the process stops after exec, and makes the kernel kill it
// when we end.
func hold(pid int) error {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &ws, unix.WALL, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return err
		}
	}
	if !ws.Stopped() {
		return errors.New("it ended at once")
	}
	return unix.PtraceSetOptions(pid, unix.PTRACE_O_EXITKILL)
}

// launched are the processes that Launch has started, by pid.
var launched sync.Map

// MayTrace reports whether a thread of this process may trace process pid: no other is to wait for
// it, since waiting for a child takes its stops from who traces it in the same process.
func MayTrace(pid int) bool {
	p, runs := Lookup(pid)
	_, ours := launched.Load(pid)
	return runs && (ours || p.Parent != os.Getpid())
}

func (c *Command) wait() {
	c.exit = -1
	defer launched.Delete(c.process.Pid)
	// A thread of this process may trace it: then waiting for the end would also take its stops.
	if ended, _, err := Watch(c.process.Pid); err == nil {
		<-ended
	}
	if s, err := c.process.Wait(); err == nil {
		c.exit = s.ExitCode()
		if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			c.exit = 128 + int(ws.Signal())
		}
	}
	close(c.ended)
}

// PID returns the pid of the process.
func (c *Command) PID() int { return c.process.Pid }

// Release lets the program run. It does nothing if the program runs already or
// has ended.
func (c *Command) Release() error {
	c.released.Store(true)
	return c.release()
}

// Wait returns a channel that is closed when the process has ended.
func (c *Command) Wait() <-chan struct{} { return c.ended }

// ExitCode returns the exit code of a process that has ended, 128 + n if signal
// n ended it, as in a shell; -1 while it runs.
func (c *Command) ExitCode() int {
	select {
	case <-c.ended:
		return c.exit
	default:
		return -1
	}
}

// graceAtEnd is the time that a running program has to end after SIGTERM.
const graceAtEnd = 2 * time.Second

// End ends the process if it still runs: by SIGTERM, if it is not held, and
// after a while by SIGKILL.
func (c *Command) End() error {
	if c.released.Load() {
		_ = c.process.Signal(syscall.SIGTERM) // not to another process that has its number now
		select {
		case <-c.ended:
			return nil
		case <-time.After(graceAtEnd):
		}
	}
	err := c.Kill()
	<-c.ended
	return err
}

// Kill ends the process, held or not.
func (c *Command) Kill() error {
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// lookPath finds the program with a name.
func lookPath(name string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil // exec reports what is wrong with it
	}
	program, err := exec.LookPath(name)
	switch {
	case err == nil:
		return program, nil
	case errors.Is(err, exec.ErrDot):
		return "", fmt.Errorf("%s: not found in PATH; the one in this directory is ./%s", name, name)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%s: not executable", name)
	}
	return "", fmt.Errorf("%s: no such program in PATH", name)
}

// startError says in the user's words why exec failed.
func startError(name, program string, err error) error {
	info, statErr := os.Stat(program)
	switch {
	case errors.Is(err, unix.ENOENT) && statErr == nil:
		return fmt.Errorf("%s: the interpreter that it names does not exist", name)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s: no such file", name)
	case errors.Is(err, unix.EACCES) && statErr == nil && info.IsDir():
		return fmt.Errorf("%s: is a directory", name)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: not executable", name)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%s: neither a program nor a script that names its interpreter", name)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: cannot be traced: permission denied", name)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("%s: %v", name, errno)
	}
	return fmt.Errorf("%s: %w", name, err)
}
