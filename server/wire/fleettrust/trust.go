package fleettrust

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"sync"
	"time"
)

// Options of a Trust.
type Options struct {
	// List is a file that keeps the newest list of revoked certificates that was
	// accepted, so that a restart does not go back to an older one; "": none.
	List string
	Now  func() time.Time // nil: time.Now
}

// Trust verifies messages: it knows the installation's CA, the list of revoked
// certificates and the members that it has seen. It is safe for concurrent use.
type Trust struct {
	ca           *x509.Certificate
	pool         *x509.CertPool
	installation [32]byte
	o            Options

	mu      sync.RWMutex
	members map[[32]byte]*Member // whose certificates were verified, by fingerprint
	list    *list
	// inventory is the number of the newest inventory that was accepted.
	inventory uint64
}

// maxMembers bounds the cache of verified certificates.
const maxMembers = 1 << 16

// NewTrust returns the Trust in an installation's CA.
func NewTrust(ca *x509.Certificate, o Options) (*Trust, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Trust{ca: ca, pool: x509.NewCertPool(), installation: installationOf(ca.Raw), o: o, members: map[[32]byte]*Member{}, list: &list{}}
	t.pool.AddCert(ca)
	if err := t.readList(); err != nil {
		return nil, err
	}
	return t, nil
}

// Message is a verified message.
type Message struct {
	Header
	Kind Kind
	From *Member
	Body []byte // shares the memory of the message
}

// Verify verifies a signed message of kind k and returns it. Its errors are *Refusal.
func (t *Trust) Verify(k Kind, msg []byte) (*Message, error) {
	f, err := parseFrame(k, msg)
	if err != nil {
		return nil, err
	}
	from, err := t.Member(f.certificate)
	if err != nil {
		return nil, err
	}
	if !k.may(from.Role) {
		return nil, refuse(Unpermitted, "%s is of role %s, which may not sign a %s", from.Name, from.Role, k)
	}
	if !ed25519.Verify(from.verifyKey, signedBytes(k, t.installation, from.Fingerprint, f.payload), f.signature) {
		return nil, refuse(Forged, "the signature of the %s is not that of %s", k, from.Name)
	}
	m := &Message{Kind: k, From: from}
	if m.Header, m.Body, err = parsePayload(k, f.payload); err != nil {
		return nil, err
	}
	if err := t.checkHeader(k, &m.Header); err != nil {
		return nil, err
	}
	return m, nil
}

// checkHeader refuses what is not valid now.
func (t *Trust) checkHeader(k Kind, h *Header) error {
	now := t.o.Now()
	switch {
	case now.After(h.Expiry.Add(Tolerance)):
		return refuse(Expired, "the %s has expired", k)
	case h.NotBefore.After(now.Add(Tolerance)):
		return refuse(Early, "the %s is not valid before %s: are the clocks right?", k, h.NotBefore.UTC().Format(time.RFC3339))
	case h.Expiry.Sub(h.NotBefore) > kinds[k].life || h.Expiry.Before(h.NotBefore):
		return refuse(Malformed, "a %s is valid for at most %s, not %s", k, kinds[k].life, h.Expiry.Sub(h.NotBefore))
	case h.List > t.ListNumber():
		return refuse(Behind, "the %s was signed with list %d of revoked certificates in force; here it is %d", k, h.List, t.ListNumber())
	}
	return nil
}

// Member returns the member of a certificate in DER. It refuses one that the CA has not
// signed, or that is expired or revoked.
func (t *Trust) Member(der []byte) (*Member, error) {
	if len(der) > maxCertificate {
		return nil, refuse(Oversized, "the certificate has %d bytes, at most %d are allowed", len(der), maxCertificate)
	}
	fingerprint := sha256.Sum256(der)
	t.mu.RLock()
	m := t.members[fingerprint]
	t.mu.RUnlock()
	if m == nil {
		var err error
		if m, err = t.verifyMember(der); err != nil {
			return nil, err
		}
		t.mu.Lock()
		if len(t.members) >= maxMembers {
			clear(t.members)
		}
		t.members[fingerprint] = m
		t.mu.Unlock()
	}
	return m, t.Valid(m)
}

// verifyMember verifies a certificate, but not its period, which Valid checks at each
// use.
func (t *Trust) verifyMember(der []byte) (*Member, error) {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, refuse(Malformed, "the certificate cannot be parsed: %v", err)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: t.pool, CurrentTime: c.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, refuse(Foreign, "the certificate is not of this installation: %v", err)
	}
	m, err := parseMember(c)
	if err != nil {
		return nil, refuse(Unpermitted, "%v", err)
	}
	// The certificate's bytes are a part of a message, which the caller may reuse.
	m.Certificate = append([]byte(nil), der...)
	return m, nil
}

// Valid refuses a verified member whose certificate has expired or was revoked since. It
// refuses all members while the list of revoked certificates is too old.
func (t *Trust) Valid(m *Member) error {
	now := t.o.Now()
	t.mu.RLock()
	l := t.list
	t.mu.RUnlock()
	switch {
	case l.serials[m.Serial]:
		return refuse(Revoked, "the certificate %s of %s is revoked", m.Serial, m.Name)
	case now.After(m.NotAfter.Add(Tolerance)) || now.Add(Tolerance).Before(m.NotBefore):
		return refuse(Expired, "the certificate %s of %s is valid from %s to %s", m.Serial, m.Name, m.NotBefore.UTC().Format(time.RFC3339), m.NotAfter.UTC().Format(time.RFC3339))
	case l.number > 0 && now.After(l.next.Add(Tolerance)):
		return refuse(Behind, "the list of revoked certificates was valid until %s: endoscoped revoke makes a newer one", l.next.UTC().Format(time.RFC3339))
	}
	return nil
}

// Installation returns the identifier of the installation.
func (t *Trust) Installation() string { return fmt.Sprintf("%x", t.installation[:8]) }
