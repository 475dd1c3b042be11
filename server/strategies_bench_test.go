package server

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/planner/cost"
	"endoscope/probes/testenv"
	"endoscope/server/gating"
	"endoscope/server/query"
)

var (
	strategiesSVG   = flag.String("svg", "", "file for the picture that BenchmarkStrategies draws")
	strategiesTurns = flag.String("turns", "", "file of all that BenchmarkStrategies measured: a setting that is not run again keeps what it has there")
	strategiesMore  = flag.Bool("more", false, "BenchmarkStrategies adds to the turns that -turns has of the points that it runs")
	strategiesOnly  = flag.String("only", "", "shares of functions that BenchmarkStrategies runs, such as 30,60: others keep what they have in -turns")
)

// strategySetting is one of the settings in which strategies are compared.
type strategySetting struct {
	name, title string
	threads     int
	sampled     string
	every       string // it is sampled
	busy        int    // more than so many % of a CPU count
	long        string // calls that take more count
	shape       string
	order       func(x, y callCount) int
}

var strategySettings = []strategySetting{
	{name: "figure5", title: "functions in no order", sampled: "process_usage", every: "2ms", busy: 50, long: "2ms", shape: "bursts", order: inNoOrder},
	{name: "figure6", title: "long and rarely called functions first", sampled: "process_usage", every: "2ms", busy: 50, long: "2ms", shape: "bursts", order: longestFirst},
	{name: "dear", title: "samples of 500 threads", sampled: "thread_usage", every: "10ms", busy: 50, long: "8ms", shape: "audits", order: longestFirst, threads: 500},
}

// strategyQuery is the example of section 5.3, to be completed by what is sampled
// and how often, the functions, and a load: calls that take long while the program
// is busy. The program's own load is asked for, not the machine's, so that others do
// no harm.
const strategyQuery = `SELECT d.function_name, COUNT(*), AVG(d.duration), MAX(u.percent_cpu)
FROM function_duration d WINDOW JOIN SAMPLE(%s, %s) u WINDOW 50ms
WHERE d.function_name IN (%s) AND d.duration > %s AND u.percent_cpu > %d GROUP BY d.function_name`

// The plans: both inputs acquired all the time, the functions first, the load
// first; and what the optimiser makes of it.
var strategyPlans = []string{"all", "left", "right", "auto"}

const auto = 3 // of strategyPlans

const (
	settle = 100 * time.Millisecond // before each measurement
	slice  = 500 * time.Millisecond // measured: the period of the load
)

// seldom is in which turns, one of so many, a plan takes part that is surely not the
// best.
const seldom = 5

// precision is the width of an interval (half of it) with which a point is done:
// how much one slice differs from the next depends on the plan.
const precision = 0.0175

// BenchmarkStrategies is the experiment of section 7.3 of the EndoScope paper:
// what a transaction of a database costs, in processor time of database and
// engine, while a share of its functions is watched together with its load,
// by the plans of section 5.3 and by the optimiser's choice. The plans take turns
// in one query, whose gates are all there: a plan is which of them are held open.
// What the optimiser learns while it does not choose, it forgets.
//
//	go test -run '^$' -bench Strategies/figure5 -benchtime 1x -timeout 120m ./server -svg testdata/strategies.svg -turns testdata/strategies.json
//	go test -short -run '^$' -bench Strategies/figure6 -benchtime 1x ./server
//
// -short takes fewer points, and fewer turns.
func BenchmarkStrategies(b *testing.B) {
	testenv.NeedUprobes(b)
	path := buildDatabase(b)
	keepAwake(b)
	functions := countedFunctions(b, path)
	tables := earlierTables(b)
	for i, s := range strategySettings {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				t := compareStrategies(b, path, functions, s, tables[i])
				fmt.Printf("\n%s", t.markdown())
				tables[i] = t
			}
		})
	}
	keepTables(b, tables)
}

// earlierTables are the tables of all settings, as far as they were kept.
func earlierTables(b *testing.B) []strategyTable {
	tables := make([]strategyTable, len(strategySettings))
	text, err := os.ReadFile(*strategiesTurns)
	if err != nil { // the first run
		return tables
	}
	if err := json.Unmarshal(text, &tables); err != nil || len(tables) != len(strategySettings) {
		b.Fatalf("%s: %d settings, %v", *strategiesTurns, len(tables), err)
	}
	return tables
}

// keepTables writes what the flags ask for.
func keepTables(b *testing.B, tables []strategyTable) {
	if *strategiesTurns != "" {
		text, err := json.Marshal(tables)
		if err == nil {
			err = os.WriteFile(*strategiesTurns, text, 0o644)
		}
		if err != nil {
			b.Error(err)
		}
	}
	drawn := slices.DeleteFunc(slices.Clone(tables), func(t strategyTable) bool { return len(t.Points) == 0 })
	if len(drawn) == len(strategySettings) {
		fmt.Printf("\n%s", published(drawn))
	}
	if *strategiesSVG != "" && len(drawn) > 0 {
		if err := os.WriteFile(*strategiesSVG, []byte(drawStrategies(drawn)), 0o644); err != nil {
			b.Error(err)
		}
	}
}

