package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// revocations are the revoked certificates of a file, and the open connections that
// have been authenticated by a certificate. The file is reread when it changes; if it
// is then missing or invalid, the previous contents stay in force. It is safe for
// concurrent use.
type revocations struct {
	path string // "": no certificate is revoked
	ca   string // the CA's certificate, which signs lists
	log  *slog.Logger

	mu      sync.Mutex
	seen    stamp
	serials map[string]bool // in decimal
	open    map[*certified]bool
}

// newRevocations returns the revocations of a file. A missing one lists nothing.
func newRevocations(path, ca string, log *slog.Logger) (*revocations, error) {
	r := &revocations{path: path, ca: ca, log: log, open: map[*certified]bool{}}
	if path == "" {
		return r, nil
	}
	var err error
	if r.seen, err = stampOf(path); err == nil && r.seen.there {
		r.serials, err = r.read()
	}
	return r, err
}

// has reports whether a certificate is revoked.
func (r *revocations) has(serial *big.Int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path != "" {
		r.reload()
	}
	return serial != nil && r.serials[serial.String()]
}

// reload reads the file if it has changed. The caller holds r.mu.
func (r *revocations) reload() {
	now, err := stampOf(r.path)
	if err == nil && now == r.seen {
		return
	}
	r.seen = now
	var serials map[string]bool
	switch {
	case err == nil && !now.there:
		err = fmt.Errorf("%s is gone", r.path)
	case err == nil:
		serials, err = r.read()
	}
	if err != nil {
		r.log.Error("the list of revoked certificates is invalid; the previous one stays in force", "error", err)
		return
	}
	r.serials = serials
	r.log.Info("reloaded the list of revoked certificates", "certificates", len(serials))
}

// read reads the file: certificate revocation lists in PEM, or serial numbers.
func (r *revocations) read() (map[string]bool, error) {
	text, err := os.ReadFile(r.path)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(string(text), "-----BEGIN") {
		return parseSerials(string(text), r.path)
	}
	ca, err := readCertificates(r.ca)
	if err != nil {
		return nil, fmt.Errorf("the CA's certificate cannot be read: %w", err)
	}
	serials, lists := map[string]bool{}, 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("%s contains a %s, which is no certificate revocation list", r.path, block.Type)
		}
		l, err := parseList(block.Bytes, ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.path, err)
		}
		if !l.NextUpdate.IsZero() && time.Now().After(l.NextUpdate) {
			r.log.Warn("a newer list of revoked certificates should exist", "file", r.path, "since", l.NextUpdate)
		}
		for _, e := range l.RevokedCertificateEntries {
			serials[e.SerialNumber.String()] = true
		}
		lists++
	}
	if lists == 0 {
		return nil, fmt.Errorf("%s contains no complete certificate revocation list", r.path)
	}
	return serials, nil
}

// parseList parses a list that one of the CA's certificates has signed.
func parseList(der []byte, ca []*x509.Certificate) (*x509.RevocationList, error) {
	l, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, err
	}
	for _, x := range l.Extensions {
		if x.Critical { // such as that of a list that is not complete
			return nil, fmt.Errorf("the list has the unknown extension %s", x.Id)
		}
	}
	err = errors.New("there is no CA")
	for _, c := range ca {
		if err = l.CheckSignatureFrom(c); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("the list is not signed by the CA: %w", err)
}

// parseSerials parses serial numbers in hexadecimal, one a line.
func parseSerials(text, path string) (map[string]bool, error) {
	serials := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line = strings.ToLower(strings.TrimSpace(line))
		if line == "" {
			continue
		}
		digits := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(line, "serial="), "0x"), ":", "")
		serial, ok := new(big.Int).SetString(digits, 16)
		if !ok || serial.Sign() < 0 || strings.ContainsAny(digits, "+_") {
			return nil, fmt.Errorf("%s:%d: %q is not the serial number of a certificate in hexadecimal", path, n, line)
		}
		serials[serial.String()] = true
	}
	return serials, nil
}

// readCertificates reads the certificates of a PEM file.
func readCertificates(path string) (all []*x509.Certificate, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// check refuses a client's certificate that is revoked or has expired. A connection may
// outlive its certificate.
func (r *revocations) check(leaf *x509.Certificate) error {
	switch {
	case r.has(leaf.SerialNumber):
		return refused("the certificate is revoked")
	case !leaf.NotAfter.IsZero() && time.Now().After(leaf.NotAfter):
		return refused("the certificate has expired")
	}
	return nil
}

// expel closes the connections whose certificates are not valid any more.
func (r *revocations) expel() {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	for _, c := range all {
		if err := r.check(c.leaf); err != nil {
			r.log.Info("closed a connection", "peer", c.RemoteAddr().String(), "user", c.leaf.Subject.CommonName, "certificate", fmt.Sprintf("%x", c.leaf.SerialNumber), "error", err)
			_ = c.Close()
		}
	}
}

// certified is a connection whose client has a certificate.
type certified struct {
	net.Conn
	of   *revocations
	leaf *x509.Certificate
}

// Close implements net.Conn.
func (c *certified) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// TLS returns the credentials of a server. Connections of certificates that are revoked,
// or expire, while they are open are closed by the Guard.
func (a *Authority) TLS(conf *tls.Config) credentials.TransportCredentials {
	conf = conf.Clone()
	conf.VerifyConnection = func(s tls.ConnectionState) error { // also of sessions that are resumed
		if len(s.VerifiedChains) > 0 && a.revoked.has(s.VerifiedChains[0][0].SerialNumber) {
			return errors.New("the client's certificate is revoked")
		}
		return nil
	}
	return encrypted{credentials.NewTLS(conf), a.revoked}
}

type encrypted struct {
	credentials.TransportCredentials
	r *revocations
}

func (e encrypted) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := e.TransportCredentials.ServerHandshake(raw)
	if t, ok := info.(credentials.TLSInfo); ok && err == nil && len(t.State.VerifiedChains) > 0 {
		x := &certified{c, e.r, t.State.VerifiedChains[0][0]}
		e.r.mu.Lock()
		e.r.open[x] = true
		e.r.mu.Unlock()
		c = x
	}
	return c, info, err
}

func (e encrypted) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("access: these credentials are for servers only")
}

func (e encrypted) Clone() credentials.TransportCredentials {
	return encrypted{e.TransportCredentials.Clone(), e.r}
}
