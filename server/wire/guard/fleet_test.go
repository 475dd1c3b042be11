package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"endoscope/client/fleet/root"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/fleet"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
)

// counted is an engine that counts what is executed, and for whom.
type counted struct {
	wire.Engine
	sessions atomic.Int64
	mu       sync.Mutex
	users    map[string]bool
}

func (c *counted) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	c.sessions.Add(1)
	c.mu.Lock()
	c.users[o.User.Name] = true
	c.mu.Unlock()
	o.User = nil // of this process
	return c.Engine.NewSession(ctx, o)
}

// trusted is a fleet whose bus has an insider, who reads everything and may publish
// anything.
type trusted struct {
	*installation
	engine  *counted
	server  *natsd.Server
	alice   *fleettrust.Identity
	reducer *fleettrust.Identity
	hosts   []*fleettrust.Identity
	insider *nats.Conn

	mu   sync.Mutex
	said []*nats.Msg
}

func newTrusted(t *testing.T, hosts int) *trusted {
	t.Helper()
	e, err := server.New(server.Options{})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	f := &trusted{installation: newInstallation(t), engine: &counted{Engine: e, users: map[string]bool{}}}
	f.alice, f.reducer = f.enroll("alice", fleettrust.Author), f.enroll("r1", fleettrust.Reducer)
	members := []*fleettrust.Member{f.alice.Member, f.reducer.Member}
	for n := range hosts {
		h := f.enroll(fmt.Sprintf("db%d.example", n+1), fleettrust.Host)
		f.hosts, members = append(f.hosts, h), append(members, h.Member)
	}
	key, err := nkeys.CreateUser()
	must(t, err)
	public, err := key.PublicKey()
	must(t, err)
	f.server = natsServer(t, func(o *natsd.Options) { o.Nkeys = append(o.Nkeys, &natsd.NkeyUser{Nkey: public}) }, members...)
	testenv.UntilNil(t, "the insider connects", func() (err error) {
		f.insider, err = (&bus.Address{URL: f.server.ClientURL(), User: []nats.Option{nats.Nkey(public, key.Sign)}}).Connect("insider", false)
		return err
	})
	t.Cleanup(f.insider.Close)
	_, err = f.insider.Subscribe(">", func(m *nats.Msg) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, m)
	})
	must(t, err)
	testenv.UntilNil(t, "the bus is prepared", func() error { return bus.Prepare(t.Context(), f.insider, 0) })
	return f
}

// dial connects a client to a bus.
func dial(t *testing.T, o root.Options) (e *root.Engine) {
	t.Helper()
	testenv.UntilNil(t, "the bus answers", func() (err error) {
		e, err = root.Dial(t.Context(), o)
		return err
	})
	return e
}

// heard returns what the insider has recorded.
func (f *trusted) heard() []*nats.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*nats.Msg(nil), f.said...)
}

// join starts the agents of all hosts, and returns what ends them.
func (f *trusted) join(t *testing.T, trust func(*fleettrust.Identity) (bus.Trust, []nats.Option)) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, id := range f.hosts {
		by, user := trust(id)
		a, err := fleet.New(fleet.Options{Host: bus.Host{Name: id.Name}, Bus: bus.Address{URL: f.server.ClientURL(), User: user}, Trust: by, Engine: f.engine, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		all.Go(func() { _ = a.Run(ctx) })
	}
	leave = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	t.Cleanup(leave)
	return leave
}

func (f *trusted) guarded(id *fleettrust.Identity) (bus.Trust, []nats.Option) {
	g := f.guardOf(id)
	return g, g.User()
}

func unguarded(id *fleettrust.Identity) (bus.Trust, []nats.Option) {
	return bus.Open{}, []nats.Option{nats.Nkey(id.BusUser, id.SignNonce), nats.CustomInboxPrefix(guard.InboxPrefix(id.Member))}
}

const confidential = "confidential"

// ask executes a query as alice, and returns its rows.
func (f *trusted) ask(t *testing.T, trust func(*fleettrust.Identity) (bus.Trust, []nats.Option)) (rows int) {
	t.Helper()
	by, user := trust(f.alice)
	e := dial(t, root.Options{Bus: bus.Address{URL: f.server.ClientURL(), User: user}, Trust: by})
	defer e.Close()
	testenv.UntilNil(t, "the hosts join", func() error { return e.Await(t.Context(), len(f.hosts), 0) })
	s, err := e.NewSession(t.Context(), wire.Options{})
	must(t, err)
	defer s.Close()
	res, err := s.Execute(t.Context(), "SELECT '"+confidential+"' AS word, n FROM series(3)")
	must(t, err)
	defer res.Close()
	for {
		ev, err := res.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows
		}
		must(t, err)
		if ev.Batch == nil {
			continue
		}
		word := slices.IndexFunc(res.Columns(), func(c wire.Column) bool { return c.Name == "word" })
		for i := range ev.Batch.Len() {
			if v := ev.Batch.Cols[word].Value(ev.Batch.Row(i)); v != types.Str(confidential) {
				t.Errorf("the row has %v", v)
			}
		}
		rows += ev.Batch.Len()
		ev.Batch.Release()
	}
}

