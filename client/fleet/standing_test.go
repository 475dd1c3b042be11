package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/client/fleet/root"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/standing"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// paced is an engine whose shares of queries do not end, and give as many windows as a test
// lets them.
type paced struct {
	wire.Engine
	mu      sync.Mutex
	changed *sync.Cond
	windows int
	runs    int // shares that run
}

func newPaced(e wire.Engine) *paced {
	p := &paced{Engine: e}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// allow lets shares give so many windows.
func (p *paced) allow(windows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.windows = windows
	p.changed.Broadcast()
}

func (p *paced) running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs
}

func (p *paced) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	o.User = nil
	s, err := p.Engine.NewSession(ctx, o)
	return pacedSession{s, p}, err
}

type pacedSession struct {
	wire.Session
	p *paced
}

func (s pacedSession) ExecuteShare(ctx context.Context, host, text string, args ...types.Value) (wire.Result, error) {
	r, err := s.Session.(wire.Sharer).ExecuteShare(ctx, host, text, args...)
	if err != nil {
		return nil, err
	}
	s.p.mu.Lock()
	s.p.runs++
	s.p.mu.Unlock()
	f, err := planpb.Decode(r.Info().Share.Plan)
	return &pacedResult{Result: r, p: s.p, ends: f.Exchange.End}, err
}

type pacedResult struct {
	wire.Result
	p     *paced
	ends  int   // the column with the ends of windows
	mark  int64 // the last of them
	given int
	once  sync.Once
}

func (r *pacedResult) Next(ctx context.Context) (wire.Event, error) {
	defer context.AfterFunc(ctx, r.p.changed.Broadcast)()
	r.p.mu.Lock()
	for r.given >= r.p.windows && ctx.Err() == nil {
		r.p.changed.Wait()
	}
	r.p.mu.Unlock()
	ev, err := r.Result.Next(ctx)
	if ev.Batch != nil {
		for i := range ev.Batch.Len() {
			r.mark = max(r.mark, ev.Batch.Cols[r.ends].Int[ev.Batch.Row(i)])
		}
	}
	if ev.Kind == wire.Flush {
		r.given++
		ev.Mark = r.mark
	}
	if err == io.EOF && r.given >= 0 { // nothing more comes, and time goes on
		r.given = -1
		return wire.Event{Kind: wire.Mark, Mark: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}, nil
	}
	if err == io.EOF {
		<-ctx.Done()
		return ev, ctx.Err()
	}
	return ev, err
}

func (r *pacedResult) Close() error {
	r.once.Do(func() {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		r.p.runs--
	})
	return r.Result.Close()
}

// all is a number of windows that no test has.
const allWindows = 1 << 30

// stands is a fleet with a daemon that keeps standing queries.
type stands struct {
	*fleetBus
	*divided
	hosts []*paced
	lease time.Duration
	*keeper
}

// keeper is a daemon that keeps standing queries.
type keeper struct {
	name  string
	state string // its directory
	store *standing.Store
	local wire.Session // of its engine
	end   func()       // ends it but for keep
}

