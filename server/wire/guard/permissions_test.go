package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"endoscope/probes/testenv"
	"endoscope/server/access"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
)

// natsServer starts a NATS server in this process, with the users of members as
// endoscoped bus prints them. change, if not nil, changes its options.
func natsServer(t *testing.T, change func(*server.Options), members ...*fleettrust.Member) *server.Server {
	t.Helper()
	var users bytes.Buffer
	must(t, guard.WriteUsers(&users, members))
	file := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(file, users.Bytes(), 0o600))
	o, err := server.ProcessConfigFile(file)
	must(t, err)
	o.Host, o.Port, o.JetStream, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, t.TempDir(), true, true
	if change != nil {
		change(o)
	}
	s, err := server.NewServer(o)
	must(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

// user is a connection of a member.
type user struct {
	*nats.Conn
	denials chan string // what the server has denied
}

func connect(t *testing.T, s *server.Server, g *guard.Guard) *user {
	t.Helper()
	u := &user{denials: make(chan string, 256)}
	to := bus.Address{URL: s.ClientURL(), User: append(g.User(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			u.denials <- strings.ToLower(err.Error())
		}
	}))}
	testenv.UntilNil(t, "the bus answers", func() (err error) {
		u.Conn, err = to.Connect("test", false)
		return err
	})
	t.Cleanup(u.Close)
	return u
}

// denies reports whether the server has denied what do did on a subject. Its errors arrive
// in order, so one that is certain follows.
func (u *user) denies(t *testing.T, subject string, do func() error) (denied bool) {
	t.Helper()
	const certain = "nobody.may.publish.this"
	must(t, do())
	must(t, u.Publish(certain, nil))
	for text := range u.denials {
		switch {
		case strings.Contains(text, `"`+certain+`"`):
			return denied
		case strings.Contains(text, `"`+strings.ToLower(subject)+`"`):
			denied = true
		}
	}
	return denied
}

