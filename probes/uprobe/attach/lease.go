package attach

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/process"
)

// The kernel keeps probes by file and offset. If a process writes into a probed file,
// breakpoints are set at offsets where other instructions, or parts of them, are now, in
// each process that maps the file afterwards. Such a process crashes. A read lease
// (fcntl(2), F_SETLEASE) makes the kernel ask first: open(2) for writing blocks until
// the lease is given up, which happens after the probes are detached.

// errBeingWritten is returned for a file that some process has open for writing.
var errBeingWritten = errors.New("it is open for writing: probes could be set in changed code")

// A process that has just written a program may have forked meanwhile: the child has the
// file open as well until it calls exec.
const (
	leaseTries = 10
	leasePause = 10 * time.Millisecond
)

// Leases holds the leases on probed files. Where a file system has no leases, or this
// process may not take them, files are probed without a lease.
type Leases struct {
	// revoke detaches the probes of a file before it is written.
	revoke func(process.FileID)

	mu    sync.Mutex
	files map[process.FileID]*Lease
	stop  chan struct{} // closed to end watch; nil while there are no leases
	done  sync.WaitGroup
}

// Lease is a lease on one file, shared by all queries that probe it.
type Lease struct {
	Id       process.FileID
	file     *os.File
	users    int
	breaking bool // a writer waits for it: no further query may share it
}

func NewLeases(broken func(process.FileID)) *Leases {
	return &Leases{revoke: broken, files: map[process.FileID]*Lease{}}
}

// Acquire takes a lease on a file, or shares the existing one. It returns nil where
// leases are impossible, and errBeingWritten where the file is open for writing.
func (l *Leases) Acquire(f *os.File, id process.FileID) (*Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have := l.files[id]; have != nil {
		if have.breaking {
			return nil, errBeingWritten
		}
		have.users++
		return have, nil
	}
	// A separate open file description: it outlives f, and is read-only.
	own, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return nil, nil
	}
	if l.stop == nil {
		l.stop = make(chan struct{})
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, unix.SIGIO) // before the first lease
		l.done.Add(1)
		go l.watch(asked, l.stop)
	}
	// The kernel signals this process; by default it signals this thread, which may
	// exit.
	_, err = unix.FcntlInt(own.Fd(), unix.F_SETOWN, os.Getpid())
	for tries := 0; err == nil; tries++ {
		_, err = unix.FcntlInt(own.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
		if !errors.Is(err, unix.EAGAIN) || tries == leaseTries {
			break
		}
		time.Sleep(leasePause)
		err = nil
	}
	if err == nil {
		l.files[id] = &Lease{Id: id, file: own, users: 1}
		return l.files[id], nil
	}
	own.Close()
	if errors.Is(err, unix.EAGAIN) {
		return nil, errBeingWritten
	}
	return nil, nil
}

// Holds reports whether a lease has not been broken.
func (l *Leases) Holds(one *Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[one.Id] == one && !one.breaking
}

// Release drops one use that Acquire returned.
func (l *Leases) Release(one *Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.users--; one.users == 0 {
		l.end(one)
	}
}

// end gives up a lease, unless that has been done. The caller holds mu.
func (l *Leases) end(one *Lease) {
	if l.files[one.Id] == one {
		delete(l.files, one.Id)
		one.file.Close()
	}
}

// watch revokes the leases that a writer waits for, until stop is closed. The kernel's
// signal does not say which lease is meant.
func (l *Leases) watch(asked chan os.Signal, stop chan struct{}) {
	defer l.done.Done()
	defer signal.Stop(asked)
	for {
		select {
		case <-stop:
			return
		case <-asked:
		}
		for _, one := range l.waitedFor() {
			l.revoke(one.Id)
			l.mu.Lock()
			l.end(one)
			l.mu.Unlock()
		}
	}
}

// waitedFor lists the leases on files that a process wants to write. F_GETLEASE already
// returns their future type.
func (l *Leases) waitedFor() (list []*Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.files {
		if kind, err := unix.FcntlInt(one.file.Fd(), unix.F_GETLEASE, 0); err == nil && kind == unix.F_UNLCK {
			one.breaking = true
			list = append(list, one)
		}
	}
	return list
}

// Close gives up all leases.
func (l *Leases) Close() {
	l.mu.Lock()
	for _, one := range l.files {
		l.end(one)
	}
	stop := l.stop
	l.stop = nil
	l.mu.Unlock()
	if stop != nil {
		close(stop)
		l.done.Wait()
	}
}
