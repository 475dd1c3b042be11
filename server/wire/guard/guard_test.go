package guard_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/server/access"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
)

// installation is a CA and a clock.
type installation struct {
	testing.TB
	ca *access.CA

	mu    sync.Mutex
	ahead time.Duration
}

func newInstallation(t testing.TB) *installation {
	t.Helper()
	ca, err := access.NewCA()
	must(t, err)
	return &installation{TB: t, ca: ca}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (i *installation) now() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return time.Now().Add(i.ahead)
}

func (i *installation) pass(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ahead += d
}

func (i *installation) enroll(name string, r fleettrust.Role) *fleettrust.Identity {
	i.Helper()
	id, err := i.ca.Enroll(fleettrust.Profile{Name: name, Role: r, Labels: map[string]string{"rack": "r1"}}, 0)
	must(i, err)
	return id
}

func (i *installation) guard(name string, r fleettrust.Role) *guard.Guard {
	i.Helper()
	return i.guardOf(i.enroll(name, r))
}

func (i *installation) guardOf(id *fleettrust.Identity) *guard.Guard {
	i.Helper()
	g, err := guard.New(id, guard.Options{Now: i.now})
	must(i, err)
	return g
}

// introduce makes hosts known to an author, as their descriptions on the bus do.
func introduce(t testing.TB, author *guard.Guard, hosts map[string]*guard.Guard) {
	t.Helper()
	for name, h := range hosts {
		about := bus.About{Kind: bus.KindHost, Host: name}
		m, err := h.Seal(about, bus.Encode(bus.Host{Name: "another", Labels: map[string]string{"rack": "r9"}, Kernel: "6.18"}))
		must(t, err)
		got, _, err := author.Open(about, m)
		must(t, err)
		var d bus.Host
		must(t, bus.Decode(got, &d))
		if d.Name != name || d.Labels["rack"] != "r1" || d.Kernel != "6.18" {
			t.Errorf("%s is described as %+v", name, d)
		}
	}
}

const text = "SELECT secret FROM function_duration"

// ask seals a query of an author to hosts.
func ask(t testing.TB, author *guard.Guard, id string, hosts ...string) []byte {
	t.Helper()
	m, err := author.Seal(bus.About{Kind: bus.KindQuery, Query: id, Hosts: hosts}, bus.Encode(bus.Query{Version: bus.Version, ID: id, Text: text, Hosts: hosts}))
	must(t, err)
	return m
}

func lease(t testing.TB, author *guard.Guard, l bus.Lease) []byte {
	t.Helper()
	m, err := author.Seal(bus.About{Kind: bus.KindLease, Query: l.Query}, bus.Encode(l))
	must(t, err)
	return m
}

