package server

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// changing is a setting in which the functions are cheap to watch by night, when
// hardly any is called, and by day it is cheaper to watch the threads: probes on
// all functions then double the program's load, but do not make it look busy.
var changing = strategySetting{sampled: "thread_usage", every: "10ms", busy: 90, long: "2ms", threads: 500}

const (
	phase  = 10 * time.Second
	phases = 6
)

// BenchmarkChangingLoad is what it costs to watch a program whose load changes
// every 10 s for a minute, in processor time of both, by each fixed plan and by the
// optimiser's choice, each in queries of its own. The plans take turns.
//
//	go test -run '^$' -bench ChangingLoad -benchtime 1x -timeout 40m ./server
//
// -short takes half of the time, and one turn.
func BenchmarkChangingLoad(b *testing.B) {
	testenv.NeedUprobes(b)
	path := buildDatabase(b)
	functions := countedFunctions(b, path)
	turns, n := 3, phases
	if testing.Short() {
		turns, n = 1, phases/2
	}
	for b.Loop() {
		took := make([][]float64, len(strategyPlans))
		var switches []string
		for turn := range turns {
			for i := range strategyPlans {
				plan := (i + turn) % len(strategyPlans)
				d := startDatabase(b, path, changing.threads)
				q := watchBy(b, d, changing, functions, strategyPlans[plan])
				used := 0.0
				for k := range n {
					used += d.work([]string{"night", "day"}[k%2], phase).used
				}
				took[plan] = append(took[plan], used/float64(n)/phase.Seconds())
				if plan == auto {
					switches = append(switches, switchesOf(q))
				}
				q.rows(true)
				d.end()
			}
		}
		fmt.Printf("\n%s", changingTable(took))
		for _, s := range switches {
			fmt.Println("the optimiser's plans:", s)
		}
	}
}

// switchesOf are a query's changes of plan so far.
func switchesOf(q *asked) string {
	g := q.result.(*queryResult).q.gating
	g.mu.Lock()
	defer g.mu.Unlock()
	s := "all"
	for _, x := range g.switches {
		s += fmt.Sprintf(", after %.0f s %s", x.after.Seconds(), g.plans[x.to].name)
	}
	return s
}

// changingTable has what each plan took, ns a second in each turn, and how the
// optimiser's choice compares with it.
func changingTable(took [][]float64) string {
	var b strings.Builder
	b.WriteString("| plan | processor time, ms a second | the optimiser's choice against it: mean, at most |\n|---|---|---|\n")
	for plan, name := range []string{"all on", "functions first", "load first", "optimiser"} {
		mean, _ := meanAndUpper(took[plan])
		fmt.Fprintf(&b, "| %s | %.0f |", name, mean/1e6)
		if plan == auto {
			b.WriteString(" |\n")
			continue
		}
		var ratios []float64
		for turn := range took[plan] {
			ratios = append(ratios, took[auto][turn]/took[plan][turn]-1)
		}
		mean, upper := meanAndUpper(ratios)
		fmt.Fprintf(&b, " %+.1f %%", 100*mean)
		if !math.IsInf(upper, 1) {
			fmt.Fprintf(&b, ", %+.1f %%", 100*upper)
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
