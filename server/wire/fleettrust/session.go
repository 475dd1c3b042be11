package fleettrust

import (
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/cryptobyte"
)

// Session seals messages of one query from a member to others: results from a host to
// their readers, acknowledgements from a reader to a host. Its opening is
// signed and contains the session's key, sealed to each reader; it travels with every
// message, so that none depends on another. A reader verifies an opening once, and each
// further message costs one AES-GCM.
//
//	"ES" version
//	length(2) opening: a message of KindSession, whose body is the sealed keys
//	counter(8)
//	sealed payload; the opening, the counter and the subject are authenticated with it
//
// It is safe for concurrent use.
type Session struct {
	prefix []byte // up to the counter
	hash   [32]byte
	expiry time.Time
	c      cipher.AEAD
	sent   atomic.Uint64
}

const sessionMagic = "ES"

// NewSession opens a session for the query h.ID.
func (i *Identity) NewSession(h Header, to []*Member) (*Session, error) {
	if len(to) == 0 || len(to) > maxReaders {
		return nil, fmt.Errorf("a session has %d readers, not 1 to %d", len(to), maxReaders)
	}
	s := &Session{expiry: h.Expiry}
	var key []byte
	key, s.c = newContentKey()
	keys, err := sealKeys(key, keyInfo("session", installationOf(i.CA.Raw), h.ID), to)
	if err != nil {
		return nil, err
	}
	opening, err := i.Sign(KindSession, h, keys)
	if err != nil {
		return nil, err
	}
	s.hash = sha256.Sum256(opening)
	var b cryptobyte.Builder
	b.AddBytes([]byte(sessionMagic))
	b.AddUint8(version)
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(opening) })
	s.prefix, err = b.Bytes()
	return s, err
}

// Expiry returns the time after which readers refuse the session's messages.
func (s *Session) Expiry() time.Time { return s.expiry }

// Seal appends a sealed message for subject to dst.
func (s *Session) Seal(dst []byte, subject string, payload []byte) []byte {
	n := s.sent.Add(1)
	dst = slices.Grow(dst, len(s.prefix)+8+len(payload)+s.c.Overhead())
	dst = append(dst, s.prefix...)
	dst = binary.BigEndian.AppendUint64(dst, n)
	return s.c.Seal(dst, nonceOf(n), payload, sessionData(s.hash, subject))
}

func nonceOf(n uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 4, 12), n) }

// sessionData is what is authenticated beside a payload.
func sessionData(hash [32]byte, subject string) []byte { return append(hash[:], subject...) }

// Inbox opens the sealed messages of one query for a member. It accepts each message once.
// It is safe for concurrent use.
type Inbox struct {
	i    *Identity
	t    *Trust
	id   ID
	from []Role

	mu       sync.Mutex
	sessions map[[32]byte]*received
	senders  map[string]*sender // by role and name
}

// received is a session of a sender.
type received struct {
	hash   [32]byte // of the opening
	from   *Member
	opened time.Time
	expiry time.Time
	c      cipher.AEAD

	mu   sync.Mutex
	last uint64                    // the highest counter
	seen [replayWindow / 64]uint64 // bits of the counters last-replayWindow < n <= last, by n mod replayWindow
}

// sender has the sessions of a member.
type sender struct {
	open []*received // in the order in which they were opened
	// floor is when the newest session was opened that is not kept any more. Sessions
	// opened at that time or before are refused, since their counters are forgotten.
	floor time.Time
}

const (
	replayWindow  = 1024 // messages may overtake so many others
	sessionsOfOne = 64   // of a sender: one for each connection or restart
)

// NewInbox returns the inbox of a query for i, for messages of members with these roles.
func NewInbox(i *Identity, t *Trust, id ID, from ...Role) *Inbox {
	return &Inbox{i: i, t: t, id: id, from: from, sessions: map[[32]byte]*received{}, senders: map[string]*sender{}}
}

