package fleettrust

import (
	"maps"
	"sync"
	"time"
)

// Register is what a host knows of queries: which are verified, how long their leases
// last, and which are revoked. Live says whether the host may run one. It is safe for
// concurrent use.
//
// A query runs while all of these hold:
//
//   - the certificates of its author and of one of its readers are valid;
//   - it has not expired;
//   - it is not revoked by a tombstone of its author;
//   - its lease is fresh. The query itself is the first lease, for MaxLease from its
//     not-before on.
//
// Every message may arrive repeatedly, late and in any order.
type Register struct {
	t *Trust

	mu      sync.Mutex
	queries map[ID]*entry
	// revoked is, by author, until when the tombstone of a query is kept. It may arrive
	// before the query does.
	revoked map[string]map[ID]time.Time
	swept   time.Time // when forget has last searched
}

// entry is a query.
type entry struct {
	q      *OpenQuery
	added  time.Time
	leases map[string]lease // by the role and the name of the signer: the author, or a reducer
}

type lease struct {
	signed time.Time // by the signer's clock
	until  time.Time // by this machine's clock
}

// Limits of a Register.
const (
	maxQueries    = 1024
	maxTombstones = 1 << 16 // of an author
)

// NewRegister returns an empty Register.
func NewRegister(t *Trust) *Register {
	return &Register{t: t, queries: map[ID]*entry{}, revoked: map[string]map[ID]time.Time{}}
}

// Query returns a query that was added; nil: it is not known.
func (r *Register) Query(id ID) *OpenQuery {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.queries[id]; e != nil {
		return e.q
	}
	return nil
}

// Add adds a query. added is false if it is known already.
func (r *Register) Add(q *OpenQuery) (added bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.t.o.Now()
	r.forget(now)
	if len(r.queries) >= maxQueries {
		r.dropEnded(now)
	}
	switch {
	case r.queries[q.ID] != nil:
		return false, nil
	case r.isRevoked(q):
		return false, refuse(Revoked, "the query of %s is revoked", q.Author.Name)
	case now.After(q.Expiry.Add(Tolerance)):
		return false, refuse(Expired, "the query has expired")
	case len(r.queries) >= maxQueries:
		return false, refuse(Overflow, "there are %d queries already", len(r.queries))
	}
	first := lease{q.NotBefore, leaseEnd(now, q.NotBefore, q.NotBefore.Add(MaxLease))}
	r.queries[q.ID] = &entry{q: q, added: now, leases: map[string]lease{signer(q.Author): first}}
	return true, nil
}

// Lease notes a verified lease of a query that is known. A lease that is not newer than
// the one before is refused.
func (r *Register) Lease(m *Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.queries[m.ID]
	if e == nil {
		return refuse(Unknown, "the query of the lease is not known")
	}
	if err := e.q.mayLease(m); err != nil {
		return err
	}
	if !m.NotBefore.After(e.leases[signer(m.From)].signed) {
		return refuse(Replayed, "the lease is not newer than the one before")
	}
	e.leases[signer(m.From)] = lease{m.NotBefore, leaseEnd(r.t.o.Now(), m.NotBefore, m.Expiry)}
	return nil
}

func signer(m *Member) string { return m.Role.String() + " " + m.Name }

// leaseEnd returns when a lease ends by the clock here: it lasts as long as it says, from
// now on, but not longer than Tolerance after its end.
func leaseEnd(now, from, to time.Time) time.Time {
	end := now.Add(to.Sub(from))
	if latest := to.Add(Tolerance); latest.Before(end) {
		end = latest
	}
	return end
}

// mayLease refuses a lease that is too long, or of a member that may not renew the query.
func (q *OpenQuery) mayLease(m *Message) error {
	author := m.From.Role == Author && m.From.Name == q.Author.Name
	if !author && !(q.Standing && m.From.Role == Reducer && q.ReadBy(m.From)) {
		return refuse(Unpermitted, "%s %s may not renew a query of %s", m.From.Role, m.From.Name, q.Author.Name)
	}
	if most := q.maxLease(); m.Expiry.Sub(m.NotBefore) > most {
		return refuse(Malformed, "a lease of this query lasts at most %s", most)
	}
	return nil
}

