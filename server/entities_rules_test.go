package server_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/consistency"
	"endoscope/operators/expr"
	"endoscope/operators/graph"
	"endoscope/operators/optest/rules"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/elf"
	"endoscope/probes/entities"
	"endoscope/probes/process"
	"endoscope/probes/sched"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe"
)

// filters are conditions under which a program is looked at.
var filters = []string{
	"thread_name LIKE 'worker%'",
	"thread_name = 'visitor'",
	"category = 'OBJECT'",
	"category = 'INVOCATION' AND name LIKE '%area'",
	"category = 'THREAD'",
	"event = 'ACQUIRE'",
	"event IN ('BEGIN_WAIT', 'END_WAIT')",
	"event IN ('LEAVE', 'RECLAIM', 'RELEASE')",
	"type_name = 'Square'",
	"TRUE",
}

// pausing are the arguments with which busy.cc pauses for so long between its rounds. It
// does for 2 ms without, and what happens until a query is armed is much on a busy machine.
func pausing(d time.Duration) []string {
	return []string{fmt.Sprint(1 << 30), fmt.Sprint(d.Microseconds())}
}

// audit is one run of CONSISTENT over a program: what happened, in the order in
// which the operator was told of it, and what it reported.
type audit struct {
	t    *testing.T
	sch  types.Schema // of what happened, with the column that says what is selected
	down graph.Leaf
	// what gets the events that are acquired
	lower *graph.Graph
	mu    sync.Mutex

	full    []consistency.Event
	seqs    map[string]uint64 // of what happened, by what rows say of it
	reports []consistency.Report
	lost    map[string]uint64
	ended   chan struct{}
	open    int

	losing bool // events are to be lost
	halts  bool // reporting is to be suspended and resumed by turns

	keeper *consistency.Keeper // told the same, to see how much it remembers
	most   [2]int              // that it remembered, in the first half and in the second
	half   time.Time
}

func (a *audit) text(b *batch.Batch, row int, name string) string {
	v := b.Cols[a.sch.Index(name)].Value(row)
	if v.IsNull {
		return ""
	}
	return v.S
}

func (a *audit) event(b *batch.Batch, row int) consistency.Event {
	e := consistency.Event{Time: b.Cols[a.sch.Time].Int[row], Entity: a.text(b, row, "entity_id"), Parent: a.text(b, row, "parent_id"), Other: a.text(b, row, "other_id"),
		Thread: a.text(b, row, "thread_id"), TypeName: a.text(b, row, "type_name"), Name: a.text(b, row, "name")}
	e.Category, _ = consistency.ParseCategory(a.text(b, row, "category"))
	e.Kind, _ = consistency.ParseKind(a.text(b, row, "event"))
	return e
}

// keys say which event a row is of: with the thread, for which a report may have
// UNKNOWN, and without.
func keys(at int64, e consistency.Event) [2]string {
	about := fmt.Sprint(at, e.Category, e.Kind, e.Entity)
	return [2]string{about + " on " + e.Thread, about}
}

// what is told to the operator, it is told behind being noted.
type noting struct{ *audit }

func (n noting) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	a := n.audit
	selected := len(a.sch.Fields) - 1
	for i := range b.Len() {
		row := b.Row(i)
		e := a.event(b, row)
		a.full = append(a.full, e)
		for _, key := range keys(e.Time, e) {
			a.seqs[key] = uint64(len(a.full))
		}
		v := b.Cols[selected].Value(row)
		a.keeper.Push(e, !v.IsNull && v.I != 0, "")
		half := 0
		if time.Now().After(a.half) {
			half = 1
		}
		a.most[half] = max(a.most[half], a.keeper.Live())
	}
	return a.down.Op.Push(ctx, a.down.Port, b)
}

func (n noting) Signal(ctx context.Context, port int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap {
		n.keeper.Lost()
	}
	return n.down.Op.Signal(ctx, n.down.Port, s)
}

func (n noting) Close(ctx context.Context, port int) error { return n.down.Op.Close(ctx, n.down.Port) }

// reporting takes what the operator reports.
type reporting struct{ *audit }

func (r reporting) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	a := r.audit
	n := len(a.sch.Fields) - 1
	for i := range b.Len() {
		row := b.Row(i)
		e := a.event(b, row)
		at := e.Time
		e.Time = b.Cols[n+1].Int[row]
		of := keys(e.Time, e)
		if e.Seq = a.seqs[of[0]]; e.Seq == 0 {
			e.Seq = a.seqs[of[1]]
		}
		a.reports = append(a.reports, consistency.Report{Event: e, At: at, CatchUp: b.Cols[n].Value(row).I != 0})
	}
	return operators.More, nil
}

func (r reporting) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap && s.N > 0 {
		r.lost[s.Cause] += s.N
	}
	return operators.More, nil
}

