package fleet_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// cable connects to a bus until it is cut.
type cable struct {
	bus   *fleetBus
	mu    sync.Mutex // protects the fields below
	cut   bool
	conns []net.Conn
}

// InProcessConn implements nats.InProcessConnProvider.
func (c *cable) InProcessConn() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("the cable is cut")
	}
	conn, err := c.bus.InProcessConn()
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut = cut; cut {
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.conns = nil
	}
}

// witnesses are hosts that count events of their own, each in a group of its own.
type witnesses struct {
	testing.TB
	dir   string
	n     int
	what  *recorded
	leave []func() // ends each host
}

const witnessedQuery = "SELECT n AS k, COUNT(*) FROM series(1) GROUP BY n EMIT EVERY 1s"

func (b *fleetBus) witnesses(t testing.TB, hosts int) *witnesses {
	t.Helper()
	e := engine(t)
	what := record(t, e, witnessedQuery)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	w := &witnesses{TB: t, dir: t.TempDir(), n: hosts, what: what}
	for i := range hosts {
		w.leave = append(w.leave, b.join(t, bus.Host{Name: fmt.Sprint("h", i)}, w.engine(i)))
	}
	return w
}

// engine returns an engine that counts in a group.
func (w *witnesses) engine(key int) *witnessed {
	return &witnessed{clusterHost: clusterHost{Key: int64(key), Witness: w.file(key)}, recorded: w.what}
}

func (w *witnesses) file(host int) string { return filepath.Join(w.dir, fmt.Sprint(host)) }

// totals returns all totals that a host has given.
func (w *witnesses) totals(host int) []int64 {
	return totalsIn(w.file(host))
}

// execute executes the query of the witnesses, and reads its answers.
func (w *witnesses) execute(t *testing.T, s wire.Session) (wire.Result, <-chan totals) {
	t.Helper()
	r, err := s.Execute(t.Context(), witnessedQuery)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, answersOf(t, r)
}

// totals are the groups of an answer.
type totals map[int64]int64

// answersOf reads the answers of a result until it ends.
func answersOf(t testing.TB, r wire.Result) <-chan totals {
	out := make(chan totals, 1000)
	go func() {
		defer close(out)
		answer := totals{}
		for {
			ev, err := r.Next(t.Context())
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("the result: %v", err)
				}
				return
			}
			if ev.Kind == wire.Notice {
				t.Logf("%s %s", time.Now().Format(clockLayout), ev.Text)
			}
			if ev.Batch != nil {
				for i := range ev.Batch.Len() {
					row := ev.Batch.Row(i)
					answer[ev.Batch.Cols[0].Value(row).I] += ev.Batch.Cols[1].Value(row).I
				}
				ev.Batch.Release()
			}
			if ev.Kind == wire.Flush {
				out <- answer
				answer = totals{}
			}
		}
	}()
	return out
}

// end ends a result, and checks the answers that are left: the last one has all hosts.
func (w *witnesses) end(r wire.Result, answers <-chan totals, last totals) {
	w.Helper()
	r.Stop()
	for a := range answers {
		w.check(last, a, false)
		last = a
	}
	w.check(last, last, true)
	if notes := r.Summary().Notes; !slices.Contains(notes, fmt.Sprintf("%d of %[1]d hosts", w.n)) {
		w.Errorf("at the end the footer is %q", notes)
	}
}

// check checks that an answer has nothing that its hosts have not given, and not less than the
// one before. complete: it has the last total of each host.
func (w *witnesses) check(last, now totals, complete bool) {
	w.Helper()
	for host, n := range now {
		all := w.totals(int(host))
		switch {
		case !slices.Contains(all, n):
			w.Errorf("h%d counts %d, which is none of its totals %v", host, n, all)
		case n < last[host]:
			w.Errorf("h%d counts %d after %d", host, n, last[host])
		}
	}
	for host := range last {
		if _, ok := now[host]; !ok {
			w.Errorf("h%d is not in the answer any more", host)
		}
	}
	for host := range w.n {
		all := w.totals(host)
		if complete && (len(all) == 0 || now[int64(host)] != all[len(all)-1]) {
			w.Errorf("h%d counts %d at the end, not the last of %v", host, now[int64(host)], all)
		}
	}
}
