package access

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
)

// list returns a certificate revocation list of a directory's CA, in PEM.
func list(t *testing.T, dir string, extra []pkix.Extension, serials ...*big.Int) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, caCert), filepath.Join(dir, caKey))
	if err != nil {
		t.Fatal(err)
	}
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour), ExtraExtensions: extra}
	for _, s := range serials {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: s, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, pair.Leaf, pair.PrivateKey.(crypto.Signer))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

// The file is one of lists that the CA has signed, or of serial numbers. When it becomes
// invalid, what was revoked stays revoked.
func TestRevocations(t *testing.T) {
	dir, stranger := made(t, "db1"), made(t, "db1")
	var certs []*x509.Certificate
	for _, name := range []string{"alice", "bob"} {
		_, c, err := NewClient(dir, name, ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, c)
	}
	alice, bob := certs[0].SerialNumber, certs[1].SerialNumber
	file, log := filepath.Join(dir, "revoked"), &bytes.Buffer{}
	r, err := newRevocations(file, filepath.Join(dir, caCert), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	partial := []pkix.Extension{{Id: []int{2, 5, 29, 27}, Critical: true, Value: []byte{2, 1, 1}}} // changes since list 1
	for _, c := range []struct {
		name, text string
		want       string // the revoked ones
		logged     string
	}{
		{"nothing", "# none\n", "", "certificates=0"},
		{"serials", fmt.Sprintf("# alice\n%x # lost\n\n", alice), "alice", "certificates=1"},
		{"as openssl prints them", fmt.Sprintf("serial=%X\n0x%x\n", alice, bob), "alice bob", "certificates=2"},
		{"not a number", "alice\n", "alice bob", `revoked:1: \"alice\" is not the serial number of a certificate`},
		{"with colons", strings.ReplaceAll(fmt.Sprintf("% X", bob.Bytes()), " ", ":"), "bob", "certificates=1"},
		{"a list", list(t, dir, nil, alice), "alice", "certificates=1"},
		{"two lists", list(t, dir, nil, alice) + list(t, dir, nil, bob), "alice bob", "certificates=2"},
		{"another CA's", list(t, stranger, nil, alice), "alice bob", "not signed by the CA"},
		{"a part of a list", list(t, dir, partial, alice), "alice bob", "unknown extension 2.5.29.27"},
		{"a truncated list", list(t, dir, nil, alice)[:200], "alice bob", "no complete certificate revocation list"},
		{"a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "alice bob", "which is no certificate revocation list"},
		{"empty list", list(t, dir, nil), "", "certificates=0"},
	} {
		log.Reset()
		if err := os.WriteFile(file+".new", []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, name := range []string{"alice", "bob"} {
			if r.has(certs[i].SerialNumber) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != c.want || strings.Count(log.String(), c.logged) != 1 {
			t.Errorf("%s: %v are revoked, want %s; logged %s, want %s", c.name, got, c.want, log, c.logged)
		}
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, "%x\n", alice), 0o644); err != nil {
		t.Fatal(err)
	}
	if !r.has(alice) {
		t.Error("alice is not revoked")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if !r.has(alice) || !strings.Contains(log.String(), "is gone") {
		t.Errorf("alice is not revoked without the file: %s", log)
	}
	// A server does not start with an invalid file.
	if err := os.WriteFile(file, []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Revoked: file, CA: filepath.Join(dir, caCert)}); err == nil {
		t.Error("an invalid file is accepted")
	}
}

// A revoked certificate is refused in the handshake, in a call of an open connection, and
// by the sessions that it has opened. An open connection of it is closed.
func TestRevokedWhileConnected(t *testing.T) {
	dir := made(t, "db1")
	_, c, err := NewClient(dir, "alice", ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	users, revoked := filepath.Join(dir, "users"), filepath.Join(dir, "revoked")
	if err := os.WriteFile(users, []byte("user alice\n role read\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Policy: users, Revoked: revoked, CA: filepath.Join(dir, caCert)})
	if err != nil {
		t.Fatal(err)
	}
	conf, err := ServerTLS(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	creds := a.TLS(conf)
	connect := func() (client *tls.Conn, server net.Conn, info credentials.AuthInfo, err error) {
		x, y := net.Pipe()
		config := trusting(t, dir, dir, "alice")
		config.NextProtos = []string{"h2"}
		client = tls.Client(y, config)
		shaken := make(chan error, 1)
		go func() {
			err := client.Handshake()
			if err == nil { // with TLS 1.3 the server may still refuse
				_, err = client.Read(make([]byte, 1))
			}
			shaken <- err
		}()
		server, info, err = creds.ServerHandshake(x)
		if err != nil {
			x.Close()
			<-shaken
			return
		}
		if _, err = server.Write([]byte{1}); err == nil {
			err = <-shaken
		}
		return
	}
	client, server, info, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	u, err := a.Identify(call("", info))
	if err != nil || a.grantFor(u) == nil {
		t.Fatalf("%v: %v", u, err)
	}
	a.revoked.expel()
	alive := func() bool {
		done := make(chan error, 1)
		go func() { _, err := client.Read(make([]byte, 1)); done <- err }()
		_, err := server.Write([]byte{1})
		return err == nil && <-done == nil
	}
	if !alive() {
		t.Fatal("a valid connection was closed")
	}
	if err := os.WriteFile(revoked, fmt.Appendf(nil, "%x\n", c.SerialNumber), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Identify(call("", info)); err == nil || !strings.Contains(err.Error(), "the certificate is revoked") {
		t.Errorf("a call: %v", err)
	}
	if a.grantFor(u) != nil {
		t.Error("its sessions have a grant")
	}
	a.revoked.expel()
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	if len(a.revoked.open) != 0 {
		t.Errorf("%d connections are listed", len(a.revoked.open))
	}
	if _, _, _, err := connect(); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a new connection: %v", err)
	}
}

// A certificate is valid as long as was asked for.
func TestShortLivedCertificate(t *testing.T) {
	dir := made(t, "db1")
	before := time.Now().Truncate(time.Second)
	_, c, err := NewClient(dir, "alice", ClientOptions{Life: 90 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if life := c.NotAfter.Sub(before); life < 90*time.Minute || life > 90*time.Minute+time.Since(before)+time.Second {
		t.Errorf("it is valid for %s", life)
	}
	read := func() *big.Int {
		all, err := readCertificates(filepath.Join(dir, "clients", "alice.pem"))
		if err != nil || len(all) != 1 {
			t.Fatalf("%d certificates: %v", len(all), err)
		}
		return all[0].SerialNumber
	}
	if read().Cmp(c.SerialNumber) != 0 {
		t.Error("another certificate is in the file")
	}
	if _, _, err := NewClient(dir, "alice", ClientOptions{Life: time.Hour}); err == nil {
		t.Error("it was replaced")
	}
	_, next, err := NewClient(dir, "alice", ClientOptions{Life: time.Hour, Replace: true})
	if err != nil || read().Cmp(next.SerialNumber) != 0 || next.SerialNumber.Cmp(c.SerialNumber) == 0 {
		t.Errorf("it was not replaced: %v", err)
	}
	if _, _, err := NewClient(dir, "bob", ClientOptions{Life: 2 * caLife}); err == nil || !strings.Contains(err.Error(), "the CA expires on") {
		t.Errorf("a certificate that outlives the CA: %v", err)
	}
	// A connection does not outlive its certificate.
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	past := *c
	past.NotAfter = time.Now().Add(-time.Second)
	if err := a.revoked.check(&past); err == nil || !strings.Contains(err.Error(), "the certificate has expired") {
		t.Errorf("an expired certificate: %v", err)
	}
	if err := a.revoked.check(c); err != nil {
		t.Error(err)
	}
}
