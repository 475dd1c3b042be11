// Command goserver is the program of a test: its goroutines serve requests, sleep and yield in the middle of them,
// so that they go on on other threads, grow their stacks, and fail in every third. It writes
// its own log: the function, the number of the call, and the request.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const goroutines, rounds, functions = 100, 3, 10

var (
	calls   atomic.Int64
	entries [1 << 16]struct {
		function int
		id       string
	}
)

//go:noinline
func note(function int, n int64, id string) {
	entries[n].function, entries[n].id = function, id
	switch function % 3 {
	case 1:
		time.Sleep(time.Duration(n%5) * 100 * time.Microsecond)
	case 2:
		runtime.Gosched()
	default:
		grow(int(n) % 100)
	}
}

//go:noinline
func grow(depth int) int {
	var room [256]byte
	if depth > 0 {
		return grow(depth-1) + int(room[depth])
	}
	return int(room[0])
}

//go:noinline
func work0(n int64, id string) { note(0, n, id) }

//go:noinline
func work1(n int64, id string) { note(1, n, id) }

//go:noinline
func work2(n int64, id string) { note(2, n, id) }

//go:noinline
func work3(n int64, id string) { note(3, n, id) }

//go:noinline
func work4(n int64, id string) { note(4, n, id) }

//go:noinline
func work5(n int64, id string) { note(5, n, id) }

//go:noinline
func work6(n int64, id string) { note(6, n, id) }

//go:noinline
func work7(n int64, id string) { note(7, n, id) }

//go:noinline
func work8(n int64, id string) { note(8, n, id) }

//go:noinline
func work9(n int64, id string) { note(9, n, id) }

var works = [functions]func(int64, string){work0, work1, work2, work3, work4, work5, work6, work7, work8, work9}

//go:noinline
func handle(id string, fails bool) {
	for _, work := range works {
		work(calls.Add(1)-1, id)
	}
	if fails {
		panic("failed")
	}
}

//go:noinline
func outside() {
	n := calls.Add(1) - 1
	works[n%functions](n, "")
}

//go:noinline
func try(id string, fails bool) {
	defer func() { recover() }()
	handle(id, fails)
}

func main() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for r := range rounds {
				try(fmt.Sprintf("%d-%d", g, r), r%3 == 0)
				outside()
			}
		})
	}
	all.Wait()
	f, _ := os.Create(os.Args[1])
	defer f.Close()
	for n := range calls.Load() {
		fmt.Fprintf(f, "main.work%d %d %s\n", entries[n].function, n, entries[n].id)
	}
}
