package fleettrust

import (
	"testing"
	"time"
)

// agent is a host's part in the tests of a Register.
type agent struct {
	f    *fleet
	t    *Trust
	r    *Register
	host *Identity
}

func newAgent(f *fleet, host *Identity) *agent {
	t := f.trust()
	return &agent{f, t, NewRegister(t), host}
}

func (a *agent) query(q *SealedQuery) (bool, error) {
	o, err := open(a.t, a.host, q)
	if err != nil {
		return false, err
	}
	return a.r.Add(o)
}

func (a *agent) lease(msg []byte) error {
	m, err := a.t.Verify(KindLease, msg)
	if err != nil {
		return err
	}
	return a.r.Lease(m)
}

func (a *agent) tombstone(msg []byte) error {
	m, err := a.t.Verify(KindTombstone, msg)
	if err != nil {
		return err
	}
	return a.r.Tombstone(m)
}

// left returns how long a query may run.
func (a *agent) left(id ID) (time.Duration, error) {
	until, err := a.r.Live(id)
	return until.Sub(a.f.clock()), err
}

func (f *fleet) sealed(by, host *Identity, life time.Duration, keepers ...*Identity) *SealedQuery {
	f.Helper()
	var readers []*Member
	for _, k := range keepers {
		readers = append(readers, k.Member)
	}
	q, err := by.SealQuery(Query{Body: []byte("SELECT 1"), Standing: len(keepers) > 0}, f.header(life), []*Member{host.Member}, readers)
	must(f, err)
	return q
}

// about signs a message about a query that is valid for life.
func (f *fleet) about(by *Identity, k Kind, id ID, life time.Duration) []byte {
	f.Helper()
	h := f.header(life)
	h.ID = id
	m, err := by.Sign(k, h, nil)
	must(f, err)
	return m
}

func TestQueriesRunWhileLeased(t *testing.T) {
	f := newFleet(t)
	alice, host := f.enroll("alice", Author, day), f.enroll("db1", Host, day)
	a := newAgent(f, host)
	q := f.sealed(alice, host, time.Hour)
	for n := range 3 { // delivery repeats
		if added, err := a.query(q); err != nil || added != (n == 0) {
			t.Fatalf("delivery %d: added %t, %v", n, added, err)
		}
	}
	if left, err := a.left(q.ID); err != nil || left != MaxLease {
		t.Errorf("the query may run for %s: %v; it is its own first lease", left, err)
	}
	f.pass(20 * time.Second)
	renewal := f.about(alice, KindLease, q.ID, MaxLease)
	f.pass(5 * time.Second)
	must(t, a.lease(renewal))
	if left, err := a.left(q.ID); err != nil || left != MaxLease {
		t.Errorf("the query may run for %s: %v", left, err)
	}
	f.pass(MaxLease)
	refused(t, "a lease that was received before", a.lease(renewal), Replayed)
	f.pass(1)
	_, err := a.left(q.ID)
	refused(t, "the query without a fresh lease", err, Expired)
	must(t, a.lease(f.about(alice, KindLease, q.ID, MaxLease))) // the author is back
	if _, err := a.left(q.ID); err != nil {
		t.Errorf("the query with a fresh lease: %v", err)
	}
	// An old query does not begin again at an agent that has restarted.
	again := newAgent(f, host)
	must(t, func() error { _, err := again.query(q); return err }())
	refused(t, "the lease before", again.lease(renewal), "")
	f.pass(2 * MaxLease)
	_, err = again.left(q.ID)
	refused(t, "the query at a restarted agent", err, Expired)
	refused(t, "an expired lease", again.lease(renewal), Expired)
}

