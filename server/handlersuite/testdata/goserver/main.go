// Command goserver is a server in the usual style of Go: goroutines that read
// connections, workers that range over a channel, a loop around select, and HTTP.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

var sink int

//go:noinline
func burn(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		for i := range 1000 {
			sink += i
		}
	}
}

type job struct{ n int }

//go:noinline
func process(j job) { burn(1500 * time.Microsecond); sink += j.n }

func worker(jobs chan job) {
	for j := range jobs {
		process(j)
	}
}

//go:noinline
func handleMessage(line string) { burn(1500 * time.Microsecond); sink += len(line) }

func serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		handleMessage(line)
	}
}

type hub struct {
	commands chan int
	ticks    *time.Ticker
}

//go:noinline
func (h *hub) onCommand(n int) { burn(1500 * time.Microsecond); sink += n }

//go:noinline
func (h *hub) onTick() { burn(1500 * time.Microsecond); sink++ }

func (h *hub) run() {
	for {
		select {
		case n := <-h.commands:
			h.onCommand(n)
		case <-h.ticks.C:
			h.onTick()
		}
	}
}

func hello(w http.ResponseWriter, r *http.Request) {
	burn(1500 * time.Microsecond)
	fmt.Fprintln(w, "hello")
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l
}

func main() {
	jobs := make(chan job)
	for range 3 {
		go worker(jobs)
	}
	lines := listen()
	go func() {
		for {
			c, err := lines.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	h := &hub{make(chan int), time.NewTicker(10 * time.Millisecond)}
	go h.run()
	web := listen()
	http.HandleFunc("/", hello)
	go http.Serve(web, nil)

	client, err := net.Dial("tcp", lines.Addr().String())
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			time.Sleep(10 * time.Millisecond)
			if r, err := http.Get("http://" + web.Addr().String()); err == nil {
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
		}
	}()
	for n := 0; ; n++ {
		time.Sleep(10 * time.Millisecond)
		jobs <- job{n}
		h.commands <- n
		fmt.Fprintln(client, "message", n)
	}
}