func (reporting) Close(context.Context, int) error { return nil }

// leafSink gives what a source acquires to a leaf.
type leafSink struct {
	*audit
	leaf graph.Leaf
}

func (s leafSink) do(f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := f(); err != nil {
		s.t.Error(err)
	}
}

func (s leafSink) Push(b *batch.Batch) {
	defer b.Release()
	s.do(func() error { _, err := s.leaf.Op.Push(context.Background(), s.leaf.Port, b); return err })
}
func (s leafSink) Partial(b *batch.Batch) { b.Release() }
func (s leafSink) Watermark(t int64) {
	s.do(func() error {
		_, err := s.leaf.Op.Signal(context.Background(), s.leaf.Port, operators.Signal{Kind: operators.Watermark, Time: t})
		return err
	})
}
func (s leafSink) Lost(cause string, n uint64) {
	s.do(func() error {
		s.lost[cause] += n
		_, err := s.leaf.Op.Signal(context.Background(), s.leaf.Port, operators.Signal{Kind: operators.Gap, Cause: cause})
		return err
	})
}
func (s leafSink) Count(string, uint64) {}
func (s leafSink) End(err error) {
	s.do(func() error {
		if s.open--; s.open == 0 {
			close(s.ended)
		}
		return err
	})
}

// saw reports whether there is what a test is about: something selected was
// reported, and where events are to be lost, some were.
func (a *audit) saw() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	selected, ended := 0, 0
	for _, r := range a.reports {
		if !r.CatchUp {
			selected++
		}
		if r.Kind == consistency.Ended {
			ended++
		}
	}
	if a.losing {
		return len(a.lost) > 0 && ended > 0 && len(a.reports) >= 100
	}
	return selected > 0 && len(a.full) >= 10
}

// match compiles a selection of functions, as the engine does.
func match(sel plan.Expr) (func(name, class, module string) (bool, error), error) {
	schema := []types.Type{types.Varchar, types.Varchar, types.Varchar}
	f, err := expr.CompileFilter(sel, schema)
	return func(name, class, module string) (bool, error) {
		b := batch.New(schema)
		b.AppendRow(types.Str(name), types.Str(class), types.Str(module))
		rows, err := f.Select(b, nil)
		return len(rows) == 1, err
	}, err
}

// everyone gives what a source acquires to the leaves of several audits.
type everyone []leafSink

func (e everyone) Push(b *batch.Batch) {
	for _, s := range e {
		s.Push(b.Retain())
	}
	b.Release()
}
func (everyone) Partial(b *batch.Batch) { b.Release() }
func (e everyone) Watermark(t int64) {
	for _, s := range e {
		s.Watermark(t)
	}
}
func (e everyone) Lost(cause string, n uint64) {
	for _, s := range e {
		s.Lost(cause, n)
	}
}
func (everyone) Count(string, uint64) {}
func (e everyone) End(err error) {
	for _, s := range e {
		s.End(err)
	}
}

