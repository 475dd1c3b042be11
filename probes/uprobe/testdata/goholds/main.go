// Command goholds calls step on one goroutine after the other, while another is in hold.
package main

import (
	"bufio"
	"fmt"
	"os"
)

var sink int

//go:noinline
func step(n int) { sink += n }

//go:noinline
func hold(held chan<- bool, release <-chan bool) {
	held <- true
	<-release
}

func main() {
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	held, release, done := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		hold(held, release)
		done <- true
	}()
	<-held
	for range 4 {
		go func() {
			for n := range 500 {
				step(n)
			}
			done <- true
		}()
		<-done
	}
	close(release)
	<-done
}