// readable returns how many of the messages contain what is confidential, or are results,
// whose rows are compressed, that can be decoded.
func readable(msgs []*nats.Msg) (n int) {
	for _, m := range msgs {
		_, rows, err := bus.DecodeItem(m.Data)
		if bytes.Contains(m.Data, []byte(confidential)) || err == nil && len(rows) > 0 {
			n++
		}
	}
	return n
}

// A query over a bus with an insider: the insider reads nothing, and nothing that the
// insider says makes a host execute anything.
func TestFleetWithInsider(t *testing.T) {
	f := newTrusted(t, 3)
	leave := f.join(t, f.guarded)
	if rows := f.ask(t, f.guarded); rows != 9 {
		t.Errorf("%d rows of 3 hosts, want 9", rows)
	}
	said := f.heard()
	if n := readable(said); n > 0 {
		t.Errorf("%d of %d messages can be read", n, len(said))
	}
	if len(f.engine.users) != 1 || !f.engine.users["alice"] {
		t.Errorf("the query was executed for %v", f.engine.users)
	}

	executed := f.engine.sessions.Load()
	random := rand.New(rand.NewPCG(1, 1))
	attack := func() (sent int) {
		publish := func(subject string, data []byte, h nats.Header) {
			must(t, f.insider.PublishMsg(&nats.Msg{Subject: subject, Data: data, Header: h}))
			sent++
		}
		other := newInstallation(t)
		mallory := other.guard("alice", fleettrust.Author)
		introduce(t, mallory, map[string]*guard.Guard{"db1.example": other.guard("db1.example", fleettrust.Host)})
		forged := ask(t, mallory, "f00d", "db1.example")
		plain := bus.Encode(bus.Query{Version: bus.Version, ID: "f00d", Text: text, Hosts: []string{"db1.example"}})
		for _, q := range [][]byte{forged, plain, nil, {0}, bytes.Repeat([]byte{7}, 900<<10)} {
			publish("endoscope.query."+bus.QueryKey("f00d"), q, nats.Header{"Nats-Sequence": {"1"}})
			publish("$KV."+bus.QueryBucket+"."+bus.QueryKey("f00d"), q, nil)
			publish(bus.LeaseSubject("f00d"), bus.Encode(bus.Lease{Query: "f00d", Time: time.Now().UnixNano()}), nil)
			publish(bus.HostSubject("db1.example"), q, nil)
		}
		for _, m := range said {
			if strings.HasPrefix(m.Subject, "$JS") || strings.HasPrefix(m.Subject, "_INBOX") || len(m.Data) == 0 {
				continue
			}
			changed := bytes.Clone(m.Data)
			changed[random.IntN(len(changed))] ^= 1 << random.IntN(8)
			for _, data := range [][]byte{m.Data, changed, m.Data[:random.IntN(len(m.Data))]} {
				publish(m.Subject, data, m.Header)
				if strings.HasPrefix(m.Subject, "endoscope.query.") || strings.HasPrefix(m.Subject, "$KV."+bus.QueryBucket) {
					id := fmt.Sprintf("%x", random.Uint64()) // under another id
					publish("endoscope.query."+bus.QueryKey(id), data, m.Header)
					publish("$KV."+bus.QueryBucket+"."+bus.QueryKey(id), data, nil)
				}
			}
		}
		must(t, f.insider.Flush())
		return sent
	}
	sent := attack()
	// A query of alice follows on the same subjects, so all before it was handled.
	if rows := f.ask(t, f.guarded); rows != 9 {
		t.Errorf("%d rows after the attack, want 9", rows)
	}
	armed := f.engine.sessions.Load() - executed - 3

	// Agents that have restarted, and remember nothing, two minutes later.
	leave()
	f.pass(2 * time.Minute)
	executed = f.engine.sessions.Load()
	f.join(t, f.guarded)
	sent += attack()
	if rows := f.ask(t, f.guarded); rows != 9 {
		t.Errorf("%d rows of agents that have restarted, want 9", rows)
	}
	armed += f.engine.sessions.Load() - executed - 3
	if armed != 0 {
		t.Errorf("%d queries were executed because of %d messages of the insider", armed, sent)
	}
	t.Logf("%d of %d messages of the insider were accepted; 0 of %d that were sent could be read", armed, sent, len(f.heard()))
	if n := readable(f.heard()); n > 0 {
		t.Errorf("%d messages can be read", n)
	}
}

// Without a guard the same insider reads what the same query says: the test above looks in
// the right place.
func TestInsiderReadsWithoutGuard(t *testing.T) {
	f := newTrusted(t, 3)
	f.join(t, unguarded)
	if rows := f.ask(t, unguarded); rows != 9 {
		t.Errorf("%d rows of 3 hosts, want 9", rows)
	}
	var queries, results int
	for _, m := range f.heard() {
		switch {
		case readable([]*nats.Msg{m}) == 0:
		case strings.HasPrefix(m.Subject, "endoscope.result."):
			results++
		default:
			queries++
		}
	}
	if queries == 0 || results == 0 {
		t.Errorf("%d queries and %d results can be read", queries, results)
	}
}