func TestLeasesRefused(t *testing.T) {
	f := newFleet(t)
	alice, bob, host := f.enroll("alice", Author, 2*day), f.enroll("bob", Author, day), f.enroll("db1", Host, day)
	renewer, second, other := f.enroll("r1", Reducer, 2*day), f.enroll("r2", Reducer, 2*day), f.enroll("r3", Reducer, day)
	a := newAgent(f, host)
	q, standing := f.sealed(alice, host, time.Hour), f.sealed(alice, host, 30*time.Hour, renewer, second)
	for _, x := range []*SealedQuery{q, standing} {
		_, err := a.query(x)
		must(t, err)
	}
	f.pass(time.Second)
	for what, c := range map[string]struct {
		by   *Identity
		id   ID
		life time.Duration
		want Reason
	}{
		"of an unknown query":              {alice, ID{9}, MaxLease, Unknown},
		"of another author":                {bob, q.ID, MaxLease, Unpermitted},
		"of a reducer":                     {renewer, q.ID, MaxLease, Unpermitted},
		"of another reducer":               {other, standing.ID, MaxLease, Unpermitted},
		"too long":                         {alice, q.ID, MaxLease + 1, Malformed},
		"too long for a standing query":    {renewer, standing.ID, MaxStandingLease, ""},
		"of the second reducer":            {second, standing.ID, MaxLease, ""},
		"the renewer's, by another author": {bob, standing.ID, MaxLease, Unpermitted},
	} {
		refused(t, what, a.lease(f.about(c.by, KindLease, c.id, c.life)), c.want)
	}
	if left, err := a.left(standing.ID); err != nil || left != MaxStandingLease {
		t.Errorf("the standing query may run for %s: %v", left, err)
	}
	if left, err := a.left(q.ID); err != nil || left != MaxLease-time.Second {
		t.Errorf("the query may run for %s: %v", left, err)
	}
	if _, err := alice.Sign(KindLease, f.header(MaxStandingLease+1), nil); err == nil {
		t.Error("a lease of more than ten minutes was signed")
	}
}

func TestTombstones(t *testing.T) {
	f := newFleet(t)
	alice, bob, host := f.enroll("alice", Author, day), f.enroll("bob", Author, day), f.enroll("db1", Host, day)
	// The author may have another certificate by then.
	alice2 := f.enroll("alice", Author, day)
	a := newAgent(f, host)
	q := f.sealed(alice, host, time.Hour)
	tomb, forged := f.about(alice2, KindTombstone, q.ID, time.Hour), f.about(bob, KindTombstone, q.ID, time.Hour)
	_, err := a.query(q)
	must(t, err)
	refused(t, "another author's tombstone", a.tombstone(forged), Unpermitted)
	if _, err := a.left(q.ID); err != nil {
		t.Error(err)
	}
	must(t, a.tombstone(tomb))
	must(t, a.tombstone(tomb))
	_, err = a.left(q.ID)
	refused(t, "a revoked query", err, Revoked)

	// The tombstone arrives first; another author's has no effect.
	b := newAgent(f, host)
	must(t, b.tombstone(forged))
	must(t, b.tombstone(tomb))
	_, err = b.query(q)
	refused(t, "a query after its tombstone", err, Revoked)
	c := newAgent(f, host)
	must(t, c.tombstone(forged))
	if _, err = c.query(q); err != nil {
		t.Errorf("a query after the tombstone of another author: %v", err)
	}
	// It is kept as long as the query could be replayed.
	f.pass(time.Hour + Tolerance)
	_, err = b.query(q)
	refused(t, "a query after its tombstone, at the end", err, Revoked)
	f.pass(1)
	_, err = b.query(q)
	refused(t, "an expired query", err, Expired)
	f.pass(Tolerance)
	must(t, b.tombstone(f.about(alice, KindTombstone, ID{1}, time.Minute)))
	if n := len(b.r.revoked["alice"]); n != 1 {
		t.Errorf("%d tombstones are kept", n)
	}
}

