// Command gomoved is a target whose goroutines make calls of some 50 µs each, in which
// nothing but registers is used. Their stacks are large, and so lie on other pages than
// what the runtime knows of them.
//
//	gomoved GOROUTINES CALLS
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
)

//go:noinline
func spins(n int) int {
	x := n
	for range 50_000 {
		x = x*1103515245 + 12345
	}
	return x
}

//go:noinline
func grows(n int) int {
	var room [1 << 10]byte
	room[n%len(room)] = byte(n)
	if n == 0 {
		return int(room[1])
	}
	return grows(n-1) + int(room[n%len(room)])
}

// self returns the address of the current g.
func self() uintptr

// touch is set if the program has thread-local data of C.
var touch = func() {}

func main() {
	debug.SetGCPercent(-1) // it would shrink the stacks
	goroutines, _ := strconv.Atoi(os.Args[1])
	calls, _ := strconv.Atoi(os.Args[2])
	begin := make(chan bool)
	var ready, over sync.WaitGroup
	ready.Add(goroutines)
	fmt.Println("ready")
	for range goroutines {
		over.Go(func() {
			touch()
			grows(1 << 11)
			fmt.Println(self())
			ready.Done()
			<-begin
			for i := range calls {
				spins(i)
			}
		})
	}
	ready.Wait()
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	close(begin)
	over.Wait()
}
