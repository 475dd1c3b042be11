package fleettrust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"sync"
	"testing"
	"time"

	_ "endoscope/operators/optest/seeds"
)

// fleet is an installation with a clock of its own.
type fleet struct {
	testing.TB
	ca  *x509.Certificate
	key *ecdsa.PrivateKey

	mu  sync.Mutex
	now time.Time
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: now.Add(-day), NotAfter: now.Add(3650 * day),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	must(t, err)
	ca, err = x509.ParseCertificate(der)
	must(t, err)
	return &fleet{TB: t, ca: ca, key: key, now: now}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fleet) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// trust returns what a member knows at the beginning.
func (f *fleet) trust() *Trust {
	f.Helper()
	t, err := NewTrust(f.ca, Options{Now: f.clock})
	must(f, err)
	return t
}

// enroll returns a member whose certificate is valid for life.
func (f *fleet) enroll(name string, r Role, life time.Duration) *Identity {
	f.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	must(f, err)
	i, err := Enroll(Profile{Name: name, Role: r, Labels: map[string]string{"rack": "r 1"}}, &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: f.clock().Add(-time.Hour), NotAfter: f.clock().Add(life),
	}, f.ca, f.key)
	must(f, err)
	return i
}

func (f *fleet) header(life time.Duration) Header {
	return Header{NotBefore: f.clock(), Expiry: f.clock().Add(life)}
}

// list returns a list of the certificates of revoked, valid for life.
func (f *fleet) list(number uint64, life time.Duration, revoked ...*Identity) []byte {
	f.Helper()
	var serials []*big.Int
	for _, i := range revoked {
		n, _ := new(big.Int).SetString(i.Serial, 16)
		serials = append(serials, n)
	}
	text, err := MakeList(number, serials, f.clock(), f.clock().Add(life), f.ca, f.key)
	must(f, err)
	return text
}

// open verifies and opens a query at a host.
func open(t *Trust, host *Identity, q *SealedQuery) (*OpenQuery, error) {
	s, err := t.VerifyQuery(q.Message)
	if err != nil {
		return nil, err
	}
	return t.Open(host, s, q.Keys[s.Chunk(host.Member)])
}

// refused checks that a message was refused for a reason.
func refused(t testing.TB, what string, err error, want Reason) {
	t.Helper()
	if ReasonOf(err) != want {
		t.Errorf("%s: %v (reason %q), want the reason %q", what, err, ReasonOf(err), want)
	}
}