func TestQueryAndResult(t *testing.T) {
	i := newInstallation(t)
	alice, bob, db1, db2 := i.guard("alice", fleettrust.Author), i.guard("bob", fleettrust.Author), i.guard("db1", fleettrust.Host), i.guard("db2", fleettrust.Host)
	for _, author := range []*guard.Guard{alice, bob} {
		introduce(t, author, map[string]*guard.Guard{"db1": db1, "db2": db2})
	}
	q := ask(t, alice, "q1", "db1")
	about := bus.About{Kind: bus.KindQuery, Query: "q1", Host: "db1"}
	body, from, err := db1.Open(about, q)
	if err != nil || from != "alice" || !bytes.Contains(body, []byte(text)) {
		t.Fatalf("the query of %s: %v", from, err)
	}
	if bytes.Contains(q, []byte("secret")) {
		t.Error("a listener can read the query")
	}
	if _, _, err := db2.Open(about, q); fleettrust.ReasonOf(err) != fleettrust.Unsealed {
		t.Errorf("the query at another host: %v", err)
	}
	if _, _, err := db1.Open(about, q); err != nil {
		t.Errorf("the query, delivered again: %v", err)
	}
	if _, _, err := db1.Open(bus.About{Kind: bus.KindQuery, Query: "q2", Host: "db1"}, q); err == nil {
		t.Error("the query was accepted with another id")
	}
	if _, _, err := db1.Open(about, ask(t, bob, "q1", "db1")); err == nil {
		t.Error("another query was accepted with the same id")
	}
	must(t, db1.Live("q1"))

	rows := bus.About{Kind: bus.KindResult, Query: "q1", Host: "db1"}
	item := func(host string) []byte {
		t.Helper()
		m, err := bus.EncodeItem(&bus.Header{Query: "q1", Host: host, Kind: bus.ItemRows, Seq: 1}, []byte("secret rows"))
		must(t, err)
		return m
	}
	sealed, err := db1.Seal(rows, item("db1"))
	must(t, err)
	if bytes.Contains(sealed, []byte("secret")) {
		t.Error("a listener can read the result")
	}
	if got, from, err := alice.Open(rows, sealed); err != nil || from != "db1" || !bytes.HasSuffix(got, []byte("secret rows")) {
		t.Errorf("the result of %s: %v", from, err)
	}
	if _, _, err := alice.Open(rows, sealed); fleettrust.ReasonOf(err) != fleettrust.Replayed {
		t.Errorf("the result a second time: %v", err)
	}
	posing, err := db1.Seal(rows, item("db2"))
	must(t, err)
	if _, _, err := alice.Open(bus.About{Kind: bus.KindResult, Query: "q1"}, posing); err == nil {
		t.Error("a host sent a result as another host")
	}
	again, err := db1.Seal(rows, item("db1"))
	must(t, err)
	for what, a := range map[string]bus.About{
		"another host's":  {Kind: bus.KindResult, Query: "q1", Host: "db2"},
		"another query's": {Kind: bus.KindResult, Query: "q2", Host: "db1"},
		"an answer":       {Kind: bus.KindAnswer, Query: "q1", Host: "db1"},
	} {
		if _, _, err := alice.Open(a, again); err == nil {
			t.Errorf("a result was accepted as %s", what)
		}
	}
	if _, _, err := bob.Open(rows, again); err == nil {
		t.Error("another author can read the result")
	}
	if _, err := db2.Seal(rows, item("db2")); err == nil {
		t.Error("a host that does not have the query sends results")
	}

	// Control messages: only the reader of the result acknowledges it.
	control := bus.About{Kind: bus.KindControl, Host: "db1"}
	for _, c := range []struct {
		by *guard.Guard
		c  bus.Control
		ok bool
	}{{alice, bus.Control{Query: "q1", Next: 2}, true}, {bob, bus.Control{Query: "q1", Next: 2}, false}, {bob, bus.Control{Ask: &bus.Question{Describe: text}}, true}} {
		m, err := c.by.Seal(control, bus.Encode(c.c))
		must(t, err)
		if bytes.Contains(m, []byte("secret")) {
			t.Error("a listener can read the question")
		}
		if _, _, err := db1.Open(control, m); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.c, err)
		}
		if _, _, err := db1.Open(control, m); err == nil {
			t.Errorf("%+v was accepted twice", c.c)
		}
		if _, _, err := db2.Open(bus.About{Kind: bus.KindControl, Host: "db2"}, m); err == nil {
			t.Errorf("%+v was accepted by another host", c.c)
		}
	}
	answer := bus.About{Kind: bus.KindAnswer, Host: "db1", To: "bob"}
	m, err := db1.Seal(answer, []byte("secret answer"))
	must(t, err)
	if got, _, err := bob.Open(answer, m); err != nil || string(got) != "secret answer" {
		t.Errorf("the answer: %v", err)
	}
	if _, _, err := alice.Open(answer, m); err == nil {
		t.Error("another author can read the answer")
	}
}

func TestLeasesAndTombstones(t *testing.T) {
	i := newInstallation(t)
	alice, bob, host := i.guard("alice", fleettrust.Author), i.guard("bob", fleettrust.Author), i.guard("db1", fleettrust.Host)
	for _, author := range []*guard.Guard{alice, bob} {
		introduce(t, author, map[string]*guard.Guard{"db1": host})
	}
	receive := func(at *guard.Guard, m []byte) error {
		_, _, err := at.Open(bus.About{Kind: bus.KindLease, Query: "q1"}, m)
		return err
	}
	q := ask(t, alice, "q1", "db1")
	open := func(at *guard.Guard) error {
		_, _, err := at.Open(bus.About{Kind: bus.KindQuery, Query: "q1", Host: "db1"}, q)
		return err
	}
	if err := receive(host, lease(t, alice, bus.Lease{Query: "q1", Head: 7})); err != nil {
		t.Errorf("a lease before its query says up to where to read: %v", err)
	}
	must(t, open(host))
	i.pass(20 * time.Second)
	renewal := lease(t, alice, bus.Lease{Query: "q1"})
	must(t, receive(host, renewal))
	if receive(host, renewal) == nil {
		t.Error("a lease was accepted twice")
	}
	i.pass(20 * time.Second)
	must(t, host.Live("q1"))

	ask(t, bob, "q1", "db1") // bob has another query with this id
	for _, l := range []bus.Lease{{Query: "q1"}, {Query: "q1", Over: true}} {
		if receive(host, lease(t, bob, l)) == nil && host.Live("q1") != nil {
			t.Errorf("another author's lease had an effect: %+v", l)
		}
	}
	must(t, host.Live("q1"))
	// What looks like the end of one query is not that of another.
	ask(t, alice, "q2", "db1")
	if receive(host, lease(t, alice, bus.Lease{Query: "q2", Over: true})) == nil {
		t.Error("the end of another query was accepted")
	}
	must(t, host.Live("q1"))
	over := lease(t, alice, bus.Lease{Query: "q1", Over: true})
	must(t, receive(host, over))
	if fleettrust.ReasonOf(host.Live("q1")) != fleettrust.Revoked {
		t.Errorf("a query that is over: %v", host.Live("q1"))
	}

	// A host that restarts does not run what was recorded on the bus.
	again := i.guardOf(i.enroll("db1", fleettrust.Host))
	if open(again) == nil {
		t.Error("a host with another certificate can read the query")
	}
	i.pass(time.Minute)
	if err := host.Live("q1"); err == nil {
		t.Error("a query runs after its end")
	}
	if err := receive(host, renewal); err == nil {
		t.Error("an expired lease was accepted")
	}
}

