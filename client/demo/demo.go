package demo

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Frame pointers and DWARF are kept so that stacks and args.NAME work on it.
//go:generate gcc -Wall -Wextra -O1 -g -fno-inline -fno-omit-frame-pointer -fno-optimize-sibling-calls -fdebug-prefix-map=${PWD}=. -o target/endoscope-demo target/demo.c

//go:embed target/endoscope-demo
var program []byte

// startup is the time limit for the program to start its threads.
const startup = 10 * time.Second

// Target is the running program.
type Target struct {
	cmd   *exec.Cmd
	stdin io.Closer // the program ends when this is closed
	dir   string
}

// Start writes the program to a temporary directory, starts it, and returns when all
// its threads run. The caller must call Stop. If the caller is killed, the program
// ends by itself because its standard input closes.
func Start() (*Target, error) {
	dir, err := os.MkdirTemp("", "endoscope-demo-")
	if err != nil {
		return nil, err
	}
	t := &Target{dir: dir}
	if err := t.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("the demo program does not start: %w", err), t.Stop())
	}
	return t, nil
}

func (t *Target) start() error {
	path := filepath.Join(t.dir, "endoscope-demo")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		return err
	}
	cmd := exec.Command(path)
	cmd.Stderr = os.Stderr
	// Its own process group, so that Ctrl-C interrupts the query but not the program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.cmd, t.stdin = cmd, stdin

	ready := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(stdout).ReadString('\n')
		ready <- err
	}()
	select {
	case err := <-ready:
		return err
	case <-time.After(startup):
		return fmt.Errorf("no output within %v", startup)
	}
}

// PID returns the program's process id.
func (t *Target) PID() int { return t.cmd.Process.Pid }

// Stop ends the program and removes it.
func (t *Target) Stop() error {
	if t.cmd != nil {
		_ = t.stdin.Close()
		_ = t.cmd.Process.Kill() // a stopped process does not notice the closed pipe
		_ = t.cmd.Wait()         // "killed" is expected
	}
	return os.RemoveAll(t.dir)
}
