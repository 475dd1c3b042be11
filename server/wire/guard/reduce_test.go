package guard_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
)

// What hosts send is read by the reducers that the query names, and only these send states of
// shards of it.
func TestStatesOfReducers(t *testing.T) {
	i := newInstallation(t)
	alice, host := i.guard("alice", fleettrust.Author), i.guard("db1", fleettrust.Host)
	r1, r2, r3 := i.guard("r1", fleettrust.Reducer), i.guard("r2", fleettrust.Reducer), i.guard("r3", fleettrust.Reducer)
	introduce(t, alice, map[string]*guard.Guard{"db1": host})
	for _, r := range []*guard.Guard{r1, r2, r3} {
		know(t, alice, r)
	}
	publish := func(id string, reducers ...string) {
		t.Helper()
		about := bus.About{Kind: bus.KindQuery, Query: id, Hosts: []string{"db1"}, Reducers: reducers}
		value, err := alice.Seal(about, bus.Encode(bus.Query{Version: bus.Version, ID: id, Text: "SELECT 1", Hosts: about.Hosts}))
		must(t, err)
		for _, g := range []*guard.Guard{host, r1, r2, r3} {
			name, named := g.Member().Name, false
			for _, r := range reducers {
				named = named || r == name
			}
			_, _, err := g.Open(bus.About{Kind: bus.KindQuery, Query: id, Host: "db1"}, value)
			if opened := err == nil; opened != (named || g == host) {
				t.Errorf("%s is opened by %s: %v, %v", id, name, opened, err)
			}
		}
	}
	publish("q1", "r1", "r2")
	publish("q2", "r2", "r3")
	publish("q3")
	item := func(query, from string, shard *bus.Shard) []byte {
		m, err := bus.EncodeItem(&bus.Header{Query: query, Host: from, Kind: bus.ItemRows, Seq: 1, Shard: shard}, nil)
		must(t, err)
		return m
	}
	// send sends an item of a query, and returns which of the receivers accept it as one.
	send := func(by *guard.Guard, query, as string, message []byte, to ...*guard.Guard) (accepted string) {
		m, err := by.Seal(bus.About{Kind: bus.KindResult, Query: query}, message)
		if err != nil {
			return ""
		}
		for _, g := range to {
			if _, _, err := g.Open(bus.About{Kind: bus.KindResult, Query: as}, m); err == nil {
				accepted += g.Member().Name + " "
			}
		}
		return accepted
	}
	for _, c := range []struct {
		what, want string
		by         *guard.Guard
		query, as  string
		from       string
		shard      *bus.Shard
	}{
		{"a host's result", "alice r1 r2 ", host, "q1", "q1", "db1", nil},
		{"a state of the first reducer", "alice ", r1, "q1", "q1", "reducer/r1", &bus.Shard{}},
		{"a state of the second reducer", "alice ", r2, "q1", "q1", "reducer/r2", &bus.Shard{}},
		{"a state of a host", "", host, "q1", "q1", "db1", &bus.Shard{}},
		{"a state in the name of another reducer", "", r1, "q1", "q1", "reducer/r2", &bus.Shard{}},
		{"a result in the name of a host", "", r1, "q1", "q1", "db1", nil},
		{"a state of a reducer of another query", "", r3, "q2", "q1", "reducer/r3", &bus.Shard{}},
		{"a state of a reducer of both queries", "", r2, "q2", "q1", "reducer/r2", &bus.Shard{}},
		{"a state of a reducer that the query does not name", "", r3, "q1", "q1", "reducer/r3", &bus.Shard{}},
		{"a state of a query without reducers", "", r1, "q3", "q3", "reducer/r1", &bus.Shard{}},
	} {
		if got := send(c.by, c.query, c.as, item(c.as, c.from, c.shard), alice, r1, r2, r3); got != c.want {
			t.Errorf("%s is accepted by %q, want %q", c.what, got, c.want)
		}
	}
	other := newInstallation(t)
	mallory, theirs := other.guard("alice", fleettrust.Author), other.guard("r1", fleettrust.Reducer)
	know(t, mallory, theirs)
	value, err := mallory.Seal(bus.About{Kind: bus.KindQuery, Query: "q1", Reducers: []string{"r1"}}, bus.Encode(bus.Query{Version: bus.Version, ID: "q1"}))
	must(t, err)
	_, _, err = theirs.Open(bus.About{Kind: bus.KindQuery, Query: "q1"}, value)
	must(t, err)
	if got := send(theirs, "q1", "q1", item("q1", "reducer/r1", &bus.Shard{}), alice); got != "" {
		t.Errorf("a state of another installation is accepted by %q", got)
	}
	// A query that ends with its author is not renewed by its reducers.
	m, err := r1.Seal(bus.About{Kind: bus.KindLease, Query: "q1"}, bus.Encode(bus.Lease{Query: "q1"}))
	if err == nil {
		_, _, err = host.Open(bus.About{Kind: bus.KindLease, Query: "q1"}, m)
	}
	if err == nil {
		t.Error("a reducer renews the query")
	}
}

// A query over a bus that is not trusted, with a reducer that has the permissions of one:
// nothing can be read by a listener, and what the listener repeats or changes does not count.
func TestReducersOverUntrustedBus(t *testing.T) {
	f := newTrusted(t, 3)
	f.join(t, f.guarded)
	trust, user := f.guarded(f.reducer)
	o := root.Options{Bus: bus.Address{URL: f.server.ClientURL(), User: user}, Trust: trust}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- root.Reduce(ctx, root.ReduceOptions{Options: o, Name: "r1", Shards: 2, Log: slog.New(slog.DiscardHandler)})
	}()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	by, user := f.guarded(f.alice)
	e := dial(t, root.Options{Bus: bus.Address{URL: f.server.ClientURL(), User: user}, Trust: by})
	defer e.Close()
	testenv.UntilNil(t, "the hosts and the reducer join", func() error { return e.Await(t.Context(), len(f.hosts), 1) })
	s, err := e.NewSession(t.Context(), wire.Options{})
	must(t, err)
	count := func() (n int64) {
		t.Helper()
		res, err := s.Execute(t.Context(), "SELECT COUNT(*) AS "+confidential+" FROM series(30)")
		must(t, err)
		defer res.Close()
		for {
			ev, err := res.Next(t.Context())
			if errors.Is(err, io.EOF) {
				if notes := res.Summary().Notes; len(notes) == 0 || notes[0] != "3 of 3 hosts" {
					t.Errorf("the footer is %q", notes)
				}
				return n
			}
			must(t, err)
			if ev.Batch != nil {
				n += ev.Batch.Cols[0].Value(ev.Batch.Row(0)).I
				ev.Batch.Release()
			}
		}
	}
	if n := count(); n != 90 {
		t.Errorf("%d rows of 3 hosts, want 90", n)
	}
	said := f.heard()
	states := 0
	for _, m := range said {
		if strings.HasPrefix(m.Subject, "endoscope.result.") && strings.Contains(m.Subject, bus.Token("reducer/")) {
			states++
			changed := bytes.Clone(m.Data)
			changed[len(changed)/2] ^= 1
			for _, data := range [][]byte{m.Data, changed} {
				must(t, f.insider.PublishMsg(&nats.Msg{Subject: m.Subject, Data: data}))
			}
		}
	}
	if states == 0 {
		t.Error("the reducer has sent nothing")
	}
	if n := count(); n != 90 {
		t.Errorf("%d rows after the attack, want 90", n)
	}
	if n := readable(f.heard()); n > 0 {
		t.Errorf("%d of %d messages can be read", n, len(f.heard()))
	}
}
