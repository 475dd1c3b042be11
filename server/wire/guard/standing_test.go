package guard_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/fleet"
	"endoscope/server/standing"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
)

// standingQuery returns a standing query of an author, as it is on the bus.
func standingQuery(t testing.TB, author *guard.Guard, id string, keepers []string, hosts ...string) []byte {
	t.Helper()
	m, err := author.Seal(bus.About{Kind: bus.KindQuery, Query: id, Hosts: hosts, Keepers: keepers},
		bus.Encode(bus.Query{Version: bus.Version, ID: id, Text: "SELECT 1", Standing: &bus.Standing{Name: "w", Keepers: keepers}}))
	must(t, err)
	return m
}

// know makes a reducer known to a member, as its heartbeats do.
func know(t testing.TB, member, reducer *guard.Guard) {
	t.Helper()
	about := bus.About{Kind: bus.KindHeartbeat, Host: bus.ReducerName(reducer.Member().Name)}
	m, err := reducer.Seal(about, bus.Encode(bus.Heartbeat{Host: about.Host}))
	must(t, err)
	_, _, err = member.Open(about, m)
	must(t, err)
}

// A standing query runs while its renewer's leases are fresh, for at most ten minutes after
// the last one, and ends with its author's tombstone. Nobody else can renew or end it.
func TestStandingQueryIsRenewedByItsRenewer(t *testing.T) {
	i := newInstallation(t)
	alice, bob := i.guard("alice", fleettrust.Author), i.guard("bob", fleettrust.Author)
	r1, r2, r3 := i.guard("r1", fleettrust.Reducer), i.guard("r2", fleettrust.Reducer), i.guard("r3", fleettrust.Reducer)
	host, later := i.guard("db1", fleettrust.Host), i.guard("db2", fleettrust.Host)
	introduce(t, alice, map[string]*guard.Guard{"db1": host})
	introduce(t, r1, map[string]*guard.Guard{"db1": host, "db2": later})
	introduce(t, r2, map[string]*guard.Guard{"db2": later})
	know(t, alice, r1)
	know(t, alice, r2)
	know(t, alice, r3)
	value := standingQuery(t, alice, "q1", []string{"r1", "r3"}, "db1")
	open := func(g *guard.Guard, value []byte) error {
		_, _, err := g.Open(bus.About{Kind: bus.KindQuery, Query: "q1", Host: "db1"}, value)
		return err
	}
	lease := func(to, by *guard.Guard, length time.Duration) error {
		m, err := by.Seal(bus.About{Kind: bus.KindLease, Query: "q1"}, bus.Encode(bus.Lease{Query: "q1", Length: int64(length)}))
		if err == nil {
			_, _, err = to.Open(bus.About{Kind: bus.KindLease, Query: "q1"}, m)
		}
		return err
	}
	must(t, open(host, value))
	must(t, open(r1, value))
	if err := open(r2, value); err == nil {
		t.Error("another reducer opens the query")
	}
	if err := open(later, value); fleettrust.ReasonOf(err) != fleettrust.Unsealed {
		t.Errorf("a host to which it is not sealed opens the query: %v", err)
	}
	if _, err := r2.Offer("q1", value, []string{"db2"}); err == nil {
		t.Error("another reducer offers the query")
	}
	offered, err := r1.Offer("q1", value, []string{"db2"})
	must(t, err)
	must(t, open(later, offered))
	for _, g := range []*guard.Guard{host, later} {
		must(t, g.Live("q1"))
	}
	i.pass(2 * time.Minute)
	if err := host.Live("q1"); fleettrust.ReasonOf(err) != fleettrust.Expired {
		t.Errorf("without a lease: %v", err)
	}
	must(t, lease(host, r1, time.Hour)) // no lease is as long
	i.pass(9 * time.Minute)
	must(t, host.Live("q1"))
	i.pass(2 * time.Minute)
	if err := host.Live("q1"); fleettrust.ReasonOf(err) != fleettrust.Expired {
		t.Errorf("eleven minutes after the last lease: %v", err)
	}
	must(t, lease(host, r1, time.Minute))
	must(t, host.Live("q1"))
	// Its results are stored for all that may keep it, also when they read them later.
	about := bus.About{Kind: bus.KindRecord, Query: "q1"}
	record, err := r1.Seal(about, []byte("record"))
	must(t, err)
	must(t, open(r3, value))
	i.pass(bus.RecordsKept)
	if got, from, err := r3.Open(about, record); err != nil || string(got) != "record" || from != "r1" {
		t.Errorf("a record is opened as %q of %q: %v", got, from, err)
	}
	for name, by := range map[string]*guard.Guard{"a host": host, "its author": alice} {
		m, err := by.Seal(about, []byte("record"))
		if err == nil {
			_, _, err = r3.Open(about, m)
		}
		if err == nil {
			t.Errorf("a record of %s is accepted", name)
		}
	}
	must(t, lease(host, r3, time.Minute)) // it has taken over
	must(t, host.Live("q1"))
	// Others try to end it: they do not know it, and if they did, it would not be theirs.
	if err := lease(host, r2, time.Minute); err == nil {
		t.Error("another reducer renews the query")
	}
	know(t, bob, r1)
	must(t, open(bob, standingQuery(t, bob, "q1", []string{"r1"}))) // of the same id
	over := bus.Encode(bus.Lease{Query: "q1", Over: true})
	for name, by := range map[string]*guard.Guard{"the renewer": r1, "another author": bob} {
		m, err := by.Seal(bus.About{Kind: bus.KindLease, Query: "q1"}, over)
		if err == nil {
			_, _, err = host.Open(bus.About{Kind: bus.KindLease, Query: "q1"}, m)
		}
		if err == nil {
			t.Errorf("a tombstone of %s is accepted", name)
		}
		if live := host.Live("q1"); live != nil {
			t.Errorf("%s has ended the query: %v", name, err)
		}
	}
	m, err := alice.Seal(bus.About{Kind: bus.KindLease, Query: "q1"}, over)
	must(t, err)
	_, _, err = host.Open(bus.About{Kind: bus.KindLease, Query: "q1"}, m)
	must(t, err)
	if err := host.Live("q1"); fleettrust.ReasonOf(err) != fleettrust.Revoked {
		t.Errorf("after its tombstone: %v", err)
	}
}

