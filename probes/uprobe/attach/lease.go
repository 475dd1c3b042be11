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

// The kernel keeps probes by file and offset. Whoever writes into a probed file has it
// put breakpoints where another instruction begins now, perhaps in the middle of one,
// into each process that maps the file from then on, which dies of it. A read lease
// (fcntl(2), F_SETLEASE) has the kernel ask first: who opens the file to write waits
// until the lease is given up, and that is done when the probes are gone.

// errBeingWritten is of a file that somebody has open to write.
var errBeingWritten = errors.New("somebody has it open to write, and probes would be put into what is there then")

// Who has just written a program may have forked meanwhile: until that process executes
// one, it has the file open as well.
const (
	leaseTries = 10
	leasePause = 10 * time.Millisecond
)

// Leases are those on the files that are probed. Where a file system has none, or they
// are not ours to take, the files are probed without.
type Leases struct {
	// revoke takes the probes of a file away, before somebody writes into it.
	revoke func(process.FileID)

	mu    sync.Mutex
	files map[process.FileID]*Lease
	stop  chan struct{} // closed to end watch; nil while there are no leases
	done  sync.WaitGroup
}

// Lease is on one file, however many queries probe it.
type Lease struct {
	Id       process.FileID
	file     *os.File
	users    int
	breaking bool // somebody waits for it: nobody takes part any more
}

func NewLeases(broken func(process.FileID)) *Leases {
	return &Leases{revoke: broken, files: map[process.FileID]*Lease{}}
}

// Acquire takes a lease on a file, or takes part in the one there is; nil where there can be
// none. It fails with errBeingWritten.
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
	// A description of its own, which outlives f, and only reads.
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
	// To whom the kernel says so: else to this thread, which may end.
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

// Release gives back what take took.
func (l *Leases) Release(one *Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.users--; one.users == 0 {
		l.end(one)
	}
}

// end gives a lease up, if that has not been done. mu is held.
func (l *Leases) end(one *Lease) {
	if l.files[one.Id] == one {
		delete(l.files, one.Id)
		one.file.Close()
	}
}

// watch has the leases broken that somebody waits for, until stop is closed. The kernel
// tells that there is one with a signal, and not which.
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

// waitedFor lists the files that somebody wants to write into: their leases are already
// given as what they are to become.
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

// Close gives up all.
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