// Open opens a message that arrived on subject and appends its payload to dst. Its errors
// are *Refusal.
func (b *Inbox) Open(dst []byte, subject string, msg []byte) (from *Member, payload []byte, err error) {
	if len(msg) > MaxMessage {
		return nil, nil, refuse(Oversized, "the message has %d bytes, at most %d are allowed", len(msg), MaxMessage)
	}
	var v uint8
	var n uint64
	var prefix []byte
	var opening cryptobyte.String
	s := cryptobyte.String(msg)
	if !s.ReadBytes(&prefix, len(sessionMagic)) || string(prefix) != sessionMagic || !s.ReadUint8(&v) || v != version ||
		!s.ReadUint16LengthPrefixed(&opening) || !s.ReadUint64(&n) {
		return nil, nil, refuse(Malformed, "the sealed message is truncated or malformed")
	}
	hash := sha256.Sum256(opening)
	r, err := b.session(hash, opening)
	if err != nil {
		return nil, nil, err
	}
	if payload, err = r.c.Open(dst, nonceOf(n), s, sessionData(hash, subject)); err != nil {
		return nil, nil, refuse(Forged, "the sealed message is not that of %s", r.from.Name)
	}
	if !r.accept(n) {
		return nil, nil, refuse(Replayed, "message %d of %s was received before", n, r.from.Name)
	}
	return r.from, payload, nil
}

// session returns the session of an opening, verified if it is not known yet.
func (b *Inbox) session(hash [32]byte, opening []byte) (*received, error) {
	b.mu.Lock()
	r := b.sessions[hash]
	b.mu.Unlock()
	if r != nil {
		if b.t.o.Now().After(r.expiry.Add(Tolerance)) {
			return nil, refuse(Expired, "the session of %s has expired", r.from.Name)
		}
		return r, b.t.Valid(r.from)
	}
	m, err := b.t.Verify(KindSession, opening)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(b.from, m.From.Role) {
		return nil, refuse(Unpermitted, "%s %s may not send this message", m.From.Role, m.From.Name)
	}
	if m.ID != b.id {
		return nil, refuse(Forged, "the session of %s is that of another query", m.From.Name)
	}
	key, err := b.i.unsealKey(m.Body, keyInfo("session", b.t.installation, m.ID))
	if err != nil {
		return nil, err
	}
	return b.keep(&received{hash: hash, from: m.From, opened: m.NotBefore, expiry: m.Expiry, c: contentCipher(key)})
}

// keep keeps a verified session. The oldest of its sender is dropped if there are too many.
func (b *Inbox) keep(r *received) (*received, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.sessions[r.hash]; known != nil { // a concurrent call has verified it
		return known, nil
	}
	name := r.from.Role.String() + " " + r.from.Name
	s := b.senders[name]
	if s == nil {
		s = &sender{}
		b.senders[name] = s
	}
	if !r.opened.After(s.floor) {
		return nil, refuse(Replayed, "the session of %s is older than those that are kept", r.from.Name)
	}
	at, _ := slices.BinarySearchFunc(s.open, r, func(a, b *received) int { return a.opened.Compare(b.opened) })
	s.open = slices.Insert(s.open, at, r)
	b.sessions[r.hash] = r
	if len(s.open) > sessionsOfOne {
		oldest := s.open[0]
		s.floor = oldest.opened
		s.open = slices.Delete(s.open, 0, 1)
		delete(b.sessions, oldest.hash)
		if oldest == r {
			return nil, refuse(Replayed, "the session of %s is older than those that are kept", r.from.Name)
		}
	}
	return r, nil
}

// accept reports whether counter n is new, and notes it.
func (r *received) accept(n uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	word, bit := &r.seen[n%replayWindow/64], uint64(1)<<(n%64)
	switch {
	case n == 0 || n == math.MaxUint64 || n+replayWindow <= r.last:
		return false
	case n > r.last:
		for k := r.last + 1; k < n && k <= r.last+replayWindow; k++ { // these are not seen yet
			r.seen[k%replayWindow/64] &^= 1 << (k % 64)
		}
		r.last = n
		*word |= bit
		return true
	case *word&bit != 0:
		return false
	}
	*word |= bit
	return true
}
