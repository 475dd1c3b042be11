// Command goends is a target that ends while its goroutines are in the middle of
// calls, each at a depth of its own, and tells before of the calls and that they
// are left.
//
//	goends GOROUTINES exit|return|killed
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

//go:noinline
func down(n int, arrived *sync.WaitGroup, never chan int) int {
	if n == 0 {
		return waits(arrived, never)
	}
	return down(n-1, arrived, never) + 1
}

//go:noinline
func waits(arrived *sync.WaitGroup, never chan int) int {
	arrived.Done()
	return <-never
}

//go:noinline
func returns(n int) int { return n + 1 }

// told are the events of a goroutine that calls returns, and then down(n).
func told(n int) (lines []string) {
	b := make([]byte, 64)
	id := string(bytes.Fields(b[:runtime.Stack(b, false)])[1])
	add := func(event, function string, depth int) {
		lines = append(lines, fmt.Sprint(id, " ", event, " main.", function, " ", depth))
	}
	add("ENTER", "returns", 0)
	add("LEAVE", "returns", 0)
	for i := range n + 1 {
		add("ENTER", "down", i)
	}
	add("ENTER", "waits", n+1)
	add("UNWIND", "waits", n+1)
	for i := n; i >= 0; i-- {
		add("UNWIND", "down", i)
	}
	return lines
}

func main() {
	goroutines, _ := strconv.Atoi(os.Args[1])
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var arrived sync.WaitGroup
	var mu sync.Mutex
	w := bufio.NewWriter(os.Stdout)
	arrived.Add(goroutines)
	for g := range goroutines {
		go func() {
			lines := told(g % 50)
			mu.Lock()
			for _, l := range lines {
				fmt.Fprintln(w, l)
			}
			mu.Unlock()
			returns(g)
			down(g%50, &arrived, make(chan int))
		}()
	}
	arrived.Wait()
	w.Flush()
	switch os.Args[2] {
	case "exit":
		os.Exit(0)
	case "killed":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}