// Each user can do what its member does, and nothing else.
func TestPermissions(t *testing.T) {
	i := newInstallation(t)
	ids := map[string]*fleettrust.Identity{}
	var members []*fleettrust.Member
	for name, r := range map[string]fleettrust.Role{"alice": fleettrust.Author, "db1.example": fleettrust.Host, "db2": fleettrust.Host, "r1": fleettrust.Reducer} {
		ids[name] = i.enroll(name, r)
		members = append(members, ids[name].Member)
	}
	s := natsServer(t, nil, members...)
	users := map[string]*user{}
	for name, id := range ids {
		users[name] = connect(t, s, i.guardOf(id))
	}
	alice, db1, db2 := users["alice"], users["db1.example"], users["db2"]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	// An author creates the buckets; a host describes itself and reads queries.
	must(t, bus.Prepare(ctx, alice.Conn, 1))
	must(t, guard.Prepare(ctx, alice.Conn, 1))
	must(t, bus.Prepare(ctx, alice.Conn, 1))
	must(t, bus.DescribeHost(ctx, db1.Conn, "db1.example", []byte("description")))
	queries := make(chan *nats.Msg, 8)
	_, err := db1.ChanSubscribe(bus.AllQueries, queries)
	must(t, err)
	must(t, db1.Flush())
	put, err := alice.RequestWithContext(ctx, "$KV."+bus.QueryBucket+"."+bus.QueryKey("q1"), []byte("query"))
	must(t, err)
	if !bytes.Contains(put.Data, []byte(`"seq":1`)) {
		t.Errorf("the query was stored: %s", put.Data)
	}
	if c, ok := bus.Changed(<-queries); !ok || string(c.Value) != "query" {
		t.Errorf("the host received %+v", c)
	}
	all, err := bus.Queries(ctx, db1.Conn)
	must(t, err)
	if len(all) != 1 || all[0].Query != "q1" {
		t.Errorf("the host has read %+v", all)
	}

	// Results, heartbeats and answers arrive.
	results := make(chan *nats.Msg, 8)
	for _, subject := range []string{bus.ResultsOf("q1"), bus.PartsOf("q1", 3), bus.AllHeartbeats} {
		_, err = alice.ChanSubscribe(subject, results)
		must(t, err)
	}
	must(t, alice.Flush())
	must(t, db1.Publish(bus.ResultSubject("q1", "db1.example"), []byte("rows")))
	must(t, db1.Publish(bus.PartSubject("q1", 3, "db1.example"), []byte("part")))
	must(t, db1.Publish(bus.HeartbeatSubject("db1.example"), []byte("beat")))
	for _, want := range []string{"rows", "part", "beat"} {
		if m := <-results; string(m.Data) != want {
			t.Errorf("received %s on %s", m.Data, m.Subject)
		}
	}
	_, err = db1.Subscribe(bus.HostSubject("db1.example"), func(m *nats.Msg) { _ = m.Respond([]byte("answer")) })
	must(t, err)
	must(t, db1.Flush())
	if m, err := alice.RequestWithContext(ctx, bus.HostSubject("db1.example"), []byte("question")); err != nil || string(m.Data) != "answer" {
		t.Errorf("the answer of the host: %v", err)
	}

	denied, tried := 0, 0
	for _, c := range []struct {
		by       string
		subjects []string
	}{
		{"db1.example", []string{
			bus.HeartbeatSubject("db2"), bus.ResultSubject("q1", "db2"), bus.PartSubject("q1", 0, "db2"), bus.HostSubject("db2"), bus.HostSubject("db1.example"), bus.LeaseSubject("q1"),
			"$KV." + bus.QueryBucket + "." + bus.QueryKey("q1"), "$KV." + bus.HostBucket + ".db2", "endoscope.query.q.q1", "endoscope.trust.revoked",
			bus.RecordsOf("q1"), "$KV." + bus.KeeperBucket + ".q1", "$JS.API.DIRECT.GET." + bus.RecordStream,
			"_INBOX.author.alice.x", "_INBOX.x", "anything", "$SYS.REQ.SERVER.PING",
			"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.mine", "$JS.API.STREAM.CREATE.KV_" + bus.QueryBucket,
			"$JS.API.STREAM.UPDATE.KV_" + bus.QueryBucket, "$JS.API.STREAM.DELETE.KV_" + bus.QueryBucket, "$JS.API.STREAM.PURGE.KV_" + bus.QueryBucket,
			"$JS.API.STREAM.MSG.DELETE.KV_" + bus.QueryBucket, "$JS.API.STREAM.MSG.GET.KV_" + bus.QueryBucket,
			"$JS.API.CONSUMER.CREATE.KV_" + bus.QueryBucket, "$JS.API.CONSUMER.CREATE.KV_" + bus.QueryBucket + ".c",
			"$JS.API.DIRECT.GET.KV_" + bus.HostBucket, "$JS.ACK.x.y.1.1.1.1.1", "$JS.FC.x",
		}},
		{"alice", []string{
			bus.HeartbeatSubject("db2"), bus.ResultSubject("q1", "db2"), "$KV." + bus.HostBucket + ".db2", "endoscope.query.q.q1", "_INBOX.host.db2.x", "anything",
			bus.RecordsOf("q1"), "$KV." + bus.KeeperBucket + ".q1",
			"$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.mine", "$JS.API.STREAM.UPDATE.KV_" + bus.QueryBucket, "$JS.API.STREAM.DELETE.KV_" + bus.QueryBucket,
			"$JS.API.STREAM.PURGE.KV_" + bus.QueryBucket, "$JS.API.STREAM.MSG.DELETE.KV_" + bus.QueryBucket, "$JS.API.CONSUMER.CREATE.KV_" + bus.QueryBucket,
		}},
		{"r1", []string{
			"$KV." + bus.QueryBucket + "." + bus.QueryKey("q1"), "$KV." + bus.HostBucket + ".db2", bus.HeartbeatSubject("db2"), "endoscope.trust.revoked",
			"$JS.API.STREAM.PURGE." + bus.RecordStream, "$JS.API.STREAM.PURGE.KV_" + bus.KeeperBucket,
			"$JS.API.STREAM.CREATE.KV_" + bus.QueryBucket, "$JS.API.CONSUMER.CREATE.KV_" + bus.QueryBucket, "anything",
		}},
	} {
		for _, subject := range c.subjects {
			tried++
			if users[c.by].denies(t, subject, func() error { return users[c.by].Publish(subject, []byte("x")) }) {
				denied++
			} else {
				t.Errorf("%s may publish to %s", c.by, subject)
			}
		}
	}
	for _, c := range []struct {
		by       string
		subjects []string
	}{
		{"db1.example", []string{">", "endoscope.>", bus.HostSubject("db2"), bus.AllHosts, bus.ResultsOf("q1"), bus.PartsOf("q1", 0), bus.AllHeartbeats, "_INBOX.>", "_INBOX.author.alice.>",
			"_INBOX.host.db2.>", "$KV.>", "$KV." + bus.QueryBucket + ".>", "$JS.>", "$SYS.>"}},
		{"alice", []string{">", "endoscope.>", "_INBOX.>", "_INBOX.host.db2.>", bus.HostSubject("db2"), "$KV.>", "$JS.>", "$SYS.>"}},
		{"r1", []string{">", "_INBOX.>", "$KV.>", "$JS.>", "$SYS.>"}},
	} {
		for _, subject := range c.subjects {
			tried++
			if users[c.by].denies(t, subject, func() error {
				_, err := users[c.by].Subscribe(subject, func(*nats.Msg) {})
				return err
			}) {
				denied++
			} else {
				t.Errorf("%s may subscribe to %s", c.by, subject)
			}
		}
	}
	t.Logf("%d of %d were denied", denied, tried)

	// One answer to each question.
	_, err = db2.Subscribe(bus.HostSubject("db2"), func(m *nats.Msg) { _, _ = m.Respond([]byte("1")), m.Respond([]byte("2")) })
	must(t, err)
	must(t, db2.Flush())
	inbox := alice.NewInbox()
	answers, err := alice.SubscribeSync(inbox)
	must(t, err)
	must(t, alice.PublishRequest(bus.HostSubject("db2"), inbox, []byte("question")))
	m, err := answers.NextMsgWithContext(ctx)
	must(t, err)
	if text := <-db2.denials; !strings.Contains(text, strings.ToLower(inbox)) {
		t.Errorf("denied, not the second answer: %s", text)
	}
	if n, _, _ := answers.Pending(); string(m.Data) != "1" || n != 0 {
		t.Errorf("%d answers more", n)
	}

	// Nobody connects without a key of the fleet.
	stranger := newInstallation(t).guard("db1.example", fleettrust.Host)
	for what, o := range map[string][]nats.Option{"no key": nil, "another key": stranger.User()} {
		if _, err := (&bus.Address{URL: s.ClientURL(), User: o}).Connect("test", false); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
			t.Errorf("connected with %s: %v", what, err)
		}
	}
}