// Standing queries that are foreign or expired, and those whose renewer is no reducer, are
// refused.
func TestStandingQueryIsRefused(t *testing.T) {
	i, other := newInstallation(t), newInstallation(t)
	alice, host, r1 := i.guard("alice", fleettrust.Author), i.guard("db1", fleettrust.Host), i.guard("r1", fleettrust.Reducer)
	introduce(t, alice, map[string]*guard.Guard{"db1": host})
	know(t, alice, r1)
	if _, err := alice.Seal(bus.About{Kind: bus.KindQuery, Query: "q", Hosts: []string{"db1"}, Keepers: []string{"db1"}}, []byte("{}")); err == nil {
		t.Error("a host is the renewer of a query")
	}
	mallory, theirs := other.guard("alice", fleettrust.Author), other.guard("r1", fleettrust.Reducer)
	know(t, mallory, theirs)
	foreign := standingQuery(t, mallory, "q1", []string{"r1"}, "db1")
	short, err := i.ca.Enroll(fleettrust.Profile{Name: "carol", Role: fleettrust.Author}, 2*time.Hour)
	must(t, err)
	carol := i.guardOf(short)
	introduce(t, carol, map[string]*guard.Guard{"db1": host})
	know(t, carol, r1)
	expired := standingQuery(t, carol, "q2", []string{"r1"}, "db1")
	unsigned := bus.Encode(bus.Query{Version: bus.Version, ID: "q3", Text: "SELECT 1", Standing: &bus.Standing{Name: "w", Keepers: []string{"r1"}}})
	if _, err := host.Seal(bus.About{Kind: bus.KindQuery, Query: "q4", Hosts: []string{"db1"}}, []byte("{}")); err == nil {
		t.Error("a host signs a query")
	}
	if _, err := r1.Seal(bus.About{Kind: bus.KindQuery, Query: "q4", Hosts: []string{"db1"}}, []byte("{}")); err == nil {
		t.Error("a reducer signs a query")
	}
	i.pass(3 * time.Hour)
	for name, value := range map[string][]byte{"q1": foreign, "q2": expired, "q3": unsigned} {
		for _, g := range []*guard.Guard{host, r1} {
			if _, _, err := g.Open(bus.About{Kind: bus.KindQuery, Query: name}, value); err == nil {
				t.Errorf("%s is accepted by %s", name, g.Member().Name)
			}
		}
	}
}

