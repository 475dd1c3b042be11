// Command gosequence is a target whose goroutines each write down the calls
// that they make: while these grow their stacks, go on on other threads, panic,
// recover and end in mid-call.
//
//	gosequence GOROUTINES ROUNDS
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"unsafe"
)

// log is what one goroutine writes down.
type log struct {
	goroutine string
	notes     []note
	open      []string // calls under way
}

type note struct {
	event, name string
	depth       int
}

func (l *log) enter(name string) {
	l.notes = append(l.notes, note{"ENTER", name, len(l.open)})
	l.open = append(l.open, name)
}

func (l *log) leave() { l.end("LEAVE") }

// unwound says that all calls but the outermost n were left without returning.
func (l *log) unwound(n int) {
	for len(l.open) > n {
		l.end("UNWIND")
	}
}

func (l *log) end(event string) {
	n := len(l.open) - 1
	l.notes = append(l.notes, note{event, l.open[n], n})
	l.open = l.open[:n]
}

//go:noinline
func leaf(l *log, n int) int {
	l.enter("main.leaf")
	if n%4 == 0 {
		runtime.Gosched()
	}
	l.leave()
	return n
}

// deep makes the stack grow, and shrink behind it.
//
//go:noinline
func deep(l *log, n int) int {
	l.enter("main.deep")
	var room [200]byte
	room[n%len(room)] = byte(n)
	r := int(room[(n+1)%len(room)])
	if n > 0 {
		r += deep(l, n-1)
	} else {
		r += leaf(l, 0)
	}
	l.leave()
	return r
}

//go:noinline
func fib(l *log, n int) int {
	l.enter("main.fib")
	r := n
	if n >= 2 {
		r = fib(l, n-1) + fib(l, n-2)
	}
	l.leave()
	return r
}

// relay waits for another goroutine.
//
//go:noinline
func relay(l *log, n int, c chan int) int {
	l.enter("main.relay")
	leaf(l, 1)
	c <- n
	r := <-c
	l.leave()
	return r
}

// catches recovers from what fails deep below, and makes calls in each of its
// deferred functions: before it recovers, and behind.
//
//go:noinline
func catches(l *log, n int) (r int) {
	l.enter("main.catches")
	depth := len(l.open)
	defer func() {
		l.unwound(depth)
		leaf(l, 3)
		l.leave()
	}()
	defer func() {
		if e := recover(); e != nil {
			leaf(l, 2)
		}
	}()
	return fails(l, n)
}

//go:noinline
func fails(l *log, n int) int {
	l.enter("main.fails")
	returns := false
	defer func() {
		if returns {
			l.leave()
		}
	}()
	defer func() { leaf(l, 5) }()
	r := 0
	switch {
	case n > 1:
		r = fails(l, n-1)
	case n == 1:
		panic("failed")
	}
	r += leaf(l, 7)
	returns = true
	return r
}

// ends ends its goroutine at a depth of its own.
//
//go:noinline
func ends(l *log, n int) int {
	l.enter("main.ends")
	defer func() { leaf(l, 9) }()
	if n > 0 {
		return ends(l, n-1)
	}
	l.unwound(0)
	runtime.Goexit()
	return n
}

// sum is assembler, which has its own use for the register of the goroutine: it
// leaves there where p's numbers end.
func sum(p *int, n int) int

//go:noinline
func sums(l *log, n int) int {
	l.enter("main.sums")
	// What is behind the numbers looks like the bounds of this stack.
	var here byte
	sp := uintptr(unsafe.Pointer(&here))
	a := struct {
		numbers [3]int
		lo, hi  uintptr
	}{[3]int{n, n, n}, sp - 4096, sp + 4096}
	touch()
	l.enter("main.sum")
	r := sum(&a.numbers[0], len(a.numbers))
	l.leave()
	if r != 3*n {
		panic("wrong sum")
	}
	l.leave()
	return r
}

// T has methods, of which one is called through an interface.
type T struct{ n int }

type worker interface{ work(*log) int }

//go:noinline
func (t *T) work(l *log) int {
	l.enter("main.(*T).work")
	r := leaf(l, t.n)
	l.leave()
	return r
}

// touch writes to the thread-local data of C, if the program has some.
var touch = func() {}

func newLog() *log {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	return &log{goroutine: string(bytes.Fields(b)[1])}
}

func main() {
	runtime.GOMAXPROCS(4) // several threads also where there is one processor
	goroutines, _ := strconv.Atoi(os.Args[1])
	rounds, _ := strconv.Atoi(os.Args[2])
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var mu sync.Mutex
	var logs []*log
	keep := func(l *log) {
		mu.Lock()
		defer mu.Unlock()
		logs = append(logs, l)
	}
	echo := make(chan int)
	go func() {
		for n := range echo {
			echo <- n
		}
	}()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			l := newLog()
			defer keep(l)
			var w worker = &T{g}
			for i := range rounds {
				switch n := g + i; n % 7 {
				case 0:
					deep(l, 100+n%50)
				case 1:
					fib(l, 5)
				case 2:
					if g%8 == 0 {
						relay(l, n, echo)
					}
				case 3:
					catches(l, n%5)
				case 4:
					w.work(l)
					sums(l, n)
				case 5:
					done := make(chan bool)
					go func() { // whose g is used again
						defer close(done)
						l := newLog()
						defer keep(l)
						ends(l, n%3)
					}()
					<-done
				case 6:
					if n%20 == 0 {
						runtime.GC()
					}
					leaf(l, n)
				}
			}
			if g == 0 {
				deep(l, 4000)
			}
		})
	}
	wg.Wait()
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for _, l := range logs {
		for _, n := range l.notes {
			fmt.Fprintln(w, l.goroutine, n.event, n.name, n.depth)
		}
	}
}