// A query ends when the certificate of its author, or of the last of its readers, is revoked
// or expires.
func TestRevokedCertificatesEndQueries(t *testing.T) {
	f := newFleet(t)
	alice, host, brief := f.enroll("alice", Author, day), f.enroll("db1", Host, day), f.enroll("r1", Reducer, 10*time.Second)
	a := newAgent(f, host)
	q := f.sealed(alice, host, time.Hour)
	_, err := a.query(q)
	must(t, err)
	read, err := alice.SealQuery(Query{}, f.header(time.Hour), []*Member{host.Member}, []*Member{brief.Member})
	must(t, err)
	both, err := alice.SealQuery(Query{Standing: true}, f.header(time.Hour), []*Member{host.Member}, []*Member{brief.Member, alice.Member})
	must(t, err)
	for _, q := range []*SealedQuery{read, both} {
		_, err = a.query(q)
		must(t, err)
	}
	if left, err := a.left(read.ID); err != nil || left != MaxLease {
		t.Errorf("the query may run for %s: %v", left, err)
	}
	f.pass(10*time.Second + Tolerance + 1)
	must(t, a.lease(f.about(alice, KindLease, read.ID, MaxLease)))
	for _, x := range []*SealedQuery{q, both} {
		must(t, a.lease(f.about(alice, KindLease, x.ID, MaxLease)))
	}
	_, err = a.left(both.ID)
	must(t, err) // another reader is there
	_, err = a.left(read.ID)
	refused(t, "a query whose reader's certificate has expired", err, Expired)
	if _, err = a.left(q.ID); err != nil {
		t.Error(err)
	}
	_, err = a.t.SetList(f.list(1, day, alice))
	must(t, err)
	_, err = a.left(q.ID)
	refused(t, "a query of a revoked author", err, Revoked)
	refused(t, "the lease of a revoked author", a.lease(f.about(alice, KindLease, q.ID, MaxLease)), Revoked)
	_, err = a.query(f.sealed(alice, host, time.Hour))
	refused(t, "another query of a revoked author", err, Revoked)
}

func TestRegisterIsBounded(t *testing.T) {
	f := newFleet(t)
	alice, bob, host := f.enroll("alice", Author, day), f.enroll("bob", Author, day), f.enroll("db1", Host, day)
	a := newAgent(f, host)
	message := func(by *Identity, n int) *Message {
		h := f.header(time.Minute)
		h.ID = ID{byte(n), byte(n >> 8), byte(n >> 16), 1}
		return &Message{Header: h, Kind: KindTombstone, From: by.Member}
	}
	for n := range maxTombstones {
		must(t, a.r.Tombstone(message(alice, n)))
	}
	refused(t, "one tombstone more", a.r.Tombstone(message(alice, maxTombstones)), Overflow)
	must(t, a.r.Tombstone(message(alice, 0)))
	must(t, a.r.Tombstone(message(bob, maxTombstones)))
	fill := func(first int) {
		t.Helper()
		for n := range maxQueries {
			_, err := a.r.Add(&OpenQuery{ID: ID{byte(n), byte(n >> 8), byte(first)}, Author: alice.Member, NotBefore: f.clock(), Expiry: f.clock().Add(time.Hour)})
			if err != nil {
				t.Fatalf("%d queries: %v", n, err)
			}
		}
	}
	fill(2)
	_, err := a.query(f.sealed(alice, host, time.Hour))
	refused(t, "one query more", err, Overflow)
	// Those that have ended make room.
	f.pass(MaxStandingLease + 2*Tolerance + 1)
	fill(3)
	over := message(alice, 0)
	over.ID, over.Expiry = ID{7, 0, 3}, f.clock().Add(time.Hour)
	must(t, a.r.Tombstone(over))
	if _, err = a.query(f.sealed(alice, host, time.Hour)); err != nil {
		t.Errorf("a query when one is revoked: %v", err)
	}
	if _, err = a.r.Add(&OpenQuery{ID: over.ID, Author: alice.Member, Expiry: over.Expiry}); ReasonOf(err) != Revoked {
		t.Errorf("the revoked one again: %v", err)
	}
	f.pass(time.Hour)
	f.pass(time.Minute + Tolerance + 1)
	if _, err = a.query(f.sealed(alice, host, time.Hour)); err != nil {
		t.Errorf("a query when the others have expired: %v", err)
	}
}
