package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"endoscope/operators/batch"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// recorded is what a real engine has sent of a statement: its plan, and the parts of a
// total for each of some rounds.
type recorded struct {
	Dir     string
	Hosts   int
	Share   *wire.Share
	Columns []wire.Column
	Rounds  [][][]byte
}

// record executes statements with EMIT EVERY at a real engine, each up to its first total.
func record(b testing.TB, e wire.Engine, statements ...string) *recorded {
	b.Helper()
	out := &recorded{}
	for _, text := range statements {
		s, err := e.NewSession(b.Context(), wire.Options{})
		if err != nil {
			b.Fatal(err)
		}
		r, err := s.(wire.Sharer).ExecuteShare(b.Context(), "h", text)
		if err != nil {
			b.Fatal(err)
		}
		out.Share, out.Columns = r.Info().Share, r.Columns()
		var rows []*batch.Batch
		for {
			ev, err := r.Next(b.Context())
			if errors.Is(err, io.EOF) || ev.Kind == wire.Flush {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if ev.Batch != nil {
				rows = append(rows, ev.Batch)
			}
		}
		parts, err := bus.EncodeRows(out.Columns, []int{0}, rows)
		if err != nil {
			b.Fatal(err)
		}
		out.Rounds = append(out.Rounds, parts)
		for _, bt := range rows {
			bt.Release()
		}
		if err := errors.Join(r.Close(), s.Close()); err != nil {
			b.Fatal(err)
		}
	}
	return out
}

// simulated are hosts that answer every query with what was recorded: the total of round n
// modulo the number of recorded ones at the second n since 1970. They send what agents send.
type simulated struct {
	*recorded
	nc    *nats.Conn
	hosts []*simulatedHost
	index map[string]*simulatedHost // by their subjects
	mu    sync.Mutex
	query bus.Query
	began time.Time
	lease bus.Echo
}

type simulatedHost struct {
	name  string
	after time.Duration // when it sends, after each whole second
	out   *bus.Outbox
	done  bool
}

// simulateHosts is a part: a NATS server and the simulated hosts.
func simulateHosts(options []byte) error {
	s := &simulated{recorded: &recorded{}, index: map[string]*simulatedHost{}}
	text, err := os.ReadFile(strings.Trim(string(options), `"`))
	if err == nil {
		err = json.Unmarshal(text, s.recorded)
	}
	if err != nil {
		return err
	}
	server, err := natsd.NewServer(&natsd.Options{ServerName: "bench", Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, StoreDir: s.Dir, NoSigs: true, NoLog: true, MaxPending: 512 << 20})
	if err != nil {
		return err
	}
	server.Start()
	defer server.Shutdown()
	if !server.ReadyForConnections(10 * time.Second) {
		return errors.New("the bus does not start")
	}
	at := bus.Address{Server: server}
	if s.nc, err = at.Connect("hosts", false); err != nil {
		return err
	}
	defer s.nc.Close()
	for i := range s.Hosts {
		h := &simulatedHost{name: fmt.Sprintf("host%05d", i)}
		f := fnv.New32a()
		_, _ = f.Write([]byte(h.name))
		h.after = time.Duration(f.Sum32()%1024) * 100 * time.Millisecond / 1024
		s.hosts, s.index[bus.HostSubject(h.name)] = append(s.hosts, h), h
	}
	for _, subject := range []string{bus.AllQueries, bus.AllLeases, bus.AllHosts} {
		if _, err := s.nc.Subscribe(subject, s.receive); err != nil {
			return err
		}
	}
	nc, err := at.Connect("prepare", false)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := errors.Join(bus.Prepare(timeout(), nc, 0), s.describe(nc)); err != nil {
		return err
	}
	go s.run()
	ready(server.ClientURL())
	return nil
}

func (s *simulated) describe(nc *nats.Conn) error {
	for _, h := range s.hosts {
		if err := nc.Publish("$KV."+bus.HostBucket+"."+bus.Token(h.name), bus.Encode(bus.Host{Name: h.name, Version: "v1"})); err != nil {
			return err
		}
	}
	return nc.FlushTimeout(20 * time.Second)
}

// run sends heartbeats and totals each second.
func (s *simulated) run() {
	for {
		now := time.Now()
		second := now.Truncate(time.Second).Add(time.Second)
		time.Sleep(time.Until(second))
		round := int(second.Unix()) % len(s.Rounds)
		parts := s.Rounds[round]
		const slices = 20
		for k := range slices {
			time.Sleep(time.Until(second.Add(time.Duration(k) * 100 * time.Millisecond / slices)))
			s.mu.Lock()
			for _, h := range s.hosts {
				if int(h.after*slices/(100*time.Millisecond)) != k {
					continue
				}
				s.publish(bus.HeartbeatSubject(h.name), bus.Encode(bus.Heartbeat{Host: h.name, Incarnation: "1", Time: time.Now().UnixNano(), Queries: 1}))
				if h.out != nil && !h.done && time.Since(s.began) > 500*time.Millisecond {
					s.add(h, bus.Header{Kind: bus.ItemRows, Flush: true, Round: uint64(second.Unix() - s.began.Unix()), Echo: s.echo(), Summary: &wire.Summary{}}, bus.Total, parts)
				}
			}
			s.mu.Unlock()
		}
	}
}

func (s *simulated) echo() *bus.Echo {
	e := s.lease
	e.Returned = time.Now().UnixNano()
	return &e
}

func (s *simulated) publish(subject string, data []byte) { _ = s.nc.Publish(subject, data) }

func (s *simulated) add(h *simulatedHost, header bus.Header, how bus.Delivery, parts [][]byte) {
	ms, err := h.out.Add(header, how, parts, 100)
	if err != nil {
		panic(err)
	}
	for _, m := range ms {
		s.publish(s.query.Subject(h.name), m)
	}
}

func (s *simulated) receive(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.index[m.Subject]; h != nil {
		var c bus.Control
		if bus.Decode(m.Data, &c) == nil && c.Ask != nil {
			s.publish(m.Reply, bus.Encode(bus.Answer{Description: wire.Description{Merges: true}}))
			return
		}
		if bus.Decode(m.Data, &c) != nil || c.Query != s.query.ID || h.out == nil {
			return
		}
		h.out.Acknowledge(c.Next)
		if c.Missing > 0 {
			ms, _ := h.out.Since(c.Missing, 1<<20)
			for _, m := range ms {
				s.publish(s.query.Subject(h.name), m)
			}
		}
		return
	}
	if c, ok := bus.Changed(m); ok && c.Value != nil {
		s.query, s.began = bus.Query{}, time.Now()
		if bus.Decode(c.Value, &s.query) != nil {
			return
		}
		for _, h := range s.hosts {
			h.out, h.done = bus.NewOutbox(c.Query, h.name, "1"), false
			h.out.Restarts = s.query.Reduced != nil
			s.add(h, bus.Header{Kind: bus.ItemBegin, Columns: s.Columns, Share: s.Share}, bus.InOrder, nil)
		}
		return
	}
	var l bus.Lease
	if bus.Decode(m.Data, &l) == nil && l.Query == s.query.ID {
		s.lease = bus.Echo{Sent: l.Time, Received: time.Now().UnixNano()}
		for _, h := range s.hosts {
			if l.Ending && !h.done {
				h.done = true
				s.add(h, bus.Header{Kind: bus.ItemEnd, Summary: &wire.Summary{}}, bus.InOrder, nil)
			}
		}
	}
}