func compareStrategies(b *testing.B, path string, functions []callCount, s strategySetting, earlier strategyTable) strategyTable {
	t := strategyTable{Name: s.name, Title: s.title}
	least, most, every := 15, 250, 10
	if testing.Short() {
		least, most, every = 3, 3, 45
	}
	functions = slices.SortedFunc(slices.Values(functions), s.order)
	only := strings.FieldsFunc(*strategiesOnly, func(r rune) bool { return r == ',' })
	for percent := 10; percent <= 100; percent += every {
		p := strategyPoint{Percent: percent, Functions: len(functions) * percent / 100}
		was := slices.IndexFunc(earlier.Points, func(p strategyPoint) bool { return p.Percent == percent })
		if len(only) > 0 && !slices.Contains(only, fmt.Sprint(percent)) {
			if was >= 0 {
				t.Points = append(t.Points, earlier.Points[was])
			}
			continue
		}
		if *strategiesMore && was >= 0 && earlier.Points[was].Functions == p.Functions {
			p = earlier.Points[was]
		}
		begun := len(p.Took)
		d := startDatabase(b, path, s.threads)
		none := d.work(s.shape, slice)
		made := none.made
		d.begin(s.shape, 10*time.Second) // what is asked about is at work
		steered := steer(b, d, s, functions[:p.Functions])
		d.finish() // meanwhile the optimiser makes up its mind
		for turn := begun; turn < least || turn < begun+most && p.width() > precision; turn++ {
			var took, reference [4]float64
			for i := range strategyPlans {
				plan := (i + turn) % len(strategyPlans)
				if turn >= least && turn%seldom != 0 && p.isOut(plan) {
					continue
				}
				steered.follow(plan)
				d.work("quiet", settle)
				steered.settled()
				w := d.work(s.shape, slice)
				took[plan], reference[plan] = w.perTransaction(), w.reference
				if plan == auto {
					p.Chosen[steered.inForce()]++
				}
			}
			p.Took, p.Reference = append(p.Took, took), append(p.Reference, reference)
		}
		p.None = none.perTransaction() * math.Pow(p.usual()/none.reference, p.slope())
		p.Estimated = steered.estimates(float64(slice) / made)
		steered.end()
		d.end()
		t.Points = append(t.Points, p)
	}
	return t
}

// steered is a query whose plan is chosen by the benchmark.
type steered struct {
	query *asked
	g     *gating.Gating
	plan  int // of strategyPlans
	knows knowledge
}

// knowledge is what the optimiser goes by.
type knowledge struct {
	chooser       cost.Chooser
	rates, needed []cost.Mean
}

// watchBy runs the query of a setting by a plan.
func watchBy(b *testing.B, d *database, setting strategySetting, functions []callCount, plan string) *asked {
	var names []string
	for _, f := range functions {
		names = append(names, "'"+f.name+"'")
	}
	s := sessionOn(b, d)
	configure(b, s, "join_gating = gated", "rate_window = 20ms", "max_overhead = 1000000", "join_plan = "+plan)
	return ask(b, s, fmt.Sprintf(strategyQuery, setting.sampled, setting.every, strings.Join(names, ", "), setting.long, setting.busy))
}

func steer(b *testing.B, d *database, setting strategySetting, functions []callCount) *steered {
	q := watchBy(b, d, setting, functions, "auto")
	g := q.result.(*query.Result).Query.Gating
	if len(g.Plans) != 3 {
		b.Fatalf("the plans are %+v", g.Plans)
	}
	return &steered{query: q, g: g, plan: auto}
}

// follow puts a plan into force, or leaves that to the optimiser.
func (s *steered) follow(plan int) {
	g := s.g
	g.Mu.Lock()
	defer g.Mu.Unlock()
	g.Observe()
	if s.plan == auto {
		s.knows = knowledge{chooser: g.Chooser}
		for _, in := range g.Inputs {
			s.knows.rates = append(s.knows.rates, in.Rate)
		}
		for _, e := range g.Links {
			s.knows.needed = append(s.knows.needed, e.Needed)
		}
	}
	s.plan, g.Mode = plan, strategyPlans[plan]
	if plan != auto {
		g.Enforce(plan)
		return
	}
	s.recall()
}

// settled says that the plan has settled: what it saw meanwhile, while the program had
// less to do than it is measured by, the optimiser forgets.
func (s *steered) settled() {
	s.g.Mu.Lock()
	defer s.g.Mu.Unlock()
	if s.plan == auto {
		s.g.Observe()
		s.recall()
	}
}

// recall gives the optimiser its knowledge back. g.mu is held.
func (s *steered) recall() {
	g := s.g
	g.Chooser = s.knows.chooser
	for i, in := range g.Inputs {
		in.Rate = s.knows.rates[i]
	}
	for i, e := range g.Links {
		e.Needed = s.knows.needed[i]
	}
	g.Enforce(g.Chooser.Current())
}

// estimates are what the optimiser takes the plans to cost in a time, ns.
func (s *steered) estimates(time float64) (ns [3]float64) {
	s.follow(auto)
	s.g.Mu.Lock()
	defer s.g.Mu.Unlock()
	for i, p := range s.g.Plans {
		ns[i] = cost.Of(s.g.Model(), p.Strategy) * time / 1e9
	}
	return ns
}

// inForce is the plan that is followed.
func (s *steered) inForce() int {
	s.g.Mu.Lock()
	defer s.g.Mu.Unlock()
	return s.g.Current
}

func (s *steered) end() { s.query.rows(true) }
