package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"endoscope/server/wire/bus"
)

// The CA's list of revoked certificates is the last message of a subject, which a stream
// keeps. Members subscribe to it, and read the last one at the beginning and from time to
// time, since messages may be lost.
const (
	listStream  = "endoscope_trust"
	allLists    = "endoscope.trust.*"
	revokedList = "endoscope.trust.revoked"
)

// rereadEvery is the time between two readings of the list.
const rereadEvery = 10 * time.Second

// Prepare creates the stream of lists if it does not exist. replicas is its number of
// copies in a cluster; 0: 1.
func Prepare(ctx context.Context, nc *nats.Conn, replicas int) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: listStream, Description: "lists of the fleet's CA", Subjects: []string{allLists},
		MaxMsgsPerSubject: 1, AllowDirect: true, Replicas: max(replicas, 1)})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		err = nil
	}
	return err
}

// Publish stores the list of revoked certificates at the bus.
func Publish(ctx context.Context, nc *nats.Conn, list []byte) error {
	m, err := nc.RequestWithContext(ctx, revokedList, list)
	if err != nil {
		return fmt.Errorf("the list of revoked certificates cannot be stored at the bus: %w", err)
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := bus.Decode(m.Data, &ack); err != nil {
		return err
	}
	if ack.Error != nil {
		return ack.Error
	}
	return nil
}

// Follow implements bus.Trust: it accepts lists of revoked certificates.
func (g *Guard) Follow(ctx context.Context, nc *nats.Conn, report func(change string, err error)) {
	in := make(chan *nats.Msg, 16)
	sub, err := nc.ChanSubscribe(revokedList, in)
	if err != nil {
		report("", err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	accept := func(list []byte) {
		newer, err := g.Revoked(list)
		if newer || err != nil {
			report(fmt.Sprintf("list %d of revoked certificates", g.trust.ListNumber()), err)
		}
	}
	read := func() {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if m, err := nc.RequestWithContext(short, directGet+listStream+"."+revokedList, nil); err == nil && m.Header.Get("Status") == "" {
			accept(m.Data)
		}
	}
	read()
	for {
		select {
		case m := <-in:
			accept(m.Data)
		case <-tick.C:
			read()
		case <-ctx.Done():
			return
		}
	}
}
