package sysmon

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// slack is by how much the kernel may prolong a sleep of the monitor. It is also how much longer
// a goroutine may wait for a P that another one keeps in a system call.
const slack = time.Millisecond

// A wait of more than Long is left to the runtime's poller until Ending before its end, where the
// thread itself has to be woken in time: meanwhile no thread waits in the kernel.
const (
	Long   = 20 * time.Millisecond
	Ending = 2 * time.Millisecond
)

// Relax gives the monitor's thread a timer slack of a millisecond (proc_pid_timerslack_ns(5)).
// It needs CAP_SYS_NICE, and has no effect without.
func Relax() { _ = relaxed() }

var relaxed = sync.OnceValue(func() error {
	tid, err := thread()
	if err != nil {
		return err
	}
	return os.WriteFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid), strconv.AppendInt(nil, int64(slack), 10), 0)
})

// thread returns the id of the monitor's thread: the first that the runtime has started.
func thread() (int, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, err
	}
	main, next, least := os.Getpid(), 0, 0
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil || tid == main {
			continue
		}
		if tid > main && (next == 0 || tid < next) {
			next = tid
		}
		if least == 0 || tid < least {
			least = tid
		}
	}
	if next == 0 { // the kernel has begun with low numbers again
		next = least
	}
	if next == 0 {
		return 0, os.ErrNotExist
	}
	return next, nil
}
