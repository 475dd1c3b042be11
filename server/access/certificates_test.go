package access

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// made returns a directory with certificates.
func made(t *testing.T, hosts ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "endoscope")
	if _, err := Init(dir, hosts); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestInit(t *testing.T) {
	dir := made(t, "db1.example", "10.0.0.7")
	if _, _, err := NewClient(dir, "alice", ClientOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"ca.pem": 0o644, "ca.key": 0o600, "server.pem": 0o644, "server.key": 0o600,
		"clients/alice.pem": 0o644, "clients/alice.key": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), mode)
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Init(dir, []string{"other"}); err == nil || !strings.Contains(err.Error(), "already exists: nothing was changed") {
		t.Errorf("a second time: %v", err)
	}
	if _, _, err := NewClient(dir, "alice", ClientOptions{}); err == nil {
		t.Error("a client's certificate was replaced")
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "ca.key")); !slices.Equal(before, after) {
		t.Error("the CA's key was replaced")
	}
	// If one of the files exists, none is made.
	half := t.TempDir()
	if err := os.WriteFile(filepath.Join(half, "server.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(half, []string{"h"}); err == nil {
		t.Error("made over a key")
	}
	if entries, _ := os.ReadDir(half); len(entries) != 1 {
		t.Errorf("%d files stay of what was not made", len(entries))
	}
	for _, name := range []string{"", "../x", "a/b", "-x", ".x", "a b", strings.Repeat("x", 80)} {
		if _, _, err := NewClient(dir, name, ClientOptions{}); err == nil {
			t.Errorf("a certificate for %q was made", name)
		}
	}
}

// handshake connects a client to the server of a directory, and returns both sides'
// errors and the connection state.
func handshake(t *testing.T, dir string, required bool, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	conf, err := ServerTLS(dir, required)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	deadline := time.Now().Add(2 * time.Minute)
	_, _ = a.SetDeadline(deadline), b.SetDeadline(deadline)
	server := tls.Server(a, conf)
	done := make(chan error, 1)
	go func() {
		err := server.Handshake()
		if err == nil {
			_, err = server.Write([]byte{1})
		}
		a.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	if clientErr = c.Handshake(); clientErr == nil {
		_, clientErr = c.Read(make([]byte, 1)) // with TLS 1.3 the client learns only now that its certificate was rejected
	}
	b.Close()
	serverErr = <-done
	return server.ConnectionState(), serverErr, clientErr
}

// trusting returns the configuration of a client that trusts the CA of dir and has
// the certificate of user issued in from ("": none).
func trusting(t *testing.T, dir, from, user string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "db1"}
	c.RootCAs.AppendCertsFromPEM(text)
	if user != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(from, "clients", user+".pem"), filepath.Join(from, "clients", user+".key"))
		if err != nil {
			t.Fatal(err)
		}
		// Sent even if the server does not ask for a certificate of its CA.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

func TestTLS(t *testing.T) {
	dir, stranger := made(t, "db1"), made(t, "db1")
	for _, d := range []string{dir, stranger} {
		if _, _, err := NewClient(d, "alice", ClientOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	state, serverErr, clientErr := handshake(t, dir, true, trusting(t, dir, dir, "alice"))
	if serverErr != nil || clientErr != nil || state.Version != tls.VersionTLS13 || state.VerifiedChains[0][0].Subject.CommonName != "alice" {
		t.Errorf("a client's certificate: %v, %v, version %x", serverErr, clientErr, state.Version)
	}
	if state, serverErr, clientErr := handshake(t, dir, false, trusting(t, dir, "", "")); serverErr != nil || clientErr != nil || len(state.VerifiedChains) != 0 {
		t.Errorf("without a certificate, where a token will do: %v, %v", serverErr, clientErr)
	}
	refused := map[string]func() (error, error){
		"no certificate, where one is required": func() (error, error) {
			_, s, c := handshake(t, dir, true, trusting(t, dir, "", ""))
			return s, c
		},
		"a certificate of another CA": func() (error, error) {
			_, s, c := handshake(t, dir, false, trusting(t, dir, stranger, "alice"))
			return s, c
		},
		"a server of another CA": func() (error, error) {
			_, s, c := handshake(t, stranger, false, trusting(t, dir, "", ""))
			return s, c
		},
		"another name": func() (error, error) {
			conf := trusting(t, dir, "", "")
			conf.ServerName = "db2"
			_, s, c := handshake(t, dir, false, conf)
			return s, c
		},
		"TLS 1.2": func() (error, error) {
			conf := trusting(t, dir, dir, "alice")
			conf.MaxVersion = tls.VersionTLS12
			_, s, c := handshake(t, dir, false, conf)
			return s, c
		},
		// The server's own certificate is not valid for a client.
		"the server's certificate": func() (error, error) {
			conf := trusting(t, dir, "", "")
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
			if err != nil {
				t.Fatal(err)
			}
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			_, s, c := handshake(t, dir, false, conf)
			return s, c
		},
	}
	for name, f := range refused {
		if s, c := f(); s == nil || c == nil {
			t.Errorf("%s: server %v, client %v", name, s, c)
		}
	}
}