// build makes the operators of an audit of a process, under a condition.
func (a *audit) build(pid int, filter string) {
	t := a.t
	t.Helper()
	text := fmt.Sprintf("SELECT * FROM CONSISTENT((SELECT * FROM entity_events WHERE %s UNION ALL SELECT * FROM activity_events WHERE %s))", filter, filter)
	stmt, err := parser.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q, err := planner.Plan(stmt.(*parser.Query), text, &planner.Env{Views: definitions.NewViews(), Triggers: definitions.NewTriggers(), Target: plan.Target{PIDs: []int{pid}}, Eval: expr.EvalConst})
	if err != nil {
		t.Fatal(err)
	}
	var node *plan.Consistent
	var find func(plan.Node)
	find = func(n plan.Node) {
		if c, ok := n.(*plan.Consistent); ok {
			node = c
		}
		for _, in := range n.Inputs() {
			find(in)
		}
	}
	find(q.Root)
	a.sch = node.Input.Schema()
	a.seqs, a.lost, a.ended = map[string]uint64{}, map[string]uint64{}, make(chan struct{})
	a.keeper = consistency.NewKeeper(func(consistency.Report) {}, 0)
	upper, err := graph.Build(node.WithInputs([]plan.Node{&plan.Acquire{Stream: "events", Out: a.sch}}), reporting{a}, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.down = upper.Leaves[0]
	a.lower, err = graph.Build(node.Input, noting{a}, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.open = len(a.lower.Leaves)
	for _, leaf := range a.lower.Leaves {
		leaf.Acquire.Settings.Lateness = 100 * time.Millisecond
		leaf.Acquire.Start, leaf.Acquire.Stop = 0, 0 // where the statement names the stream
	}
}

// acquires reports whether the events of other are those of a.
func (a *audit) acquires(other *audit) bool {
	return slices.EqualFunc(a.lower.Leaves, other.lower.Leaves, func(x, y graph.Leaf) bool { return reflect.DeepEqual(x.Acquire, y.Acquire) })
}

// run looks at a process for a while, under a condition.
func (a *audit) run(p *entities.Provider, pid int, filter string, length time.Duration) {
	a.t.Helper()
	a.build(pid, filter)
	runAll(a.t, p, []*audit{a}, length)
}

// runAll looks at a process for a while, for audits of the same events.
func runAll(t *testing.T, p *entities.Provider, audits []*audit, length time.Duration) {
	t.Helper()
	for _, a := range audits {
		a.half = time.Now().Add(length / 2)
	}
	var sources []probes.Source
	for n, leaf := range audits[0].lower.Leaves {
		var sink everyone
		for _, a := range audits {
			sink = append(sink, leafSink{a, a.lower.Leaves[n]})
		}
		source, err := p.Prepare(context.Background(), leaf.Acquire)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source)
		if err := source.Start(context.Background(), sink, probes.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	audits[0].turns(sources, length)
	for _, a := range audits {
		testenv.Until(t, "there is what the test is about", a.saw)
	}
	for _, source := range sources {
		if err := source.Stop(); err != nil {
			t.Error(err)
		}
	}
	for _, a := range audits {
		<-a.ended
		for _, leaf := range a.lower.Leaves {
			if err := leaf.Op.Close(context.Background(), leaf.Port); err != nil {
				t.Error(err)
			}
		}
	}
}

// turns lets a while pass: reporting is suspended and resumed meanwhile if it is to be.
func (a *audit) turns(sources []probes.Source, length time.Duration) {
	const turn = 50 * time.Millisecond
	if !a.halts {
		time.Sleep(length) // in which the target is observed
		return
	}
	for began := time.Now(); time.Since(began) < length; {
		for _, kind := range []operators.SignalKind{operators.Suspend, operators.Resume} {
			a.mu.Lock()
			_, err := a.down.Op.Signal(context.Background(), a.down.Port, operators.Signal{Kind: kind})
			a.mu.Unlock()
			if err != nil {
				a.t.Error(err)
			}
			for _, s := range sources {
				if _, err := s.Control(context.Background(), probes.Suspend{All: kind == operators.Suspend}); err != nil {
					a.t.Error(err)
				}
			}
			time.Sleep(turn) // in which reporting rests, or goes on
		}
	}
}

// TestRulesUnderSuspension: while nobody reports, calls are overlooked; no rule is
// broken for that, and what becomes of objects is known all the time.
func TestRulesUnderSuspension(t *testing.T) {
	testenv.NeedUprobes(t)
	prog := steps(t, "busy.cc", pausing(20*time.Millisecond)...)
	prog.begin()
	a := &audit{t: t, halts: true}
	a.run(providers(t, 0), prog.pid(), "thread_name LIKE 'worker%' AND category = 'INVOCATION'", time.Second)
	if found := rules.Check(a.full, a.reports); len(found) > 0 {
		t.Errorf("%d violations, the first: %v", len(found), found[0])
	}
	calls, doubtful := 0, 0
	for _, e := range a.full {
		if e.Kind == consistency.Enter {
			calls++
		}
		if e.Category == consistency.Object && e.Kind == consistency.Ended {
			doubtful++
		}
	}
	t.Logf("%d events, %d calls, %d reports; lost %v; %d objects of which it is not known when they ended", len(a.full), calls, len(a.reports), a.lost, doubtful)
	if len(a.lost) == 0 && doubtful > 0 {
		t.Errorf("of %d objects it is not known when they ended", doubtful)
	}
}

// providers are those of entities; ringBytes is that of the buffer of calls, 0 the
// usual one.
func providers(t *testing.T, ringBytes int) *entities.Provider {
	calls := uprobe.New(uprobe.Options{Match: match, RingBytes: ringBytes})
	t.Cleanup(func() { calls.Close() })
	return entities.New(calls, sched.New(), &elf.Cache{})
}

// processorTimeOf is what a process has used so far.
func processorTimeOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var s process.Stat
	if err != nil || !process.ParseStat(b, &s) {
		t.Fatalf("process %d: %v", pid, err)
	}
	return time.Duration(s.UserTicks+s.SystemTicks) * 10 * time.Millisecond
}

// TestRulesUnderLoss: where the kernel has no room for events, what is reported still
// breaks no rule, and goes on.
func TestRulesUnderLoss(t *testing.T) {
	testenv.NeedUprobes(t)
	prog := steps(t, "busy.cc")
	prog.begin()
	a := &audit{t: t, losing: true}
	a.run(providers(t, 8<<10), prog.pid(), "thread_name LIKE 'worker%'", time.Second)
	if found := rules.Check(a.full, a.reports); len(found) > 0 {
		t.Errorf("%d violations, the first: %v", len(found), found[0])
	}
	unknown := 0
	for _, r := range a.reports {
		if r.Kind == consistency.Ended {
			unknown++
		}
	}
	t.Logf("lost %v; %d events, %d reports, %d of them that something ended unseen", a.lost, len(a.full), len(a.reports), unknown)
	if len(a.lost) == 0 || unknown == 0 || len(a.reports) < 100 {
		t.Errorf("lost %v, %d reports, %d ended unseen", a.lost, len(a.reports), unknown)
	}
}

// TestRulesOfRealPrograms: whatever is selected of a program with several threads,
// what CONSISTENT reports of it breaks no rule, everything selected is reported, and
// what it remembers does not grow.
func TestRulesOfRealPrograms(t *testing.T) {
	testenv.NeedUprobes(t)
	prog := steps(t, "busy.cc", pausing(300*time.Millisecond)...)
	prog.begin()
	checkRules(t, prog.pid(), filters)
}

// javaFilters are those of a program of Java.
var javaFilters = []string{
	"category = 'INVOCATION' AND name LIKE '%tax'",
	"event = 'BEGIN_WAIT'",
	"thread_name LIKE 'clerk%'",
	"thread_name = 'clerk1'",
	"type_name LIKE 'app.Shop%'",
	"category = 'THREAD'",
	"category = 'TYPE'",
	"event IN ('LEAVE', 'RECLAIM', 'END_WAIT')",
	"event = 'ENTER' AND name LIKE '%<init>'",
	"TRUE",
}

// TestRulesOfJava is the same of a Java machine: of all conditions under
// ENDOSCOPE_SOAK, else of some.
func TestRulesOfJava(t *testing.T) {
	testenv.NeedUprobes(t)
	prog := java(t)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if _, err := io.WriteString(prog.in, "\n"); err != nil {
				return
			}
			if _, err := prog.out.ReadString('\n'); err != nil {
				return
			}
		}
	}()
	some := javaFilters[:1]
	if os.Getenv("ENDOSCOPE_SOAK") != "" {
		some = javaFilters
	}
	checkRules(t, prog.pid(), some)
}

