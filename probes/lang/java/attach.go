package java

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/process"
)

// Timeouts of the attach protocol; tests have longer ones.
var (
	attachWait = 10 * time.Second // for the socket to appear, as the tools of the JDK wait
	answerWait = 2 * time.Second  // for a complete answer
)

const maxAnswer = 64 << 20

// Errors for machines that cannot be asked.
var (
	// ErrSignal is returned for machines that SIGQUIT would kill.
	ErrSignal = errors.New("it does not handle SIGQUIT, and has no attach socket: it cannot be asked")
	// ErrDisabled is returned for machines that would write a thread dump to
	// their own output instead.
	ErrDisabled = errors.New("it was started with -XX:+DisableAttachMechanism: it cannot be asked")
)

var errRefused = errors.New("the virtual machine refuses")

// Machine is a running Java virtual machine.
type Machine struct {
	pid   int
	inner int   // pid in its own namespace
	tmp   int   // descriptor of its /tmp
	own   []int // threads that write dumps, by tid; nil: unknown
}

// Attach makes sure that a machine accepts commands. It takes about 10 ms the
// first time, and may signal the machine.
func Attach(pid int) (*Machine, error) {
	m := &Machine{pid: pid, inner: process.InnerPID(pid), tmp: -1}
	if m.inner == 0 {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	m.tmp, err = unix.Openat2(root, "tmp", &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, fmt.Errorf("its /tmp: %w", err)
	}
	if !m.hasSocket() {
		if err := m.start(); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

// Close releases our resources. The machine keeps its socket.
func (m *Machine) Close() {
	if m.tmp >= 0 {
		unix.Close(m.tmp)
		m.tmp = -1
	}
}

func (m *Machine) socketName() string { return fmt.Sprintf(".java_pid%d", m.inner) }

func (m *Machine) hasSocket() bool {
	var st unix.Stat_t
	err := unix.Fstatat(m.tmp, m.socketName(), &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// start makes the machine create its socket (AttachListener::is_init_trigger).
func (m *Machine) start() error {
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", m.pid)); err == nil && bytes.Contains(b, []byte("-XX:+DisableAttachMechanism\x00")) {
		return ErrDisabled
	}
	if !catches(m.pid, unix.SIGQUIT) {
		return ErrSignal
	}
	name := fmt.Sprintf(".attach_pid%d", m.inner)
	cwd, err := unix.Open(fmt.Sprintf("/proc/%d/cwd", m.pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(cwd)
	dir := cwd
	how := &unix.OpenHow{Flags: unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_WRONLY | unix.O_CLOEXEC, Mode: 0o600,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(dir, name, how)
	if err != nil { // if the file cannot be created in its working directory, the machine looks into /tmp
		dir = m.tmp
		if fd, err = unix.Openat2(dir, name, how); err != nil {
			return fmt.Errorf("the file that asks for its socket cannot be made: %w", err)
		}
	}
	unix.Close(fd)
	defer func() { _ = unix.Unlinkat(dir, name, 0) }() // the machine may have removed it
	// Checked again, since it may have executed another program meanwhile.
	if !catches(m.pid, unix.SIGQUIT) {
		return ErrSignal
	}
	if err := unix.Kill(m.pid, unix.SIGQUIT); err != nil {
		return err
	}
	for deadline := time.Now().Add(attachWait); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if m.hasSocket() {
			return nil
		}
	}
	return fmt.Errorf("it made no attach socket within %v", attachWait)
}

// catches reports whether a process has a handler for a signal.
func catches(pid int, signal unix.Signal) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, line, ok := bytes.Cut(b, []byte("\nSigCgt:"))
	if !ok {
		return false
	}
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	set, err := strconv.ParseUint(strings.TrimSpace(string(line)), 16, 64)
	return err == nil && set>>(uint(signal)-1)&1 != 0
}

// ask sends a command and returns the answer.
func (m *Machine) ask(command string, arguments ...string) ([]byte, error) {
	// The path through the descriptor follows no symbolic link except the last
	// component; isPeer checks that the machine is at the other end.
	c, err := net.DialTimeout("unix", fmt.Sprintf("/proc/self/fd/%d/%s", m.tmp, m.socketName()), answerWait)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerWait)); err != nil {
		return nil, err
	}
	if err := m.isPeer(c.(*net.UnixConn)); err != nil {
		return nil, err
	}
	request := "1\x00" + command + "\x00" // the protocol's version
	for i := range 3 {
		if i < len(arguments) {
			request += arguments[i]
		}
		request += "\x00"
	}
	if _, err := io.WriteString(c, request); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(c, maxAnswer))
	if err != nil {
		return nil, err
	}
	code, text, _ := bytes.Cut(answer, []byte{'\n'})
	if string(code) != "0" {
		return nil, fmt.Errorf("%w %s: %.200q", errRefused, command, answer)
	}
	return text, nil
}

// isPeer checks that the peer of the connection is the machine.
func (m *Machine) isPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if int(cred.Pid) != m.pid {
		return fmt.Errorf("its attach socket is served by another process (%d)", cred.Pid)
	}
	return nil
}
