// Command gosampled is the program of a test of samples: goroutines serve requests, and log when
// each request surely was under way, and when none was: the thread, or -goroutine for one that has
// none while it waits, request (0: none), since, until by CLOCK_MONOTONIC.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	rounds = 60
	ms     = 1_000_000
)

//go:noinline
func now() int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

var (
	mu  sync.Mutex
	out *bufio.Writer
)

type span struct{ owner, id, since, until int64 }

type worker struct {
	owner int64
	parks bool
	spans []span
}

func (w *worker) note(id, since, until int64) {
	w.spans = append(w.spans, span{w.owner, id, since, until})
}

//go:noinline
func busy(ns int64) {
	for end := now() + ns; now() < end; {
	}
}

// rest waits with its thread, or without one.
//
//go:noinline
func (w *worker) rest() {
	if w.parks {
		time.Sleep(6 * time.Millisecond)
		return
	}
	t := syscall.NsecToTimespec(6 * ms)
	syscall.Nanosleep(&t, nil)
}

//go:noinline
func grow(depth int) int {
	var room [1024]byte
	if depth > 0 {
		return grow(depth-1) + int(room[depth])
	}
	busy(2 * ms)
	return int(room[0])
}

//go:noinline
func (w *worker) handle(id int64) {
	since := now()
	if !w.parks {
		busy(2 * ms)
	}
	w.rest()
	grow(int(id) % 40)
	w.note(id, since, now())
}

func (w *worker) work(of int64) {
	if w.parks {
		var b [64]byte
		n, _ := strconv.Atoi(strings.Fields(string(b[:runtime.Stack(b[:], false)]))[1])
		w.owner = -int64(n)
	} else {
		runtime.LockOSThread()
		w.owner = int64(syscall.Gettid())
	}
	for i := range int64(rounds) {
		w.handle(of*1000 + i)
		since := now()
		busy(2 * ms)
		w.rest()
		w.note(0, since, now())
	}
}

func main() {
	f, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	out = bufio.NewWriter(f)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var group sync.WaitGroup
	for i := range int64(4) {
		group.Go(func() {
			w := &worker{parks: i%2 == 1}
			w.work(i + 1)
			mu.Lock()
			defer mu.Unlock()
			for _, s := range w.spans {
				fmt.Fprintln(out, s.owner, s.id, s.since, s.until)
			}
		})
	}
	group.Wait()
	out.Flush()
	f.Close()
}
