package sharing

import (
	"sync"
	"sync/atomic"
	"testing"

	"endoscope/probes/testenv"
)

// One round of collecting serves all calls made during the previous round. No
// call is served by a round that began before it.
func TestOneRoundServesAllThatWait(t *testing.T) {
	var r rounds
	begun, end := make(chan bool), make(chan bool)
	work := func([]*Part) error {
		begun <- true
		<-end
		return nil
	}
	var all sync.WaitGroup
	all.Go(func() { r.do(nil, work) })
	<-begun
	var served atomic.Int32
	for range 7 {
		all.Add(1)
		testenv.Alongside(t, func() {
			defer all.Done()
			r.do(nil, work)
			served.Add(1)
		})
	}
	end <- true
	<-begun
	if n := served.Load(); n != 0 {
		t.Errorf("%d were told of nothing that began after they asked", n)
	}
	end <- true
	all.Wait() // a third round would never end
}