// A host with the same credentials that has restarted, and an insider of the bus who
// repeats everything that was said.
func TestRepeatedToRestartedHost(t *testing.T) {
	i := newInstallation(t)
	alice, id := i.guard("alice", fleettrust.Author), i.enroll("db1", fleettrust.Host)
	introduce(t, alice, map[string]*guard.Guard{"db1": i.guardOf(id)})
	q := ask(t, alice, "q1", "db1")
	var said [][]byte
	for range 10 {
		said = append(said, lease(t, alice, bus.Lease{Query: "q1"}))
		i.pass(time.Second)
	}
	over := lease(t, alice, bus.Lease{Query: "q1", Over: true})
	for _, c := range []struct {
		after time.Duration
		over  bool
	}{{0, true}, {2 * time.Minute, true}, {2 * time.Minute, false}} {
		i.pass(c.after)
		host := i.guardOf(id)
		if c.over {
			_, _, _ = host.Open(bus.About{Kind: bus.KindLease, Query: "q1"}, over)
		}
		_, _, _ = host.Open(bus.About{Kind: bus.KindQuery, Query: "q1", Host: "db1"}, q)
		for _, m := range said {
			_, _, _ = host.Open(bus.About{Kind: bus.KindLease, Query: "q1"}, m)
		}
		if host.Live("q1") == nil {
			t.Errorf("the query runs again: %+v", c)
		}
	}
}

func TestRevokedMembers(t *testing.T) {
	i := newInstallation(t)
	dir := t.TempDir()
	_, err := access.Init(dir, []string{"localhost"})
	must(t, err)
	f, err := access.OpenFleet(dir)
	must(t, err)
	guards := map[string]*guard.Guard{}
	serials := map[string]string{}
	for name, r := range map[string]fleettrust.Role{"alice": fleettrust.Author, "db1": fleettrust.Host, "db2": fleettrust.Host} {
		_, id, err := f.Enroll(fleettrust.Profile{Name: name, Role: r, Labels: map[string]string{"rack": "r1"}}, access.ClientOptions{})
		must(t, err)
		guards[name], serials[name] = i.guardOf(id), id.Serial
	}
	alice, db1 := guards["alice"], guards["db1"]
	introduce(t, alice, map[string]*guard.Guard{"db1": db1, "db2": guards["db2"]})
	about := bus.About{Kind: bus.KindQuery, Query: "q1", Host: "db1"}
	_, _, err = db1.Open(about, ask(t, alice, "q1", "db1", "db2"))
	must(t, err)
	list := func(names ...string) []byte {
		t.Helper()
		var revoked []string
		for _, n := range names {
			revoked = append(revoked, serials[n])
		}
		_, err := f.Revoke(revoked, 0)
		must(t, err)
		text, err := f.Revoked()
		must(t, err)
		return text
	}

	// A revoked host receives no queries, and its heartbeats do not count.
	without := list("db2")
	_, err = alice.Revoked(without)
	must(t, err)
	beat, err := guards["db2"].Seal(bus.About{Kind: bus.KindHeartbeat, Host: "db2"}, bus.Encode(bus.Heartbeat{Host: "db2"}))
	must(t, err)
	if _, _, err := alice.Open(bus.About{Kind: bus.KindHeartbeat, Host: "db2"}, beat); fleettrust.ReasonOf(err) != fleettrust.Revoked {
		t.Errorf("the heartbeat of a revoked host: %v", err)
	}
	if _, _, err := guards["db2"].Open(bus.About{Kind: bus.KindQuery, Query: "q2", Host: "db2"}, ask(t, alice, "q2", "db1", "db2")); fleettrust.ReasonOf(err) != fleettrust.Behind && fleettrust.ReasonOf(err) != fleettrust.Unsealed {
		t.Errorf("the query at a revoked host: %v", err)
	}
	// A host that does not have the list refuses what was signed with it, until it has.
	q3 := ask(t, alice, "q3", "db1")
	at := bus.About{Kind: bus.KindQuery, Query: "q3", Host: "db1"}
	if _, _, err := db1.Open(at, q3); fleettrust.ReasonOf(err) != fleettrust.Behind {
		t.Errorf("a query by who knows a newer list: %v", err)
	}
	_, err = db1.Revoked(without)
	must(t, err)
	_, _, err = db1.Open(at, q3)
	must(t, err)

	// The queries of a revoked author end, and results are not sent.
	must(t, db1.Live("q3"))
	_, err = db1.Revoked(list("alice"))
	must(t, err)
	for _, id := range []string{"q1", "q3"} {
		if fleettrust.ReasonOf(db1.Live(id)) != fleettrust.Revoked {
			t.Errorf("a query of a revoked author: %v", db1.Live(id))
		}
		if _, err := db1.Seal(bus.About{Kind: bus.KindResult, Query: id, Host: "db1"}, nil); err == nil {
			t.Error("a result is sealed to a revoked author")
		}
	}
	if _, err := db1.Revoked(without); fleettrust.ReasonOf(err) != fleettrust.Replayed {
		t.Errorf("an older list: %v", err)
	}
}

