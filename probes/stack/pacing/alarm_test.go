package pacing

import (
	"testing"
	"time"

	"endoscope/probes/sysmon"
)

// A sleep ends in time, and at once when the alarm is rung, even before it began;
// ringing after Close has no effect.
func TestAlarm(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	const hour, short = time.Hour, 2 * time.Millisecond
	a.Ring()
	a.Ring()
	a.Sleep(hour)
	for _, d := range []time.Duration{short, sysmon.Long + short} {
		begin := time.Now()
		for time.Since(begin) < d { // it may wake early
			a.Sleep(d - time.Since(begin))
		}
	}
	woken := make(chan struct{})
	rung := make(chan struct{})
	go func() {
		defer close(woken)
		for {
			a.Sleep(hour)
			select {
			case <-rung:
				return
			default:
			}
		}
	}()
	close(rung)
	a.Ring()
	<-woken
	a.Close()
	a.Ring()
}
