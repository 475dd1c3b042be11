package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// The daemon is two processes. The supervisor opens the listeners and runs a worker, which
// serves them:
//
//	supervisor ── listeners, what is refused ──► worker
//	           ◄── statements that begin and end ──
//
// A worker that dies is restarted. The listeners stay open meanwhile, so clients that
// connect wait. What the worker has attached is detached by the kernel when its links are
// closed, by its end or by its keeper (package keeper).

// workerEnv is set in a worker's environment. Its value names the inherited listeners, in
// order, after the two pipes.
const workerEnv = "ENDOSCOPED_WORKER"

// Descriptors that a worker inherits.
const (
	journalFD   = 3
	startFD     = 4
	listenersFD = 5
)

// Pauses before restarts double, until a worker has lived for steady.
const (
	firstRestart = 200 * time.Millisecond
	mostRestart  = 30 * time.Second
	steady       = time.Minute
)

// supervise runs workers until ctx is done or one ends by itself, and returns the exit
// code.
func (p Program) supervise(ctx context.Context, c *config, args []string, log *slog.Logger) int {
	l, err := c.open()
	if err != nil {
		return p.refuse(err)
	}
	defer l.close()
	if err := l.share(); err != nil {
		return p.refuse(err)
	}
	s := &supervisor{p: p, args: args, listeners: l, log: log, denials: newDenials()}
	pause := firstRestart
	for {
		began := time.Now()
		code, ended := s.work(ctx)
		switch {
		case ctx.Err() != nil, ended == "", !s.served:
			return code
		}
		s.start.Restarts, s.start.Cause = time.Now(), ended
		if time.Since(began) > steady {
			pause = firstRestart
		}
		log.Error("the worker has died, and is restarted", "cause", ended, "pause", pause, "executing", len(s.running))
		denied := s.denials.died(time.Now(), s.running)
		shown := 0
		for _, e := range s.running {
			if shown++; shown <= 20 || denied[e.Key] {
				log.Warn("a statement was being executed", "user", e.User, "statement", e.Text, "refused", denied[e.Key])
			}
		}
		s.start.Denied = maps.Clone(s.denials.until)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return exitDone
		}
		pause = min(2*pause, mostRestart)
	}
}

type supervisor struct {
	p         Program
	args      []string
	listeners *opened
	log       *slog.Logger
	denials   *denials
	start     start
	served    bool            // a worker was ready
	running   map[int64]entry // statements of the worker
}

// work runs one worker until it ends. ended says how it has died; "": it has ended by
// itself, with the exit code.
func (s *supervisor) work(ctx context.Context) (code int, ended string) {
	journal, journalEnd, err := os.Pipe()
	if err != nil {
		return exitFailed, err.Error()
	}
	defer journal.Close()
	defer journalEnd.Close()
	startEnd, start, err := os.Pipe()
	if err != nil {
		return exitFailed, err.Error()
	}
	defer startEnd.Close()
	defer start.Close()
	exe, err := os.Executable()
	if err != nil {
		return exitFailed, err.Error()
	}
	cmd := exec.Command(exe, s.args...)
	cmd.Stdout, cmd.Stderr = s.p.Stdout, s.p.Stderr
	cmd.WaitDelay = time.Second // others may hold its standard error
	cmd.Env = append(os.Environ(), workerEnv+"="+strings.Join(s.listeners.names, ","), "NOTIFY_SOCKET=")
	cmd.ExtraFiles = append([]*os.File{journalEnd, startEnd}, s.listeners.files...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	// The kernel sends that signal when the thread ends, not the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return exitFailed, err.Error()
	}
	journalEnd.Close()
	startEnd.Close()
	go func() { // the pipe may not hold it all
		_ = json.NewEncoder(start).Encode(s.start)
		start.Close()
	}()
	read := make(chan struct{})
	s.running = map[int64]entry{}
	go func() {
		defer close(read)
		s.follow(journal)
	}()
	stop := context.AfterFunc(ctx, func() {
		notify("STOPPING=1")
		_ = cmd.Process.Signal(syscall.SIGTERM)
	})
	err = cmd.Wait()
	stop()
	_ = journal.SetReadDeadline(time.Now().Add(time.Second)) // what it has written can be read at once
	<-read
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled():
		return exitFailed, fmt.Sprintf("signal: %s", exit.Sys().(syscall.WaitStatus).Signal())
	case errors.As(err, &exit):
		return exit.ExitCode(), fmt.Sprintf("exit code %d", exit.ExitCode())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return exitFailed, err.Error()
	}
	return exitDone, ""
}

// follow reads what a worker tells.
func (s *supervisor) follow(journal io.Reader) {
	lines := json.NewDecoder(bufio.NewReader(journal))
	for {
		var e entry
		if lines.Decode(&e) != nil {
			return
		}
		switch {
		case e.Ready:
			s.served = true
			notify("READY=1")
		case e.Begin != 0:
			s.running[e.Begin] = e
		case e.End != 0:
			delete(s.running, e.End)
		}
	}
}

// inherit returns the journal of a worker, and the listeners that it has inherited; nil:
// this process is no worker.
func inherit() (*journal, *opened, error) {
	names, ok := os.LookupEnv(workerEnv)
	if !ok {
		return nil, nil, nil
	}
	_ = os.Unsetenv(workerEnv) // not for the programs that it starts
	l := &opened{}
	if names != "" {
		l.names = strings.Split(names, ",")
	}
	for fd := journalFD; fd < listenersFD+len(l.names); fd++ {
		syscall.CloseOnExec(fd)
	}
	from := os.NewFile(startFD, "start")
	defer from.Close()
	var s start
	if err := json.NewDecoder(from).Decode(&s); err != nil {
		return nil, nil, fmt.Errorf("the supervisor cannot be read: %w", err)
	}
	for i, name := range l.names {
		f := os.NewFile(uintptr(listenersFD+i), name)
		x, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return nil, nil, err
		}
		l.add(name, x)
	}
	return newJournal(os.NewFile(journalFD, "journal"), s), l, nil
}