// The list of revoked certificates reaches members by the bus, also those that connect
// later; one that the CA has not signed does not.
func TestListsFollowed(t *testing.T) {
	i := newInstallation(t)
	dir := t.TempDir()
	_, err := access.Init(dir, []string{"localhost"})
	must(t, err)
	f, err := access.OpenFleet(dir)
	must(t, err)
	_, alice, err := f.Enroll(fleettrust.Profile{Name: "alice", Role: fleettrust.Author}, access.ClientOptions{})
	must(t, err)
	_, db1, err := f.Enroll(fleettrust.Profile{Name: "db1", Role: fleettrust.Host}, access.ClientOptions{})
	must(t, err)
	s := natsServer(t, nil, alice.Member, db1.Member)
	author := connect(t, s, i.guardOf(alice))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	must(t, guard.Prepare(ctx, author.Conn, 1))

	type said struct {
		list string
		err  error
	}
	follow := func() <-chan said {
		g := i.guardOf(db1)
		nc, reports := connect(t, s, g), make(chan said, 16)
		all.Go(func() { g.Follow(ctx, nc.Conn, func(list string, err error) { reports <- said{list, err} }) })
		return reports
	}
	early := follow()
	number, err := f.Revoke([]string{"ab"}, 0)
	must(t, err)
	list, err := f.Revoked()
	must(t, err)
	must(t, guard.Publish(ctx, author.Conn, list, nil))
	want := fmt.Sprintf("list %d of revoked certificates", number)
	for what, reports := range map[string]<-chan said{"is connected": early, "connects later": follow()} {
		if got := <-reports; got.err != nil || got.list != want {
			t.Errorf("a host that %s has %s: %v, want %s", what, got.list, got.err, want)
		}
	}
	must(t, guard.Publish(ctx, author.Conn, []byte("not a list"), nil))
	if got := <-early; fleettrust.ReasonOf(got.err) != fleettrust.Malformed {
		t.Errorf("%s: %v", got.list, got.err)
	}
}
