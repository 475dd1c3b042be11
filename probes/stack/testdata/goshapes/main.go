// Command goshapes has goroutines that are parked, each in a shape of its own.
package main

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

var sink int

//go:noinline
func receive(c chan int) { sink += <-c }

//go:noinline
func viaReceive(c chan int) { receive(c); sink++ }

//go:noinline
func choose(a, b chan int) {
	select {
	case <-a:
	case <-b:
	}
	sink++
}

//go:noinline
func lock(m *sync.Mutex) { m.Lock(); sink++ }

//go:noinline
func await(c *sync.Cond) { c.L.Lock(); c.Wait(); sink++ }

//go:noinline
func doze() { time.Sleep(time.Hour); sink++ }

type server struct{ l net.Listener }

//go:noinline
func (s *server) serve() { s.l.Accept(); sink++ }

//go:noinline
func deep(n int, c chan int) int {
	if n == 0 {
		receive(c)
		return 1
	}
	return deep(n-1, c) + n
}

//go:noinline
func system(f *os.File) {
	var b [1]byte
	f.Fd() // from now on reads block a thread
	f.Read(b[:])
	sink++
}

//go:noinline
func spin() {
	for {
		sink++
	}
}

func main() {
	c := make(chan int)
	var m, m2 sync.Mutex
	m.Lock()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	r, _, _ := os.Pipe()
	go viaReceive(c)
	go choose(c, make(chan int))
	go lock(&m)
	go await(sync.NewCond(&m2))
	go doze()
	go (&server{l}).serve()
	go func() { sink += deep(100, c) }()
	go system(r)
	go spin()
	time.Sleep(50 * time.Millisecond)
	fmt.Println(1)
	receive(c)
}
