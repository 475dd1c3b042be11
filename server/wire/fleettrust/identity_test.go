package fleettrust

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCredentials(t *testing.T) {
	f := newFleet(t)
	host, other := f.enroll("db1.example", Host, day), f.enroll("db2", Host, day)
	text, err := host.Encode()
	must(t, err)
	file := filepath.Join(t.TempDir(), "creds")
	must(t, os.WriteFile(file, text, 0o600))
	got, err := LoadIdentity(file)
	must(t, err)
	if got.Name != "db1.example" || got.Role != Host || got.Labels["rack"] != "r 1" || !got.CA.Equal(f.ca) {
		t.Errorf("the credentials are those of %+v", got.Member)
	}
	m, err := got.Sign(KindHeartbeat, f.header(time.Second), nil)
	must(t, err)
	if _, err := f.trust().Verify(KindHeartbeat, m); err != nil {
		t.Errorf("signed with credentials from a file: %v", err)
	}
	must(t, os.Chmod(file, 0o644))
	if _, err := LoadIdentity(file); err == nil || !strings.Contains(err.Error(), "other users can use the file") {
		t.Errorf("credentials that others can read: %v", err)
	}

	// Keys that are not those of the certificate are refused.
	theirs, err := other.Encode()
	must(t, err)
	blocks, foreign := bytes.SplitAfter(text, []byte("-----\n")), bytes.SplitAfter(theirs, []byte("-----\n"))
	for n := 0; n+1 < len(blocks); n += 2 { // each block has two such lines
		mixed := bytes.Join(blocks[:n], nil)
		mixed = append(mixed, bytes.Join(foreign[n:n+2], nil)...)
		mixed = append(mixed, bytes.Join(blocks[n+2:], nil)...)
		if _, err := ParseIdentity(mixed); err == nil && n != 2 { // the second block is the CA of both
			t.Errorf("accepted with block %d of other credentials", n/2)
		}
		short := append(bytes.Join(blocks[:n], nil), bytes.Join(blocks[n+2:], nil)...)
		if _, err := ParseIdentity(short); err == nil {
			t.Errorf("accepted without block %d", n/2)
		}
	}
}

// Nobody can be identified in TLS by the certificate of a fleet's member, nor sign for a
// fleet with that of a client.
func TestCertificatesAreForFleetsOnly(t *testing.T) {
	f := newFleet(t)
	host := f.enroll("alice", Host, day)
	c, err := x509.ParseCertificate(host.Certificate)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(f.ca)
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: f.clock(), KeyUsages: []x509.ExtKeyUsage{use}}); err == nil {
			t.Errorf("the certificate may be used for %d", use)
		}
	}
	_, err = f.trust().Member(f.ca.Raw)
	refused(t, "the CA's certificate as a member", err, Unpermitted)
}

func TestNamesAndLabels(t *testing.T) {
	f := newFleet(t)
	many := map[string]string{}
	for _, c := range "abcdefghijklmnopqrstuvwxyz_" {
		many[string(c)], many["a"+string(c)] = "", ""
	}
	for what, p := range map[string]Profile{
		"no name":             {Role: Host},
		"a path":              {Name: "../x", Role: Host},
		"a subject":           {Name: "a>", Role: Host},
		"no role":             {Name: "a"},
		"another role":        {Name: "a", Role: 9},
		"a label in capitals": {Name: "a", Role: Host, Labels: map[string]string{"Rack": "1"}},
		"a long value":        {Name: "a", Role: Host, Labels: map[string]string{"rack": strings.Repeat("x", 200)}},
		"a control character": {Name: "a", Role: Host, Labels: map[string]string{"rack": "a\nb"}},
		"many labels":         {Name: "a", Role: Host, Labels: many},
	} {
		if _, err := Enroll(p, &x509.Certificate{SerialNumber: f.ca.SerialNumber, NotBefore: f.clock(), NotAfter: f.clock().Add(day)}, f.ca, f.key); err == nil {
			t.Errorf("enrolled: %s", what)
		}
	}
}
