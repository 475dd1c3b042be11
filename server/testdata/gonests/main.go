// Command gonests is the program of a test of sequences: for each line of its input, two
// goroutines call outer as often as it says. That calls middle twice, which calls inner; between
// these it calls rest, which gives the thread away.
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

var sink [2]int64

//go:noinline
func inner(i int) {
	for k := range 20000 {
		sink[i] += int64(k)
	}
}

//go:noinline
func rest(i int) {
	sink[i]++
	runtime.Gosched()
	time.Sleep(50 * time.Microsecond)
}

//go:noinline
func middle(i int) {
	inner(i)
	sink[i]++
}

//go:noinline
func outer(i int) {
	middle(i)
	rest(i)
	middle(i)
	sink[i]++
}

func main() {
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line))
		var group sync.WaitGroup
		for i := range 2 {
			group.Go(func() {
				for range n {
					outer(i)
				}
			})
		}
		group.Wait()
		fmt.Println("done")
	}
}
