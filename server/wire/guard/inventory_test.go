package guard_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	"endoscope/server"
	"endoscope/server/access"
	"endoscope/server/fleet"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
)

// Hosts of the signed inventory are among those that a query selects, also if they were
// never heard: the bus cannot hide them.
func TestHostsOfTheInventory(t *testing.T) {
	dir, i := t.TempDir(), newInstallation(t)
	_, err := access.Init(dir, []string{"localhost"})
	must(t, err)
	f, err := access.OpenFleet(dir)
	must(t, err)
	members := map[string]*fleettrust.Identity{}
	var all []*fleettrust.Member
	for name, rack := range map[string]string{"alice": "", "db1": "r1", "db2": "r2", "db3": "r2"} {
		p := fleettrust.Profile{Name: name, Role: fleettrust.Host, Labels: map[string]string{"rack": rack}}
		if rack == "" {
			p = fleettrust.Profile{Name: name, Role: fleettrust.Author}
		}
		_, members[name], err = f.Enroll(p, access.ClientOptions{})
		must(t, err)
		all = append(all, members[name].Member)
	}
	s := natsServer(t, nil, all...)
	alice := i.guardOf(members["alice"])
	nc := connect(t, s, alice)
	testenv.UntilNil(t, "the bus is prepared", func() error {
		return errors.Join(bus.Prepare(t.Context(), nc.Conn, 0), guard.Prepare(t.Context(), nc.Conn, 0))
	})
	hosts, err := f.Inventory()
	must(t, err)
	testenv.UntilNil(t, "the inventory is published", func() error { return guard.Publish(t.Context(), nc.Conn, nil, hosts) })

	e, err := server.New(server.Options{})
	must(t, err)
	defer e.Close()
	db1 := i.guardOf(members["db1"])
	a, err := fleet.New(fleet.Options{Host: bus.Host{Name: "db1"}, Bus: bus.Address{URL: s.ClientURL(), User: db1.User()}, Trust: db1,
		Engine: &counted{Engine: e, users: map[string]bool{}}, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()

	r := dial(t, root.Options{Bus: bus.Address{URL: s.ClientURL(), User: alice.User()}, Trust: alice})
	defer r.Close()
	testenv.UntilNil(t, "db1 joins", func() error { return r.Await(t.Context(), 1, 0) })
	session, err := r.NewSession(t.Context(), wire.Options{})
	must(t, err)
	for where, want := range map[string]string{
		"":                                       "1 of 3 hosts, 2 silent: db2 (never), db3 (never)",
		" WHERE host_label('rack') = 'r1'":       "1 of 1 hosts",
		" WHERE host IN ('db1', 'db3')":          "1 of 2 hosts, 1 silent: db3 (never)",
		" WHERE host_label('rack') <> 'nothing'": "1 of 3 hosts, 2 silent: db2 (never), db3 (never)",
	} {
		res, err := session.Execute(t.Context(), "SELECT COUNT(*) FROM series(3)"+where)
		must(t, err)
		for {
			ev, err := res.Next(t.Context())
			if err == io.EOF {
				break
			}
			must(t, err)
			if ev.Batch != nil {
				ev.Batch.Release()
			}
		}
		if got := res.Summary().Notes[0]; got != want {
			t.Errorf("%s: %s, want %s", where, got, want)
		}
		must(t, res.Close())
	}
}
