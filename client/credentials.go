package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"endoscope/client/remote"
)

// credentials are what a connection is encrypted with, and by what the server
// knows the user.
type credentials struct {
	ca, cert, key string // files; "": the usual ones, if they are there
	token         string // a file
	insecure      bool   // not encrypted, whoever is on the way
}

// configDir is where ca.pem, client.pem, client.key and token are looked for; "":
// nowhere.
func configDir() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "endoscope")
}

// options is how to connect to an address. On this machine, connections are not
// encrypted unless certificates are named; elsewhere they are.
func (c credentials) options(addr, dir string) (o remote.Options, err error) {
	if o.Token, err = c.readToken(dir); err != nil {
		return o, err
	}
	local := onThisMachine(addr)
	switch {
	case c.insecure && c.ca+c.cert != "":
		return o, usagef("", "--insecure and certificates exclude each other")
	case c.insecure, local && c.ca+c.cert == "":
		return o, nil
	}
	o.TLS, err = c.tls(dir)
	return o, err
}

// onThisMachine reports whether an address is a socket's, or the loopback's.
func onThisMachine(addr string) bool {
	if strings.HasPrefix(addr, "unix:") || strings.HasPrefix(addr, "/") {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// usual is a file that the user has named, or the one of that name in dir if it
// is there.
func usual(named, dir, name string) string {
	if named != "" || dir == "" {
		return named
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func (c credentials) tls(dir string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS13}
	if ca := usual(c.ca, dir, "ca.pem"); ca != "" { // else those that the system trusts
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", ca)
		}
	}
	cert := usual(c.cert, dir, "client.pem")
	if cert == "" {
		return conf, nil
	}
	key := c.key
	if key == "" {
		key = strings.TrimSuffix(cert, ".pem") + ".key"
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s cannot be used: %w", cert, err)
	}
	conf.Certificates = []tls.Certificate{pair}
	return conf, nil
}

// tokenVariable has the token where no file is named.
const tokenVariable = "ENDOSCOPE_TOKEN"

func (c credentials) readToken(dir string) (string, error) {
	if text := os.Getenv(tokenVariable); c.token == "" && text != "" {
		return strings.TrimSpace(text), nil
	}
	file := usual(c.token, dir, "token")
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && c.token == "" {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}