func newStands(t *testing.T, hosts int) *stands {
	t.Helper()
	f := &stands{fleetBus: startBus(t), divided: &divided{dir: t.TempDir(), one: open(t, engine(t))}, keeper: newKeeper(t, "keeper")}
	for range hosts {
		e := newPaced(engine(t))
		t.Cleanup(func() { _ = e.Close() })
		s, err := e.NewSession(t.Context(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		f.hosts, f.each = append(f.hosts, e), append(f.each, s)
	}
	f.daemon(t)
	return f
}

func newKeeper(t *testing.T, name string) *keeper {
	return &keeper{name: name, state: filepath.Join(t.TempDir(), "standing")}
}

// another starts another daemon, but for keeping standing queries.
func (f *stands) another(t *testing.T, name string) *stands {
	t.Helper()
	other := *f
	other.keeper = newKeeper(t, name)
	other.daemon(t)
	return &other
}

// daemon starts the daemon that keeps standing queries, but for that.
func (f *stands) daemon(t *testing.T) {
	t.Helper()
	var err error
	if f.store, err = standing.Open(f.state, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	k, err := server.New(server.Options{Standing: f.store})
	if err != nil {
		t.Fatal(err)
	}
	if f.local, err = k.NewSession(t.Context(), wire.Options{}); err != nil {
		t.Fatal(err)
	}
	leave, store, s := f.join(t, bus.Host{Name: bus.ReducerName(f.name)}, k), f.store, f.local
	f.end = sync.OnceFunc(func() {
		leave()
		_ = s.Close()
		_ = k.Close()
		store.Close()
	})
	t.Cleanup(f.end)
}

func nameOf(host int) string { return string(rune('a' + host)) }

// enter starts the agent of a host.
func (f *stands) enter(t *testing.T, host int) (leave func()) {
	t.Helper()
	return f.join(t, bus.Host{Name: nameOf(host)}, f.hosts[host])
}

// keep runs the daemon's part until stop is called.
func (f *stands) keep(t *testing.T) (stop func()) {
	t.Helper()
	o := root.KeepOptions{Options: root.Options{Bus: f.at}, Name: f.name, Store: f.store, Lease: f.lease, Log: slog.New(slog.DiscardHandler)}
	return background(t, func(ctx context.Context) error { return root.Keep(ctx, o) })
}

// joined waits until these daemons have joined.
func joined(t *testing.T, s wire.Session, names string) {
	t.Helper()
	testenv.Until(t, "the daemons have joined", func() bool { return slices.Contains(s.Info(), "standing queries are kept by: "+names) })
}

// client returns a session of a client when so many hosts have joined, and the daemon.
func (f *stands) client(t *testing.T, hosts int) wire.Session {
	t.Helper()
	s := f.dial(t, hosts)
	testenv.Until(t, "the daemon has joined", func() bool {
		r, err := s.Execute(t.Context(), "SHOW QUERIES")
		if err == nil {
			_ = r.Close()
		}
		return err == nil
	})
	return s
}

// do executes a statement and returns its message.
func do(t *testing.T, s wire.Session, statement string) string {
	t.Helper()
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer r.Close()
	return r.Message()
}

const (
	perWindow = "SELECT window_start, s, COUNT(*) AS c, SUM(n) AS t, SUM(x) AS u FROM TUMBLE(rows, 1s) GROUP BY s"
	late      = "SET lateness = 60s" // a host may have no processor for some time
	ofWindows = "SELECT window_start, s, c, t, u FROM w WHERE final"
)

// query returns the standing query of the store; nil: there is none.
func (f *stands) query() *standing.Query {
	if all := f.store.List(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// final returns whether all windows up to one are final, by the row of its end.
func (f *stands) final(rows []string) bool {
	last, err := time.Parse("2006-01-02T15:04:05.000Z", rows[len(rows)-1][:24])
	q := f.query()
	if err != nil || q == nil || q.Stored() == nil {
		return false
	}
	return q.Stored().Upto > last.UnixNano()
}

// read returns so many rows of a stream of a standing query.
func read(t *testing.T, s wire.Session, statement string, n int) [][]types.Value {
	t.Helper()
	return cells(t, s, fmt.Sprintf("%s LIMIT %d", statement, n))
}

// same compares what is stored with the result of one engine with all rows, as a client reads
// it.
func (f *stands) same(t *testing.T, s wire.Session) {
	t.Helper()
	want := cells(t, f.one, perWindow)
	got := read(t, s, ofWindows, len(want))
	if a, b := sorted(want, ""), sorted(got, ""); a != b {
		t.Errorf("of one\n%s\nstored\n%s", a, b)
	}
	var n int64
	span := 150 * time.Millisecond
	testenv.Until(t, "all rows are read in a span of time", func() bool {
		span *= 2
		n = cells(t, s, fmt.Sprintf("SELECT COUNT(*) FROM w WHERE final FOR %dms", span.Milliseconds()))[0][0].I
		return n >= int64(len(want))
	})
	if n != int64(len(want)) {
		t.Errorf("%d final rows are stored, want %d", n, len(want))
	}
}

// What is stored of a standing query is the union of the hosts' rows, each window once, while
// the bus loses, repeats and delays messages, the daemon is restarted between windows, and the
// client leaves and comes back.
func TestStandingQueryIsTheUnionOfItsHosts(t *testing.T) {
	f := newStands(t, 3)
	rows, _ := f.randomRows(t, rand.New(rand.NewPCG(3, 4)))
	windows := len(cells(t, f.one, "SELECT COUNT(*) FROM TUMBLE(rows, 1s)"))
	for i := range f.hosts {
		f.enter(t, i)
	}
	stop := f.keep(t)
	first := f.client(t, 3)
	do(t, first, late)
	if got := do(t, first, "CREATE QUERY w ON FLEET AS "+perWindow); got != "standing query w created: SELECT * FROM w" {
		t.Fatal(got)
	}
	f.disturb(t)
	for step := 1; step < 4; step++ {
		before := uint64(0)
		if q := f.query(); q != nil {
			_, before, _ = q.State()
		}
		for _, h := range f.hosts {
			h.allow(windows * step / 4)
		}
		testenv.Until(t, fmt.Sprint("a window is stored in step ", step), func() bool {
			_, stored, _ := f.query().State()
			return stored > before
		})
		stop()
		if step == 2 {
			_ = first.Close()
			f.end()
			f.daemon(t)
		}
		stop = f.keep(t)
	}
	for _, h := range f.hosts {
		h.allow(allWindows)
	}
	testenv.Until(t, "all windows are final", func() bool { return f.final(rows) })
	f.same(t, f.client(t, 3))
}

// What is stored is the union of the hosts' rows at each of two daemons that take turns, while
// the bus is bad.
func TestStandingQueryIsTheUnionAtEachKeeper(t *testing.T) {
	f := newStands(t, 2)
	g := f.another(t, "other")
	rows, _ := f.randomRows(t, rand.New(rand.NewPCG(7, 8)))
	windows := len(cells(t, f.one, "SELECT COUNT(*) FROM TUMBLE(rows, 1s)"))
	for i := range f.hosts {
		f.enter(t, i)
	}
	stops := map[*stands]func(){f: f.keep(t), g: g.keep(t)}
	s := f.client(t, 2)
	joined(t, s, "keeper, other")
	do(t, s, late)
	do(t, s, "CREATE QUERY w ON FLEET AS "+perWindow)
	f.disturb(t)
	for step := 1; step < 4; step++ {
		now, next := f, g
		if step%2 == 0 {
			now, next = g, f
		}
		running := func(k *stands) bool {
			q := k.query()
			if q == nil {
				return false
			}
			st, _, _ := q.State()
			return st.State == wire.StandingRunning
		}
		testenv.Until(t, now.name+" keeps the query", func() bool { return running(now) })
		before := now.query().Next()
		for _, h := range f.hosts {
			h.allow(windows * step / 4)
		}
		testenv.Until(t, fmt.Sprint("a window is stored in step ", step), func() bool { return now.query().Next() > before })
		stops[now]()
		testenv.Until(t, next.name+" goes on", func() bool { return running(next) })
		if running(next) {
			stops[now] = now.keep(t)
		}
	}
	for _, h := range f.hosts {
		h.allow(allWindows)
	}
	for _, k := range []*stands{f, g} {
		testenv.Until(t, "all windows are final at "+k.name, func() bool { return k.final(rows) })
		k.same(t, k.local)
	}
	f.same(t, f.client(t, 2))
}

// Triggers at two daemons that have the results of a query report the same alerts, with the
// same ids.
func TestAlertsOfKeepersHaveTheSameIDs(t *testing.T) {
	f := newStands(t, 1)
	g := f.another(t, "other")
	rows := []string{"2026-01-02T03:04:05.100Z,1,,a", "2026-01-02T03:04:05.200Z,2,,b", "2026-01-02T03:04:06.100Z,4,,a", "2026-01-02T03:04:06.200Z,8,,b"}
	f.divide(t, "timestamp,n,x,s", rows, func(int) int { return 0 })
	f.enter(t, 0)
	f.keep(t)
	g.keep(t)
	s := f.client(t, 1)
	joined(t, s, "keeper, other")
	do(t, s, "CREATE QUERY w ON FLEET AS "+perWindow)
	f.hosts[0].allow(1)
	var mu sync.Mutex
	received := map[string][]string{} // by daemon
	for _, k := range []*stands{f, g} {
		r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			var alert struct {
				ID  string `json:"id"`
				Row struct {
					S string `json:"s"`
					T int64  `json:"t"`
				} `json:"row"`
			}
			if err := json.NewDecoder(q.Body).Decode(&alert); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			received[k.name] = append(received[k.name], fmt.Sprint(alert.ID, " ", alert.Row))
		}))
		t.Cleanup(r.Close)
		testenv.Until(t, "the results of the first window are there", func() bool { return k.query() != nil && k.query().Next() == 2 })
		do(t, k.local, "CREATE TRIGGER high ON w WHEN t > 0 BEGIN WEBHOOK '"+r.URL+"' END")
	}
	f.hosts[0].allow(allWindows)
	testenv.Until(t, "both daemons have reported the second window", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(received["keeper"]) == 2 && len(received["other"]) == 2
	})
	mu.Lock()
	defer mu.Unlock()
	if a, b := received["keeper"], received["other"]; !slices.Equal(a, b) || a[0][:32] == a[1][:32] || len(a[0]) < 33 {
		t.Errorf("reported\n%s\nand\n%s", a, b)
	}
}

// A host that joins later executes the query; a host that a query does not choose does not.
func TestStandingQueryReachesHostsThatJoinLater(t *testing.T) {
	f := newStands(t, 3)
	rows := []string{"2026-01-02T03:04:05.100Z,1,,a", "2026-01-02T03:04:06.100Z,2,,a", "2026-01-02T03:04:07.100Z,4,,a"}
	f.divide(t, "timestamp,n,x,s", slices.Concat(rows, rows, rows), func(row int) int { return row / 3 })
	for _, h := range f.hosts {
		h.allow(allWindows)
	}
	f.enter(t, 1)
	f.keep(t)
	s := f.client(t, 1)
	do(t, s, "CREATE QUERY w ON FLEET AS SELECT COUNT(*) AS c, SUM(n) AS t FROM TUMBLE(rows, 1s) WHERE host <> 'a'")
	f.enter(t, 0)
	f.enter(t, 2)
	if got := texts(read(t, s, "SELECT c, t FROM w WHERE final", 3)); strings.Count(got, "\n") < 2 {
		t.Errorf("of the host that has joined\n%s", got)
	}
	if n := f.hosts[0].running(); n != 0 {
		t.Errorf("%d shares run at a host that the query does not choose", n)
	}
	if got := do(t, s, "DROP QUERY w"); got != "standing query w dropped" {
		t.Error(got)
	}
	testenv.Until(t, "the hosts have ended the query", func() bool { return f.hosts[1].running()+f.hosts[2].running() == 0 })
	testenv.Until(t, "the results are removed", func() bool { return f.query() == nil })
	f.enter(t, 1) // again: it reads the tombstone
	r, err := s.Execute(t.Context(), "SELECT * FROM w")
	if err == nil {
		_ = r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "there is no stream w") {
		t.Errorf("a query that was dropped: %v", err)
	}
	if f.hosts[1].running() != 0 {
		t.Error("a query that was dropped runs")
	}
}

// Without its daemon a query ends at every host when its lease does, and begins again with
// the daemon.
func TestStandingQueryEndsWithItsLease(t *testing.T) {
	f := newStands(t, 2)
	f.lease = time.Second
	rows, _ := f.randomRows(t, rand.New(rand.NewPCG(5, 6)))
	for i := range f.hosts {
		f.enter(t, i)
	}
	stop := f.keep(t)
	do(t, f.client(t, 2), "CREATE QUERY w ON FLEET AS "+perWindow)
	both := func(n int) func() bool {
		return func() bool { return f.hosts[0].running() == n && f.hosts[1].running() == n }
	}
	testenv.Until(t, "the query runs", both(1))
	stop()
	testenv.Until(t, "the leases have ended", both(0))
	f.lease = time.Minute // a busy machine does not end it again
	f.keep(t)
	testenv.Until(t, "the query runs again", both(1))
	for _, h := range f.hosts {
		h.allow(allWindows)
	}
	testenv.Until(t, "all windows are final", func() bool { return f.final(rows) })
	f.same(t, f.client(t, 2))
}

// A host that is late makes a revision; only final rows are for triggers, exports and files.
func TestLateHostMakesRevision(t *testing.T) {
	f := newStands(t, 2)
	rows := []string{"2026-01-02T03:04:05.100Z,1,,a", "2026-01-02T03:04:05.200Z,2,,a", "2026-01-02T03:04:06.100Z,4,,a", "2026-01-02T03:04:06.200Z,8,,a"}
	f.divide(t, "timestamp,n,x,s", rows, func(row int) int { return row % 2 })
	for i := range f.hosts {
		f.enter(t, i)
	}
	f.keep(t)
	s := f.client(t, 2)
	do(t, s, "SET lateness = 60s")
	do(t, s, "CREATE QUERY w ON FLEET AS SELECT SUM(n) AS t FROM TUMBLE(rows, 1s)")
	testenv.Until(t, "both hosts have begun", func() bool { return f.hosts[0].running()+f.hosts[1].running() == 2 })
	testenv.Until(t, "both hosts are heard", func() bool {
		st, _, _ := f.query().State()
		return st.Hosts == "2 of 2 hosts"
	})
	do(t, f.local, "CREATE TRIGGER settled ON w WHEN final BEGIN NOTIFY 'final' END")
	do(t, f.local, "CREATE TRIGGER open ON w WHEN NOT final BEGIN NOTIFY 'open' END")
	do(t, f.local, "CREATE EXPORT sums TO PROMETHEUS AS SELECT final, SUM(t) AS total FROM w GROUP BY final")
	const lost = "endoscope.result.*.b"
	if err := f.GlobalAccount().AddMapping(lost, "lost.{{wildcard(1)}}"); err != nil {
		t.Fatal(err)
	}
	for _, h := range f.hosts {
		h.allow(allWindows)
	}
	of := func(statement string, n int) string {
		var out []string
		for _, row := range read(t, s, statement, n) {
			out = append(out, fmt.Sprint(row[0].I, " ", row[1].I, " ", row[2].I != 0))
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	if got, want := of("SELECT t, revision, final FROM w", 2), "1 0 false, 4 0 false"; got != want {
		t.Errorf("without a host: %s, want %s", got, want)
	}
	f.GlobalAccount().RemoveMapping(lost)
	if got, want := of("SELECT t, revision, final FROM w WHERE final", 2), "12 1 true, 3 1 true"; got != want && !strings.Contains(got, "3 2 true") {
		t.Errorf("with it: %s, want %s", got, want)
	}
	testenv.Until(t, "a trigger has seen the final rows", func() bool {
		return texts(cells(t, f.local, "SELECT trigger, activations FROM sys.triggers ORDER BY trigger")) == texts([][]types.Value{
			{types.Str("open"), types.Int(0)}, {types.Str("settled"), types.Int(2)}})
	})
	testenv.Until(t, "an export has the final rows", func() bool {
		return cells(t, f.local, "SELECT series FROM sys.exports")[0][0].I == 1
	})
	file := filepath.Join(t.TempDir(), "rows.csv")
	cells(t, f.local, "INSERT INTO file('"+file+"') SELECT t, final FROM w LIMIT 2")
	if got := texts(cells(t, f.local, "SELECT t, final FROM file('"+file+"') ORDER BY t")); got != texts([][]types.Value{{types.Int(3), types.Bool(true)}, {types.Int(12), types.Bool(true)}}) {
		t.Errorf("the file has\n%s", got)
	}
}
