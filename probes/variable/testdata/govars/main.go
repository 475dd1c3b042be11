// Command govars has variables, which it writes as its input says.
package main

import (
	"bufio"
	"fmt"
	"os"
)

type state uint8

type config struct {
	port  uint16
	debug bool
	limit struct{ rate float64 }
	name  string
}

var (
	counter int64
	mode    state
	settled = config{port: 80, name: "first"}
)

//go:noinline
func count(n int64) { counter += n }

//go:noinline
func (c *config) set(port int) {
	c.port = uint16(port)
	c.limit.rate = float64(port) / 8
	c.name = fmt.Sprint("port ", port)
}

//go:noinline
func enter(s state) { mode = s }

func main() {
	fmt.Println(1)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int
		fmt.Sscan(in.Text()[1:], &n)
		switch in.Text()[0] {
		case 'c':
			count(int64(n))
		case 'g': // on any thread
			done := make(chan bool)
			go func() { count(int64(n)); close(done) }()
			<-done
		case 's':
			settled.set(n)
		case 'm':
			enter(state(n))
		}
		fmt.Println(1)
	}
}
