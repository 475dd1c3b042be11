// Command godepth is a target whose goroutines end in the middle of calls, so
// that others get their g, and whose panics leave calls behind.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
)

//go:noinline
func worker(n int) int { return step(n) + 1 }

//go:noinline
func step(n int) int {
	if n%2 == 0 {
		runtime.Goexit()
	}
	return leaf(n) + leaf(n)
}

//go:noinline
func leaf(n int) int { runtime.Gosched(); return n }

// far is not monitored: what it calls lies further in than worker and step did.
//
//go:noinline
func far(n int) int {
	var room [2048]byte
	room[n%len(room)] = 1
	return lone(n) + int(room[0])
}

//go:noinline
func lone(n int) int { return leaf(n) + 1 }

//go:noinline
func catches(n int) (r int) {
	defer func() { recover() }()
	return throws(n)
}

//go:noinline
func throws(n int) int {
	if n > 0 {
		return throws(n-1) + 1
	}
	panic("thrown")
}

//go:noinline
func down(n int) int {
	if n == 0 {
		return 0
	}
	return down(n-1) + 1
}

func main() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for i := range 300 {
		var wg sync.WaitGroup
		for j := range 4 {
			wg.Go(func() {
				if (i+j)%4 < 2 {
					worker(i + j)
					return
				}
				far(i + j)
				catches(3)
				leaf(0)
			})
		}
		wg.Wait()
	}
	down(3000)
}
