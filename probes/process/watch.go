package process

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Watch returns a channel that is closed when process pid ends, and a function
// that stops watching (the channel then stays open; safe to call twice).
//
// It waits on a pidfd, which becomes readable when the last thread of the
// process has ended, with the Go runtime's network poller: a watch costs a file
// descriptor and a parked goroutine, no thread and no polling.
func Watch(pid int) (<-chan struct{}, func(), error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err == unix.ESRCH {
		return nil, nil, fmt.Errorf("there is no process %d", pid)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("process %d cannot be watched: %w", pid, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("process %d cannot be watched: %w", pid, err)
	}
	ended := make(chan struct{})
	go func() {
		// Read fails, and the channel stays open, when f is closed by cancel.
		if conn.Read(readable) == nil {
			close(ended)
		}
		f.Close()
	}()
	return ended, sync.OnceFunc(func() { f.Close() }), nil
}

func readable(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// WatchAll returns a channel that is closed when all of these processes have
// ended, and a function that stops watching (the channel then stays open; safe to
// call twice). include is called for each pid, with the error of Watch or when
// the process is watched, so that a reuse of the pid is noticed from then on; a
// process for which it returns false is not waited for.
func WatchAll(pids []int, include func(pid int, err error) bool) (<-chan struct{}, func()) {
	var ends []<-chan struct{}
	var cancels []func()
	for _, pid := range pids {
		end, cancel, err := Watch(pid)
		if err == nil {
			cancels = append(cancels, cancel)
		}
		if include(pid, err) {
			ends = append(ends, end)
		}
	}
	all, canceled := make(chan struct{}), make(chan struct{})
	go func() {
		for _, end := range ends {
			select {
			case <-end:
			case <-canceled:
				return
			}
		}
		close(all)
	}()
	return all, sync.OnceFunc(func() {
		close(canceled)
		for _, cancel := range cancels {
			cancel()
		}
	})
}
