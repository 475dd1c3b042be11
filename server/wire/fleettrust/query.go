package fleettrust

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/cryptobyte"
)

// Query is what a query's author signs. Only those to whom it is sealed can read it.
type Query struct {
	// Body is the query in the notation of the fleet: text, settings, definitions, hosts.
	Body []byte
	// Standing: the query outlives its author's client. Reducers that read its results may
	// renew its lease, too.
	Standing bool
}

// SealedQuery is a query as it travels.
type SealedQuery struct {
	ID      ID
	Message []byte
	// Keys are the sealed keys of the hosts, in chunks: a host needs the chunk of its
	// fingerprint only (SignedQuery.Chunk).
	Keys [][]byte
}

// hostsPerChunk is the mean number of hosts in a chunk of keys: 6 KiB.
const hostsPerChunk = 64

// The body of a message of KindQuery:
//
//	chunks(2)
//	sealed: nonce(32) standing(1) count(1) (length(2) certificate of a reader)* body
//
// The sealed part has a key of its own, so the nonce of its cipher is zero. The id is the
// hash of its contents, and authenticated with it. The nonce in it makes the id
// unpredictable: a listener who guesses the text cannot verify the guess.

const nonceBytes = 32

// SealQuery seals a query to hosts and signs it. Results are sealed to readers: to the
// author, if there are none. Readers and the author can open the query, too. The id of h is
// set.
func (i *Identity) SealQuery(q Query, h Header, hosts, readers []*Member) (*SealedQuery, error) {
	switch {
	case !q.Standing && h.Expiry.Sub(h.NotBefore) > MaxLife:
		return nil, fmt.Errorf("a query lives for at most %s, a standing query for %s", MaxLife, MaxStandingLife)
	case len(readers) > maxReaders:
		return nil, fmt.Errorf("the query has %d readers, at most %d are allowed", len(readers), maxReaders)
	}
	if len(readers) == 0 {
		readers = []*Member{i.Member}
	}
	var b cryptobyte.Builder
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // it does not fail
	b.AddBytes(nonce)
	b.AddUint8(map[bool]uint8{true: 1}[q.Standing])
	b.AddUint8(uint8(len(readers)))
	for _, m := range readers {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(m.Certificate) })
	}
	b.AddBytes(q.Body)
	body, err := b.Bytes()
	if err != nil {
		return nil, err
	}
	installation := installationOf(i.CA.Raw)
	h.ID = queryID(installation, body)
	key, c := newContentKey()
	sealed := c.Seal(nil, make([]byte, c.NonceSize()), body, h.ID[:])
	all := append(append([]*Member{i.Member}, readers...), hosts...)
	chunks := min((len(all)+hostsPerChunk-1)/hostsPerChunk, 1<<16-1)
	s := &SealedQuery{ID: h.ID}
	if s.Message, err = i.Sign(KindQuery, h, append(binary.BigEndian.AppendUint16(nil, uint16(chunks)), sealed...)); err != nil {
		return nil, err
	}
	s.Keys, err = sealChunks(key, installation, h.ID, chunks, all)
	return s, err
}

// queryID returns the hash of a body.
func queryID(installation [32]byte, body []byte) ID {
	d := sha256.New()
	d.Write([]byte(domainOf("query id")))
	d.Write(installation[:])
	d.Write(body)
	return ID(d.Sum(nil))
}

