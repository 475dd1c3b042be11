// Command goexits is a target whose calls grow their stacks, park, resume on
// other threads, panic and end with their goroutines. It measures its longer
// calls itself.
//
//	goexits GOROUTINES SECONDS
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

//go:noinline
func deep(n int) int {
	var room [256]byte // makes the stack grow often
	room[n%len(room)] = byte(n)
	if n == 0 {
		runtime.Gosched()
		return int(room[0])
	}
	return deep(n-1) + int(room[(n+1)%len(room)])
}

// nap parks, and grows its stack while it is under way.
//
//go:noinline
func nap(id int, d time.Duration) int {
	time.Sleep(d)
	return deep(100+id%100) + id
}

//go:noinline
func relay(id int, c chan int) int {
	c <- id
	return <-c
}

//go:noinline
func risky(n int) (r int) {
	defer func() {
		if e := recover(); e != nil {
			r = -1
		}
	}()
	return fails(n)
}

//go:noinline
func fails(n int) int {
	if n%3 == 0 {
		panic(n)
	}
	return n
}

//go:noinline
func ends(n int) int {
	if n%2 == 0 {
		runtime.Goexit()
	}
	return n
}

// own is what a goroutine knows of its calls of nap.
type own struct{ id, took, ns int64 }

func main() {
	runtime.GOMAXPROCS(4) // several threads also where there is one processor
	goroutines, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	var calls [6]atomic.Int64 // deep nap relay risky fails ends
	var unfinished atomic.Int64
	var mu sync.Mutex
	var all []own
	var wg sync.WaitGroup
	echo := make(chan int)
	go func() {
		for n := range echo {
			echo <- n
		}
	}()
	for g := range goroutines {
		wg.Go(func() {
			var mine []own
			for round := 0; time.Now().Before(end) || round == 0; round++ {
				id := round*goroutines + g
				began := time.Now()
				nap(id, time.Millisecond+time.Duration(id%7)*time.Millisecond)
				mine = append(mine, own{int64(id), 0, int64(time.Since(began))})
				calls[1].Add(1)
				calls[0].Add(int64(101 + id%100))
				if g == 0 {
					relay(id, echo)
					calls[2].Add(1)
					deep(5000)
					calls[0].Add(5001)
				}
				risky(id)
				calls[3].Add(1)
				calls[4].Add(1)
				if id%3 == 0 {
					unfinished.Add(1)
				}
				done := make(chan bool)
				go func() { // whose g is used again
					defer close(done)
					ends(id)
				}()
				<-done
				calls[5].Add(1)
				if id%2 == 0 {
					unfinished.Add(1)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for i, name := range []string{"deep", "nap", "relay", "risky", "fails", "ends"} {
		fmt.Fprintln(w, "calls", "main."+name, calls[i].Load())
	}
	fmt.Fprintln(w, "unfinished", unfinished.Load())
	slices.SortFunc(all, func(a, b own) int { return int(a.id - b.id) })
	for _, o := range all {
		fmt.Fprintln(w, "nap", o.id, o.ns)
	}
}
