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

// The CA's list of revoked certificates and its inventory of hosts are the last messages of
// their subjects, which a stream keeps. Members subscribe to them, and read the last ones
// at the beginning and from time to time, since messages may be lost.
const (
	listStream  = "endoscope_trust"
	allLists    = "endoscope.trust.*"
	revokedList = "endoscope.trust.revoked"
	inventory   = "endoscope.trust.hosts"
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

// Publish stores the list of revoked certificates and the inventory of hosts at the bus;
// nil: there is none.
func Publish(ctx context.Context, nc *nats.Conn, revoked, hosts []byte) error {
	for subject, list := range map[string][]byte{revokedList: revoked, inventory: hosts} {
		if list == nil {
			continue
		}
		m, err := nc.RequestWithContext(ctx, subject, list)
		if err != nil {
			return fmt.Errorf("the lists of the CA cannot be stored at the bus: %w", err)
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
	}
	return nil
}

// accept takes a list of the CA, and says what it is if it is newer than the one before.
func (g *Guard) accept(subject string, list []byte) (change string, err error) {
	switch subject {
	case revokedList:
		newer, err := g.Revoked(list)
		if newer {
			change = fmt.Sprintf("list %d of revoked certificates", g.trust.ListNumber())
		}
		return change, err
	case inventory:
		inv, err := g.trust.Inventory(list)
		if err != nil {
			return "", err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.inventory == nil || g.inventory.Number < inv.Number {
			g.inventory = inv
			change = fmt.Sprintf("inventory %d of %d hosts", inv.Number, len(inv.Hosts))
		}
	}
	return change, nil
}

// Hosts implements bus.Trust: those of the signed inventory.
func (g *Guard) Hosts() (all []bus.Host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inventory == nil {
		return nil
	}
	for _, h := range g.inventory.Hosts {
		all = append(all, bus.Host{Name: h.Name, Labels: h.Labels})
	}
	return all
}

// Learn implements bus.Trust. A bus without lists has none to learn.
func (g *Guard) Learn(ctx context.Context, nc *nats.Conn) error {
	var errs []error
	g.read(ctx, nc, func(_ string, err error) { errs = append(errs, err) })
	return errors.Join(errs...)
}

// read reads the stored lists.
func (g *Guard) read(ctx context.Context, nc *nats.Conn, report func(change string, err error)) {
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, subject := range []string{revokedList, inventory} {
		if m, err := nc.RequestWithContext(short, directGet+listStream+"."+subject, nil); err == nil && m.Header.Get("Status") == "" {
			if change, err := g.accept(subject, m.Data); change != "" || err != nil {
				report(change, err)
			}
		}
	}
}

// Follow implements bus.Trust: it accepts lists of the CA.
func (g *Guard) Follow(ctx context.Context, nc *nats.Conn, report func(change string, err error)) {
	in := make(chan *nats.Msg, 16)
	sub, err := nc.ChanSubscribe(allLists, in)
	if err != nil {
		report("", err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	g.read(ctx, nc, report)
	for {
		select {
		case m := <-in:
			if change, err := g.accept(m.Subject, m.Data); change != "" || err != nil {
				report(change, err)
			}
		case <-tick.C:
			g.read(ctx, nc, report)
		case <-ctx.Done():
			return
		}
	}
}