// checkRules looks at a process under several conditions.
func checkRules(t *testing.T, pid int, filters []string) {
	length := 300 * time.Millisecond
	soak := os.Getenv("ENDOSCOPE_SOAK") != ""
	if soak {
		length = time.Minute
	}
	p := providers(t, 0)
	idle := processorTimeOf(t, pid)
	time.Sleep(length) // in which the target runs
	t.Logf("without monitoring the program takes %.1f %% of a processor", 100*(processorTimeOf(t, pid)-idle).Seconds()/length.Seconds())
	audits := make([]*audit, len(filters))
	var alike [][]*audit // of the same events: conditions on the category may limit them
	for i, filter := range filters {
		a := &audit{t: t}
		a.build(pid, filter)
		audits[i] = a
		n := slices.IndexFunc(alike, func(others []*audit) bool { return others[0].acquires(a) })
		if n < 0 {
			n, alike = len(alike), append(alike, nil)
		}
		alike[n] = append(alike[n], a)
	}
	for _, some := range alike {
		began, theirs, ours := time.Now(), processorTimeOf(t, pid), processorTimeOf(t, os.Getpid())
		runAll(t, p, some, length)
		took := time.Since(began).Seconds()
		theirs, ours = processorTimeOf(t, pid)-theirs, processorTimeOf(t, os.Getpid())-ours
		t.Logf("%d conditions; processor: program %.1f %%, monitor with this test %.1f %%", len(some), 100*theirs.Seconds()/took, 100*ours.Seconds()/took)
	}
	for i, a := range audits {
		t.Run(strings.ReplaceAll(filters[i], " ", "_"), func(t *testing.T) {
			if found := rules.Check(a.full, a.reports); len(found) > 0 {
				t.Errorf("%d violations, the first: %v, of %+v", len(found), found[0], a.reports[min(found[0].Report, len(a.reports)-1)])
			}
			caught := 0
			for _, r := range a.reports {
				if r.CatchUp {
					caught++
				}
			}
			if len(a.full) < 10 || len(a.reports) == caught {
				t.Errorf("%d events, %d reports, %d of them caught up", len(a.full), len(a.reports), caught)
			}
			if len(a.lost) > 0 {
				t.Logf("lost: %v", a.lost)
			}
			if soak && a.most[1] > a.most[0]*3/2 {
				t.Errorf("%d entities and locks are remembered in the second half, %d in the first", a.most[1], a.most[0])
			}
			t.Logf("%d events, %d reports, %d caught up; at most %d remembered, then %d", len(a.full), len(a.reports), caught, a.most[0], a.most[1])
		})
	}
}