func (q *OpenQuery) maxLease() time.Duration {
	if q.Standing {
		return MaxStandingLease
	}
	return MaxLease
}

// Tombstone notes a verified tombstone. It is kept until the query that it revokes
// expires, also if that is unknown yet.
func (r *Register) Tombstone(m *Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(r.t.o.Now())
	if e := r.queries[m.ID]; e != nil && e.q.Author.Name != m.From.Name {
		return refuse(Unpermitted, "%s may not revoke a query of %s", m.From.Name, e.q.Author.Name)
	}
	all := r.revoked[m.From.Name]
	if all == nil {
		all = map[ID]time.Time{}
		r.revoked[m.From.Name] = all
	}
	if _, known := all[m.ID]; !known && len(all) >= maxTombstones {
		return refuse(Overflow, "%s has revoked %d queries already", m.From.Name, len(all))
	}
	if until := m.Expiry.Add(2 * Tolerance); until.After(all[m.ID]) {
		all[m.ID] = until
	}
	return nil
}

// isRevoked reports whether a query is revoked. The caller holds r.mu.
func (r *Register) isRevoked(q *OpenQuery) bool {
	_, revoked := r.revoked[q.Author.Name][q.ID]
	return revoked
}

// dropEnded drops queries that have ended and not expired. None of them can begin again by
// what was sent before: their tombstones are kept, and their leases are too old. The caller
// holds r.mu.
func (r *Register) dropEnded(now time.Time) {
	maps.DeleteFunc(r.queries, func(_ ID, e *entry) bool {
		lapsed := now.After(e.leased()) && now.After(e.added.Add(MaxStandingLease+2*Tolerance))
		return lapsed || r.isRevoked(e.q)
	})
}

// leased returns when the last lease ends.
func (e *entry) leased() (until time.Time) {
	for _, l := range e.leases {
		if l.until.After(until) {
			until = l.until
		}
	}
	return until
}

// sweepEvery is the time between two searches for what has expired.
const sweepEvery = 10 * time.Second

// forget drops what has expired, from time to time. The caller holds r.mu.
func (r *Register) forget(now time.Time) {
	if now.Sub(r.swept) < sweepEvery {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.queries, func(_ ID, e *entry) bool { return now.After(e.q.Expiry.Add(Tolerance)) })
	for author, all := range r.revoked {
		maps.DeleteFunc(all, func(_ ID, until time.Time) bool { return now.After(until) })
		if len(all) == 0 {
			delete(r.revoked, author)
		}
	}
}

// Live returns until when a query may run unless a message changes that. The error is why
// it may not run. Ask again after every message, and at least each second: a certificate
// may have been revoked.
func (r *Register) Live(id ID) (until time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, now := r.queries[id], r.t.o.Now()
	if e == nil {
		return now, refuse(Unknown, "the query is not known")
	}
	q := e.q
	if r.isRevoked(q) {
		return now, refuse(Revoked, "the query was revoked")
	}
	end := q.Expiry.Add(Tolerance)
	if now.After(end) {
		return now, refuse(Expired, "the query has expired")
	}
	if err := r.t.Valid(q.Author); err != nil {
		return now, err
	}
	readers, err := r.t.ReadersOf(q)
	if err != nil {
		return now, err
	}
	last := readers[0].NotAfter
	for _, m := range readers[1:] {
		if m.NotAfter.After(last) {
			last = m.NotAfter
		}
	}
	if q.Author.NotAfter.Before(last) {
		last = q.Author.NotAfter
	}
	if last = last.Add(Tolerance); last.Before(end) {
		end = last
	}
	leased := e.leased()
	if now.After(leased) {
		return now, refuse(Expired, "the lease of the query has ended")
	}
	if leased.Before(end) {
		end = leased
	}
	return end, nil
}
