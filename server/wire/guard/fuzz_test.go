package guard_test

import (
	"testing"

	"endoscope/server/wire/bus"
	"endoscope/server/wire/fleettrust"
	"endoscope/server/wire/guard"
)

// FuzzOpen sends arbitrary bytes to a host and an author, as messages of each kind. None was
// signed, so none is accepted.
//
//	go test -run '^$' -fuzz FuzzOpen -fuzztime 1m ./server/wire/guard
func FuzzOpen(f *testing.F) {
	i, other := newInstallation(f), newInstallation(f)
	alice, host := i.guard("alice", fleettrust.Author), i.guard("db1", fleettrust.Host)
	introduce(f, alice, map[string]*guard.Guard{"db1": host})
	_, _, err := host.Open(bus.About{Kind: bus.KindQuery, Query: "q1", Host: "db1"}, ask(f, alice, "q1", "db1"))
	must(f, err)
	mallory, theirs := other.guard("alice", fleettrust.Author), other.guard("db1", fleettrust.Host)
	introduce(f, mallory, map[string]*guard.Guard{"db1": theirs})
	f.Add(uint8(bus.KindQuery), ask(f, mallory, "q1", "db1"))
	f.Add(uint8(bus.KindLease), lease(f, mallory, bus.Lease{Query: "q1"}))
	f.Add(uint8(bus.KindLease), lease(f, mallory, bus.Lease{Query: "q1", Over: true}))
	f.Add(uint8(bus.KindQuery), []byte{0, 0, 0, 1, 0})
	for _, k := range []bus.Kind{bus.KindHost, bus.KindHeartbeat} {
		m, err := theirs.Seal(bus.About{Kind: k, Host: "db1"}, bus.Encode(bus.Heartbeat{Host: "db1"}))
		must(f, err)
		f.Add(uint8(k), m)
	}
	m, err := mallory.Seal(bus.About{Kind: bus.KindControl, Host: "db1"}, bus.Encode(bus.Control{Query: "q1", Next: 1}))
	must(f, err)
	for _, k := range []bus.Kind{bus.KindControl, bus.KindResult, bus.KindAnswer} {
		f.Add(uint8(k), m)
	}
	f.Fuzz(func(t *testing.T, k uint8, msg []byte) {
		for name, g := range map[string]*guard.Guard{"alice": alice, "db1": host} {
			if _, from, err := g.Open(bus.About{Kind: bus.Kind(k), Query: "q1", Host: "db1"}, msg); err == nil {
				t.Fatalf("%s accepted a message of kind %d of %s: %x", name, k, from, msg)
			}
		}
	})
}
