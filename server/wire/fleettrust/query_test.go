package fleettrust

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

func TestQuerySealedToHosts(t *testing.T) {
	f := newFleet(t)
	alice, reducer := f.enroll("alice", Author, day), f.enroll("r1", Reducer, day)
	var hosts []*Identity
	var members []*Member
	for n := range 200 { // several chunks of keys
		h := f.enroll(fmt.Sprintf("db%d.example", n), Host, day)
		hosts, members = append(hosts, h), append(members, h.Member)
	}
	const text = "SELECT function_name, COUNT(*) FROM function_duration"
	sealed, err := alice.SealQuery(Query{Body: []byte(text), Standing: true}, f.header(time.Hour), members, []*Member{reducer.Member, alice.Member})
	must(t, err)
	if len(sealed.Keys) != 4 {
		t.Errorf("%d chunks of keys for 202 members, want 4", len(sealed.Keys))
	}
	trust := f.trust()
	for _, i := range append(hosts, alice, reducer) {
		q, err := open(trust, i, sealed)
		if err != nil {
			t.Fatalf("%s: %v", i.Name, err)
		}
		if string(q.Body) != text || q.ID != sealed.ID || q.Author.Name != "alice" || !q.Standing ||
			len(q.Readers) != 2 || q.Readers[0].Name != "r1" || !q.Expiry.Equal(f.clock().Add(time.Hour)) {
			t.Errorf("%s received %+v", i.Name, q)
		}
	}
	for _, part := range append(sealed.Keys, sealed.Message) {
		if bytes.Contains(part, []byte("function")) {
			t.Error("a listener can read the query")
		}
	}
	other := f.enroll("other", Host, day)
	_, err = open(trust, other, sealed)
	refused(t, "a host that was not selected", err, Unsealed)

	// A host that joins later receives the key from who has it.
	q, err := open(trust, reducer, sealed)
	must(t, err)
	keys, err := q.KeysFor([]*Member{other.Member})
	must(t, err)
	s, err := trust.VerifyQuery(sealed.Message)
	must(t, err)
	if late, err := trust.Open(other, s, keys[s.Chunk(other.Member)]); err != nil || string(late.Body) != text {
		t.Errorf("a host that joined later: %v", err)
	}
	// One host's keys do not help another.
	_, err = trust.Open(hosts[0], s, keys[s.Chunk(other.Member)])
	refused(t, "the keys of another host", err, Unsealed)
}

// The same query has another id each time, so that a listener cannot verify a guess.
func TestQueryIDsUnpredictable(t *testing.T) {
	f := newFleet(t)
	alice := f.enroll("alice", Author, day)
	a, err := alice.SealQuery(Query{Body: []byte("x")}, f.header(time.Hour), nil, nil)
	must(t, err)
	b, err := alice.SealQuery(Query{Body: []byte("x")}, f.header(time.Hour), nil, nil)
	must(t, err)
	if a.ID == b.ID {
		t.Error("equal queries have equal ids")
	}
	if id, err := ParseID(a.ID.String()); err != nil || id != a.ID {
		t.Errorf("the id %s is parsed as %s: %v", a.ID, id, err)
	}
}

// What cannot be accepted cannot be sent by mistake.
func TestQueriesNotSigned(t *testing.T) {
	f := newFleet(t)
	alice, host := f.enroll("alice", Author, 2*day), f.enroll("db1", Host, day)
	long := f.header(25 * time.Hour)
	for what, c := range map[string]struct {
		by *Identity
		q  Query
		h  Header
	}{
		"a host's":                  {host, Query{}, f.header(time.Hour)},
		"longer than a day":         {alice, Query{}, long},
		"longer than a certificate": {alice, Query{Standing: true}, f.header(3 * day)},
		"too long":                  {alice, Query{Body: make([]byte, maxBody)}, f.header(time.Hour)},
	} {
		if _, err := c.by.SealQuery(c.q, c.h, nil, nil); err == nil {
			t.Errorf("a query was signed: %s", what)
		}
	}
	if _, err := alice.SealQuery(Query{Standing: true}, long, nil, nil); err != nil {
		t.Errorf("a standing query of 25 hours: %v", err)
	}
}
