package fleet_test

import (
	"fmt"
	"slices"
	"time"

	"endoscope/server/wire"
)

// A host that has answered counts with a total that is not older than fresh: it is given up after
// patience without a total, and answers take some time. One that is silent counts with a total
// that is older than patience, but for what clocks and processors take. A shard is given up after
// twice the patience, and its reducer may have waited for the host before.
const (
	patience      = 3 * time.Second
	fresh         = patience + 4*time.Second
	freshInShards = fresh + 2*patience
)

// coverageWitness compares what a result says of its hosts with what the hosts have written down.
type coverageWitness struct {
	*cluster
	result wire.Result
	stale  map[int]bool // hosts that were said to have answered, and had an old total
	// checked is when it compared, and resumed when it did after a time in which this process did not run:
	// answers are late for a while.
	checked, resumed time.Time
	// times is how often it compared, answered and silent how many hosts were in these states.
	times, answered, silent int
}

// check compares the states of all hosts after an answer. It returns which have answered.
func (w *coverageWitness) check(answer totals) (answered map[int]bool) {
	w.Helper()
	answered = map[int]bool{}
	fresh, silent := fresh, patience-500*time.Millisecond
	if len(w.reducers) > 0 { // which say each second which hosts are silent
		fresh, silent = freshInShards, silent-1500*time.Millisecond
	}
	hosts, now := w.result.Summary().Hosts, time.Now()
	if now.Sub(w.checked) > patience {
		w.resumed = now
	}
	w.checked = now
	late := now.Sub(w.resumed) < patience
	if len(hosts) != len(w.hosts) {
		w.Errorf("the result has %d hosts of %d: %v", len(hosts), len(w.hosts), hosts)
	}
	for _, h := range hosts {
		var i int
		if _, err := fmt.Sscanf(h.Name, "h%d", &i); err != nil {
			w.Fatal(err)
		}
		all, got := givenIn(w.witness(i, w.starts[i])), answer[w.key(i, w.starts[i])]
		counts := w.began[i] // it may not have counted yet
		if at := slices.IndexFunc(all, func(g given) bool { return g.total == got }); at >= 0 {
			counts = all[at].at
		}
		age := now.Sub(counts)
		if answered[i] = h.State == wire.HostAnswered; answered[i] {
			w.answered++
			// A host may be heard again between an answer and the look at its state.
			if age > fresh && w.stale[i] && !late {
				w.Errorf("at %s %s has answered, and counts with what it gave %v ago (%d)", now.Format(clockLayout), h.Name, age, got)
			}
			w.stale[i] = age > fresh
			continue
		}
		w.silent++
		delete(w.stale, i)
		if got != 0 && age < silent && !late {
			w.Errorf("at %s %s is %s (%s), and counts with what it gave %v ago (%d)", now.Format(clockLayout), h.Name, h.State, h.Why, age, got)
		}
	}
	w.times++
	return answered
}

// newest returns the newest answer that has arrived, or the next.
func (w *coverageWitness) newest(answers <-chan totals) totals {
	w.Helper()
	last, ok := <-answers
	if !ok {
		w.Fatal("the result has ended")
	}
	for {
		select {
		case a, ok := <-answers:
			if !ok {
				return last
			}
			last = a
		default:
			return last
		}
	}
}
