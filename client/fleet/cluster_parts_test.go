package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"sync"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"endoscope/operators/batch"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	agent "endoscope/server/fleet"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// clusterServer are the options of one NATS server of a cluster.
type clusterServer struct {
	Name, Address, Dir string
	Routes             []string // addresses of all
}

const (
	clientPort = 4222
	routePort  = 6222
)

// runServer is a part: one NATS server of a cluster.
func runServer(options []byte) error {
	var c clusterServer
	if err := json.Unmarshal(options, &c); err != nil {
		return err
	}
	o := &natsd.Options{ServerName: c.Name, Host: c.Address, Port: clientPort, JetStream: true, StoreDir: c.Dir, NoSigs: true, NoLog: true,
		Cluster: natsd.ClusterOpts{Name: "fleet", Host: c.Address, Port: routePort}}
	for _, r := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("%s:%d", r, routePort)})
	}
	s, err := natsd.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(30 * time.Second) {
		return errors.New("the server does not start")
	}
	ready("")
	return nil
}

// clusterHost are the options of one host.
type clusterHost struct {
	Name, URL string
	Key       int64  // of the group that it counts
	Witness   string // the file of its witness
	Recorded  string // the file of what a real engine has sent
}

// runHost is a part: the agent of one host. Its engine counts events that it makes itself,
// and writes each total that it gives to the file of its witness before.
func runHost(options []byte) error {
	var c clusterHost
	if err := json.Unmarshal(options, &c); err != nil {
		return err
	}
	e := &witnessed{clusterHost: c, recorded: &recorded{}}
	text, err := os.ReadFile(c.Recorded)
	if err == nil {
		err = json.Unmarshal(text, e.recorded)
	}
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Options{Host: bus.Host{Name: c.Name}, Bus: bus.Address{URL: c.URL}, Engine: e, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	ready("")
	cancel()
	return <-ended
}

// witnessed is an engine whose queries count events of its own.
type witnessed struct {
	clusterHost
	*recorded
}

func (e *witnessed) NewSession(context.Context, wire.Options) (wire.Session, error) {
	return witnessedSession{e: e}, nil
}
func (e *witnessed) Close() error { return nil }

type witnessedSession struct {
	wire.Session
	e *witnessed
}

func (s witnessedSession) Close() error { return nil }

// Describe says that the states of hosts can be merged before the root.
func (s witnessedSession) Describe(context.Context, string) (wire.Description, error) {
	return wire.Description{Merges: true}, nil
}

func (s witnessedSession) ExecuteShare(context.Context, string, string, ...types.Value) (wire.Result, error) {
	f, err := os.OpenFile(s.e.Witness, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &witnessedResult{e: s.e, file: f, stop: make(chan struct{}), tick: time.NewTicker(200 * time.Millisecond)}, nil
}

// witnessedResult gives the total of its group five times a second.
type witnessedResult struct {
	e     *witnessed
	file  *os.File
	stop  chan struct{}
	once  sync.Once
	tick  *time.Ticker
	total int64
	flush bool // comes next
	last  bool // no total follows
}

func (r *witnessedResult) Columns() []wire.Column { return r.e.Columns }
func (r *witnessedResult) Message() string        { return "" }
func (r *witnessedResult) Info() wire.Info        { return wire.Info{Share: r.e.Share} }
func (r *witnessedResult) Summary() wire.Summary  { return wire.Summary{} }
func (r *witnessedResult) Stop()                  { r.once.Do(func() { close(r.stop) }) }

func (r *witnessedResult) Close() error {
	r.Stop()
	r.tick.Stop()
	return r.file.Close()
}

func (r *witnessedResult) Next(ctx context.Context) (wire.Event, error) {
	switch {
	case r.flush:
		r.flush = false
		return wire.Event{Kind: wire.Flush}, nil
	case r.last:
		return wire.Event{}, io.EOF
	}
	select {
	case <-r.tick.C:
	case <-r.stop:
		r.last = true
	case <-ctx.Done():
		return wire.Event{}, ctx.Err()
	}
	r.total += 1 + rand.Int64N(1000)
	if _, err := fmt.Fprintln(r.file, r.total, time.Now().UnixNano()); err != nil {
		return wire.Event{}, err
	}
	r.flush = true
	b, err := r.e.state(r.total)
	return wire.Event{Kind: wire.Rows, Batch: b}, err
}

// state returns the state of the host's group: that which was recorded, with another key
// and count.
func (e *witnessed) state(total int64) (*batch.Batch, error) {
	f, err := planpb.Decode(e.Share.Plan)
	if err != nil {
		return nil, err
	}
	from, err := bus.DecodeRows(e.Columns, e.Rounds[0][0])
	if err != nil {
		return nil, err
	}
	var kinds []types.Type
	var row []types.Value
	for i, c := range e.Columns {
		kinds, row = append(kinds, c.Type), append(row, from[0].Cols[i].Value(from[0].Row(0)))
	}
	from[0].Release()
	row[f.Exchange.Pick[1]], row[f.Exchange.Pick[2]] = types.Int(e.Key), types.Int(total)
	b := batch.New(kinds)
	b.AppendRow(row...)
	return b, nil
}
