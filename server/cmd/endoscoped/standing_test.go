package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"endoscope/client/fleet/root"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/standing"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// daemons are processes of this program with a bus of their own.
type daemons struct {
	t          *testing.T
	nats       *natsd.Server
	bin, users string
	log        testenv.Buffer
}

func newDaemons(t *testing.T) *daemons {
	nats, err := natsd.NewServer(&natsd.Options{ServerName: "test", Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	})
	testenv.Until(t, "the bus runs", func() bool { return nats.ReadyForConnections(time.Second) })
	d := &daemons{t: t, nats: nats, bin: testenv.Command(t, "."), users: filepath.Join(t.TempDir(), "users")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.log.String())
		}
	})
	if err := os.WriteFile(d.users, []byte("user fleet\n    role admin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// start starts a daemon, and returns what ends it with a signal.
func (d *daemons) start(args ...string) (end func(syscall.Signal)) {
	d.t.Helper()
	c := exec.Command(d.bin, append(args, "--fleet", d.nats.ClientURL(), "--access", d.users)...)
	c.Stderr = &d.log
	c.WaitDelay = time.Minute // the worker, which has the same standard error, ends as well
	if err := c.Start(); err != nil {
		d.t.Fatal(err)
	}
	var once sync.Once
	end = func(with syscall.Signal) {
		once.Do(func() {
			_ = c.Process.Signal(with)
			_ = c.Wait()
		})
	}
	d.t.Cleanup(func() { end(syscall.SIGTERM) })
	return end
}

// client returns a session when so many hosts have joined.
func (d *daemons) client(hosts int) wire.Session {
	d.t.Helper()
	e, err := root.Dial(d.t.Context(), root.Options{Bus: bus.Address{URL: d.nats.ClientURL()}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = e.Close() })
	testenv.UntilNil(d.t, "the hosts join", func() error { return e.Await(d.t.Context(), hosts, 0) })
	s, err := e.NewSession(d.t.Context(), wire.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// read returns the rows of a statement.
func read(t *testing.T, s wire.Session, statement string) (rows [][]types.Value, err error) {
	r, err := s.Execute(t.Context(), statement)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		if ev.Batch == nil {
			continue
		}
		for i := range ev.Batch.Len() {
			var row []types.Value
			for c := range ev.Batch.Cols {
				row = append(row, ev.Batch.Cols[c].Value(ev.Batch.Row(i)))
			}
			rows = append(rows, row)
		}
		ev.Batch.Release()
	}
}

const createStanding = "CREATE QUERY w ON FLEET AS SELECT COUNT(*) AS n FROM SAMPLE(memory_usage, 50ms) EMIT EVERY 500ms"

// ascending checks that each window is there once, by the column with their ends.
func ascending(t *testing.T, rows [][]types.Value) {
	t.Helper()
	const length = 500 * time.Millisecond
	missing := 0
	for i := range rows[1:] {
		d := time.Duration(rows[i+1][0].I - rows[i][0].I)
		if d <= 0 {
			t.Errorf("a window that ends at %v follows one that ends at %v", time.Unix(0, rows[i+1][0].I), time.Unix(0, rows[i][0].I))
		}
		missing += int(d/length) - 1
	}
	t.Logf("%d windows, and %d have no sample", len(rows), missing)
}

// A daemon that is killed between windows goes on with its standing query after its restart:
// each window is stored once.
func TestStandingQueryOutlivesItsDaemon(t *testing.T) {
	d := newDaemons(t)
	dir := t.TempDir()
	d.start("--fleet-name", "h1")
	kill := d.start("--fleet-name", "k", "--standing", "--state", dir)
	s := d.client(2)
	testenv.UntilNil(t, "the daemon joins", func() error {
		_, err := read(t, s, createStanding)
		return err
	})
	testenv.UntilNil(t, "windows are stored", func() error {
		_, err := read(t, s, "SELECT timestamp FROM w WHERE final LIMIT 3")
		return err
	})
	kill(syscall.SIGKILL)
	d.start("--fleet-name", "k", "--standing", "--state", dir)
	var rows [][]types.Value
	testenv.UntilNil(t, "the query goes on", func() (err error) {
		rows, err = read(t, s, "SELECT timestamp FROM w WHERE final LIMIT 12")
		return err
	})
	ascending(t, rows)
}

// When the daemon that keeps a query is killed, another one takes over: it has all results of
// the first, and goes on where these end. So does the first when the second is killed.
func TestStandingQueryOutlivesItsKeeper(t *testing.T) {
	d := newDaemons(t)
	d.start("--fleet-name", "h1")
	d.start("--fleet-name", "h2")
	dirs := map[string]string{"k1": t.TempDir(), "k2": t.TempDir()}
	end := map[string]func(syscall.Signal){}
	start := func(name string) { end[name] = d.start("--fleet-name", name, "--standing", "--state", dirs[name]) }
	start("k1")
	start("k2")
	s := d.client(4)
	var states [][]types.Value
	keeps := func(n int) func() bool { // so many daemons answer, one of which keeps the query
		return func() bool {
			rows, err := read(t, s, "SHOW QUERIES")
			states = rows
			running := 0
			for _, r := range rows {
				if r[1].S == wire.StandingRunning {
					running++
				}
			}
			return err == nil && len(rows) == n && running == 1
		}
	}
	testenv.Until(t, "both daemons join", func() bool { return slices.Contains(s.Info(), "standing queries are kept by: k1, k2") })
	testenv.UntilNil(t, "the query is created", func() error {
		_, err := read(t, s, createStanding)
		return err
	})
	testenv.Until(t, "one daemon keeps it, and one stands by", keeps(2))
	keeper := func() string {
		for _, r := range states {
			if r[1].S == wire.StandingRunning {
				return r[len(r)-1].S
			}
		}
		return ""
	}
	stored := 0
	// A daemon that has no processor for some seconds is replaced as well.
	round := func() error {
		var rows [][]types.Value
		testenv.UntilNil(t, "windows are stored", func() (err error) {
			rows, err = read(t, s, fmt.Sprintf("SELECT timestamp, n, revision FROM w WHERE final LIMIT %d", stored+4))
			return err
		})
		testenv.Until(t, "one daemon keeps it, and one stands by", keeps(2))
		killed := keeper()
		end[killed](syscall.SIGKILL)
		t.Logf("%s is killed", killed)
		// What the one that was killed had stored, to its last window, is what the other one has.
		left := keptIn(t, filepath.Join(dirs[killed], "standing"), stored+4)
		if len(left) < stored+4 {
			t.Fatalf("%s had stored %d windows", killed, len(left))
		}
		testenv.UntilNil(t, "another daemon goes on", func() (err error) {
			rows, err = read(t, s, fmt.Sprintf("SELECT timestamp, n, revision FROM w WHERE final LIMIT %d", len(left)+6))
			if err == nil && len(rows) != len(left)+6 {
				err = fmt.Errorf("%d windows", len(rows))
			}
			return err
		})
		ascending(t, rows)
		for i, want := range left {
			if got := fmt.Sprint(rows[i][0].I, rows[i][1].I, rows[i][2].I); got != want {
				t.Errorf("window %d is %s, and was %s", i, got, want)
			}
		}
		stored = len(rows)
		start(killed)
		testenv.Until(t, killed+" stands by", keeps(2))
		if keeper() == killed {
			return fmt.Errorf("%s keeps the query again, which another one does", killed)
		}
		return nil
	}
	for range 2 {
		testenv.Once(t, round)
	}
}

// keptIn returns the final windows in the directory of a daemon that was killed: so many at the least,
// if they are there.
func keptIn(t *testing.T, dir string, least int) (windows []string) {
	t.Helper()
	store, err := standing.Open(dir, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	e, err := server.New(server.Options{Standing: store})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for d := 500 * time.Millisecond; len(windows) < least && d < time.Minute; d *= 2 {
		rows, err := read(t, s, fmt.Sprintf("SELECT timestamp, n, revision FROM w WHERE final FOR %dms", d.Milliseconds()))
		if err != nil {
			t.Fatal(err)
		}
		windows = nil
		for _, r := range rows {
			windows = append(windows, fmt.Sprint(r[0].I, r[1].I, r[2].I))
		}
	}
	return windows
}