// sealChunks seals a key to members, in chunks by their fingerprints.
func sealChunks(key []byte, installation [32]byte, id ID, chunks int, to []*Member) ([][]byte, error) {
	parts := make([][]*Member, chunks)
	seen := map[[32]byte]bool{}
	for _, m := range to {
		if !seen[m.Fingerprint] {
			seen[m.Fingerprint] = true
			n := chunkOf(m, chunks)
			parts[n] = append(parts[n], m)
		}
	}
	info := keyInfo("query", installation, id)
	out := make([][]byte, chunks)
	for n, part := range parts {
		var err error
		if out[n], err = sealKeys(key, info, part); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func chunkOf(m *Member, chunks int) int {
	return int(binary.BigEndian.Uint64(m.Fingerprint[:8]) % uint64(chunks))
}

// SignedQuery is a verified query that is still sealed.
type SignedQuery struct {
	*Message
	installation [32]byte
	chunks       int
	sealed       []byte
}

// VerifyQuery verifies a query, without opening it.
func (t *Trust) VerifyQuery(msg []byte) (*SignedQuery, error) {
	m, err := t.Verify(KindQuery, msg)
	if err != nil {
		return nil, err
	}
	if len(m.Body) < 2 {
		return nil, refuse(Malformed, "the query is truncated")
	}
	s := &SignedQuery{Message: m, installation: t.installation, chunks: int(binary.BigEndian.Uint16(m.Body)), sealed: m.Body[2:]}
	if s.chunks == 0 {
		return nil, refuse(Malformed, "the query has no keys")
	}
	return s, nil
}

// Chunk returns the chunk of keys that a member needs.
func (s *SignedQuery) Chunk(m *Member) int { return chunkOf(m, s.chunks) }

// Chunks returns the number of chunks.
func (s *SignedQuery) Chunks() int { return s.chunks }

// OpenQuery is a query whose signature, contents and readers are verified.
type OpenQuery struct {
	Query
	ID        ID
	Author    *Member
	NotBefore time.Time
	Expiry    time.Time
	Readers   []*Member // results are sealed to them

	signed *SignedQuery
	key    []byte
}

// maxReaders bounds the readers of a query's results.
const maxReaders = 64

// Open opens a verified query with the chunk of keys of i.
func (t *Trust) Open(i *Identity, s *SignedQuery, keys []byte) (*OpenQuery, error) {
	if len(keys) > MaxMessage {
		return nil, refuse(Oversized, "the keys of the query have %d bytes", len(keys))
	}
	key, err := i.unsealKey(keys, keyInfo("query", t.installation, s.ID))
	if err != nil {
		return nil, err
	}
	c := contentCipher(key)
	body, err := c.Open(nil, make([]byte, c.NonceSize()), s.sealed, s.ID[:])
	if err != nil || queryID(t.installation, body) != s.ID {
		return nil, refuse(Forged, "the query is not what its author has signed")
	}
	q := &OpenQuery{ID: s.ID, Author: s.From, NotBefore: s.NotBefore, Expiry: s.Expiry, signed: s, key: key}
	if err := t.parseQuery(q, body); err != nil {
		return nil, err
	}
	switch {
	case !q.Standing && s.Expiry.Sub(s.NotBefore) > MaxLife:
		return nil, refuse(Malformed, "a query lives for at most %s", MaxLife)
	}
	return q, nil
}

// parseQuery parses the contents of a query and verifies the certificates of its readers.
func (t *Trust) parseQuery(q *OpenQuery, body []byte) error {
	truncated := refuse(Malformed, "the query is truncated or malformed")
	var standing, readers uint8
	s := cryptobyte.String(body)
	if !s.Skip(nonceBytes) || !s.ReadUint8(&standing) || standing > 1 ||
		!s.ReadUint8(&readers) || readers == 0 || readers > maxReaders {
		return truncated
	}
	for range readers {
		var der cryptobyte.String
		if !s.ReadUint16LengthPrefixed(&der) {
			return truncated
		}
		m, err := t.Member(der)
		if err != nil {
			return err
		}
		if m.Role != Author && m.Role != Reducer {
			return refuse(Unpermitted, "%s is of role %s, which reads no results", m.Name, m.Role)
		}
		q.Readers = append(q.Readers, m)
	}
	q.Query = Query{Body: s, Standing: standing == 1}
	return nil
}

// ReadBy reports whether a member reads the results of the query.
func (q *OpenQuery) ReadBy(m *Member) bool {
	return slices.ContainsFunc(q.Readers, func(r *Member) bool { return r.Role == m.Role && r.Name == m.Name })
}

// ReadersOf returns the readers of a query's results whose certificates are valid. The error
// is why there is none.
func (t *Trust) ReadersOf(q *OpenQuery) (valid []*Member, err error) {
	for _, m := range q.Readers {
		if why := t.Valid(m); why != nil {
			err = cmp.Or(err, why)
		} else {
			valid = append(valid, m)
		}
	}
	if len(valid) > 0 {
		err = nil
	}
	return valid, err
}

// KeysFor returns the chunks of keys for hosts that joined later. Those who could open
// the query make them.
func (q *OpenQuery) KeysFor(hosts []*Member) ([][]byte, error) {
	return sealChunks(q.key, q.signed.installation, q.ID, q.signed.chunks, hosts)
}
