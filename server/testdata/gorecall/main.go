// Command gorecall is the program of a test of RECALL: goroutines serve requests, some of them
// slowly, and log the calls that they make, each as two letters. At the end it prints for each
// goroutine "log ID EVENTS" and "slow ID POSITIONS": how much of the log there was after each
// slow call.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	workers  = 6
	requests = 15
)

type worker struct {
	id    int
	seed  uint32
	log   []byte
	slows []string
	sink  int
}

func (w *worker) next(below int) int {
	w.seed = w.seed*1103515245 + 12345
	return int(w.seed>>16) % below
}

//go:noinline
func leaf(w *worker) {
	w.log = append(w.log, "El"...)
	w.sink++
	w.log = append(w.log, "Ll"...)
}

//go:noinline
func branch(w *worker, depth int) {
	w.log = append(w.log, "Eb"...)
	if depth > 0 {
		branch(w, depth-1)
		leaf(w)
	}
	w.log = append(w.log, "Lb"...)
}

// slow waits without a thread: another one may go on with the goroutine.
//
//go:noinline
func slow(w *worker) {
	w.log = append(w.log, "Es"...)
	time.Sleep(time.Millisecond)
	w.log = append(w.log, "Ls"...)
}

//go:noinline
func request(w *worker) {
	w.log = append(w.log, "Er"...)
	for range w.next(40) {
		branch(w, w.next(4))
	}
	if w.next(3) == 0 {
		slow(w)
		w.slows = append(w.slows, strconv.Itoa(len(w.log)/2))
	}
	w.log = append(w.log, "Lr"...)
}

func (w *worker) serve() {
	var b [64]byte
	w.id, _ = strconv.Atoi(strings.Fields(string(b[:runtime.Stack(b[:], false)]))[1])
	for range requests {
		request(w)
		runtime.Gosched()
	}
}

func main() {
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	var all [workers]worker
	var group sync.WaitGroup
	for i := range all {
		all[i].seed = uint32(i)
		group.Go(all[i].serve)
	}
	group.Wait()
	for i := range all {
		fmt.Printf("log %d %s\n", all[i].id, all[i].log)
		fmt.Printf("slow %d %s\n", all[i].id, strings.Join(all[i].slows, ","))
	}
	fmt.Println("done")
	in.ReadString('\n')
}