// A standing query over a bus that is not trusted: its daemon is a reducer with the
// permissions of one, a host joins later, and nothing can be read by a listener.
func TestStandingQueryOverUntrustedBus(t *testing.T) {
	f := newTrusted(t, 2)
	store, err := standing.Open(t.TempDir(), func(string) string { return "" })
	must(t, err)
	defer store.Close()
	e, err := server.New(server.Options{Standing: store})
	must(t, err)
	defer e.Close()
	trust, user := f.guarded(f.reducer)
	at := bus.Address{URL: f.server.ClientURL(), User: user}
	a, err := fleet.New(fleet.Options{Host: bus.Host{Name: bus.ReducerName("r1")}, Bus: at, Trust: trust, Engine: &counted{Engine: e, users: map[string]bool{}}, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 2)
	go func() {
		_ = a.Run(ctx)
		ended <- struct{}{}
	}()
	go func() {
		_ = root.Keep(ctx, root.KeepOptions{Options: root.Options{Bus: at, Trust: trust}, Name: "r1", Store: store, Log: slog.New(slog.DiscardHandler)})
		ended <- struct{}{}
	}()
	defer func() {
		cancel()
		<-ended
		<-ended
	}()
	late := f.hosts[1]
	f.hosts = f.hosts[:1]
	f.join(t, f.guarded)
	by, user := f.guarded(f.alice)
	client := dial(t, root.Options{Bus: bus.Address{URL: f.server.ClientURL(), User: user}, Trust: by})
	defer client.Close()
	testenv.UntilNil(t, "the host joins", func() error { return client.Await(t.Context(), 1, 0) })
	s, err := client.NewSession(t.Context(), wire.Options{})
	must(t, err)
	do := func(statement string) error {
		r, err := s.Execute(t.Context(), statement)
		if err == nil {
			err = r.Close()
		}
		return err
	}
	testenv.UntilNil(t, "the daemon joins", func() error { return do("SHOW QUERIES") })
	testenv.UntilNil(t, "the query is created", func() error {
		return do("CREATE QUERY " + confidential + " ON FLEET AS SELECT COUNT(*) AS " + confidential + "_n FROM SAMPLE(memory_usage, 50ms) EMIT EVERY 200ms")
	})
	hosts := func() string {
		for _, q := range store.List() {
			st, windows, _ := q.State()
			if windows > 0 {
				return st.Hosts
			}
		}
		return ""
	}
	testenv.Until(t, "windows of one host are stored", func() bool { return hosts() == "1 of 1 hosts" })
	f.hosts = append(f.hosts[:0:0], late)
	f.join(t, f.guarded)
	testenv.Until(t, "a host that has joined later executes the query", func() bool { return hosts() == "2 of 2 hosts" })
	must(t, do("DROP QUERY "+confidential))
	testenv.Until(t, "the query is dropped", func() bool { return len(store.List()) == 0 })
	if n := readable(f.heard()); n > 0 {
		t.Errorf("%d of %d messages can be read", n, len(f.heard()))
	}
	if err := do("DROP QUERY " + confidential); err == nil || !strings.Contains(err.Error(), "there is no standing query") {
		t.Errorf("dropped again: %v", err)
	}
}
