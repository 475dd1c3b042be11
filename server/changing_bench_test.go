package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/query"
)

// changing is a setting in which the functions are cheap to watch by night, when
// hardly any is called, and by day it is cheaper to watch the threads: probes on
// all functions then double the program's load, but do not make it look busy.
var changing = strategySetting{sampled: "thread_usage", every: "10ms", busy: 90, long: "2ms", threads: 400}

// loads are those between which the program changes: schedules of testdata/tpcc.
var loads = [...]string{"night", "day"}

const (
	phase  = 10 * time.Second
	phases = 6
)

// BenchmarkChangingLoad is what it costs to watch a program whose load changes
// every 10 s for a minute, in processor time of both, by each fixed plan and by the
// optimiser's choice, each in queries of its own. The plans take turns.
//
//	go test -run '^$' -bench ChangingLoad -benchtime 1x -timeout 60m ./server
//
// -short takes a third of the time, and two turns.
func BenchmarkChangingLoad(b *testing.B) {
	testenv.NeedUprobes(b)
	path := buildDatabase(b)
	keepAwake(b)
	functions := countedFunctions(b, path)
	turns, n := 6, phases
	if testing.Short() {
		turns, n = 2, len(loads)
	}
	for b.Loop() {
		var took [len(loads)]strategyPoint // of the phases of each load
		for i := range took {
			took[i].Took = make([][4]float64, turns*n/len(loads))
			took[i].Reference = make([][4]float64, turns*n/len(loads))
		}
		var switches []string
		for turn := range turns {
			for i := range strategyPlans {
				plan := (i + turn) % len(strategyPlans)
				d := startDatabase(b, path, changing.threads)
				q := watchBy(b, d, changing, functions, strategyPlans[plan])
				for k := range n {
					w, p := d.work(loads[k%len(loads)], phase), &took[k%len(loads)]
					at := (turn*n + k) / len(loads)
					p.Took[at][plan], p.Reference[at][plan] = w.used/phase.Seconds(), w.reference
				}
				if plan == auto {
					switches = append(switches, switchesOf(q))
				}
				q.rows(true)
				d.end()
			}
		}
		fmt.Printf("\n%s", changingTable(took, n/len(loads)))
		for _, s := range switches {
			fmt.Println("the optimiser's plans:", s)
		}
	}
}

// switchesOf are a query's changes of plan so far.
func switchesOf(q *asked) string {
	g := q.result.(*query.Result).Query.Gating
	g.Mu.Lock()
	defer g.Mu.Unlock()
	s := "all"
	for _, x := range g.Switches {
		s += fmt.Sprintf(", after %.0f s %s", x.After.Seconds(), g.Plans[x.To].Name)
	}
	return s
}

// changingTable has what each plan took at the usual speed of the processor, ns a
// second, and how the optimiser's choice compares with it: in turns of so many phases
// of each load.
func changingTable(took [len(loads)]strategyPoint, each int) string {
	var turns strategyPoint
	for _, p := range took {
		for i, phase := range p.even() {
			if i/each == len(turns.Took) {
				turns.Took = append(turns.Took, [4]float64{})
			}
			for plan, ns := range phase {
				turns.Took[i/each][plan] += ns / float64(each*len(loads))
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| plan | processor time, ms a second | in phases: %s | the optimiser's choice against it: mean, at most |\n|---|---|---|---|\n", strings.Join(loads[:], ", "))
	for plan, name := range []string{"all on", "functions first", "load first", "optimiser"} {
		fmt.Fprintf(&b, "| %s | %.0f |", name, turns.mean(plan)/1e6)
		for i := range took {
			fmt.Fprintf(&b, " %.0f", took[i].mean(plan)/1e6)
		}
		if plan == auto {
			b.WriteString(" | |\n")
			continue
		}
		mean, upper := meanAndUpper(turns.against(plan, auto))
		fmt.Fprintf(&b, " | %+.1f %%, %+.1f %% |\n", 100*mean, 100*upper)
	}
	return b.String()
}

// TestChangingTable: what a plan takes is the mean of its phases, at one speed of the
// processor; turns are compared, not phases.
func TestChangingTable(t *testing.T) {
	// By night nobody differs; by day the optimiser takes 200 where all takes 300, and the
	// processor was half as fast once.
	night := strategyPoint{Took: [][4]float64{{1e8, 1e8, 1e8, 1e8}, {1e8, 1e8, 1e8, 1e8}}, Reference: [][4]float64{{5, 5, 5, 5}, {5, 5, 5, 5}}}
	day := strategyPoint{Took: [][4]float64{{3e8, 4e8, 2e8, 2e8}, {6e8, 4e8, 2e8, 2e8}}, Reference: [][4]float64{{5, 5, 5, 5}, {10, 5, 5, 5}}}
	got := changingTable([...]strategyPoint{night, day}, 1)
	for _, line := range []string{"| all on | 200 | 100 300 | -25.0 %, -25.0 % |", "| load first | 150 | 100 200 | +0.0 %, +0.0 % |", "| optimiser | 150 | 100 200 | |"} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q:\n%s", line, got)
		}
	}
}