// Heartbeats and descriptions are those of the host that they name.
func TestHostsSpeakForThemselves(t *testing.T) {
	i, other := newInstallation(t), newInstallation(t)
	alice, db1, db2, stranger := i.guard("alice", fleettrust.Author), i.guard("db1", fleettrust.Host), i.guard("db2", fleettrust.Host), other.guard("db1", fleettrust.Host)
	for _, k := range []bus.Kind{bus.KindHost, bus.KindHeartbeat} {
		about := bus.About{Kind: k, Host: "db1"}
		message := bus.Encode(bus.Heartbeat{Host: "db1"})
		first, err := db1.Seal(about, message)
		must(t, err)
		for what, by := range map[string]*guard.Guard{"another host": db2, "a host of another installation": stranger} {
			m, err := by.Seal(about, message)
			must(t, err)
			if _, from, err := alice.Open(bus.About{Kind: k}, m); err == nil && (k == bus.KindHeartbeat || from == "db1") {
				t.Errorf("%s spoke for db1", what)
			}
			if _, _, err := alice.Open(about, m); err == nil {
				t.Errorf("%s spoke for db1", what)
			}
		}
		if _, err := alice.Seal(about, message); err == nil {
			t.Error("an author describes a host")
		}
		if _, from, err := alice.Open(about, first); err != nil || from != "db1" {
			t.Errorf("db1 itself: %v", err)
		}
	}
	about := bus.About{Kind: bus.KindHeartbeat, Host: "db1"}
	message := bus.Encode(bus.Heartbeat{Host: "db1"})
	old, err := db1.Seal(about, message)
	must(t, err)
	i.pass(time.Second)
	m, err := db1.Seal(about, message)
	must(t, err)
	_, _, err = alice.Open(about, m)
	must(t, err)
	if _, _, err := alice.Open(about, old); fleettrust.ReasonOf(err) != fleettrust.Replayed {
		t.Errorf("an older heartbeat: %v", err)
	}
	i.pass(time.Minute)
	if _, _, err := alice.Open(about, m); fleettrust.ReasonOf(err) != fleettrust.Expired {
		t.Errorf("a heartbeat of the past: %v", err)
	}
}

func TestUsersAreForTheirMember(t *testing.T) {
	i := newInstallation(t)
	var b strings.Builder
	host, alice := i.enroll("db1.example", fleettrust.Host), i.enroll("alice", fleettrust.Author)
	must(t, guard.WriteUsers(&b, []*fleettrust.Member{host.Member, alice.Member}))
	for _, want := range []string{host.BusUser, alice.BusUser, "# host db1.example", `"endoscope.heartbeat.db1=2Eexample"`, `"_INBOX.host.db1=2Eexample.>"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the configuration lacks %s:\n%s", want, b.String())
		}
	}
	p := guard.PermissionsOf(host.Member)
	for _, s := range append(p.Publish, p.Subscribe...) {
		if s == ">" || strings.HasPrefix(s, "$JS.API.STREAM") || strings.HasPrefix(s, "$JS.API.CONSUMER") || s == "$JS.API.>" {
			t.Errorf("a host may use %s", s)
		}
	}
}
