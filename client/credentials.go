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

// options is how to connect to an address. Sockets are not encrypted unless
// certificates are named, the loopback is if there are any, and the rest always
// is: any user of this machine can listen at a port that a server has left.
func (c credentials) options(addr, dir string) (o remote.Options, err error) {
	if err := checkAddress(addr); err != nil {
		return o, err
	}
	if o.Token, err = c.readToken(dir); err != nil {
		return o, err
	}
	named := c.ca+c.cert != ""
	switch {
	case c.insecure && named:
		return o, usagef("", "--insecure and certificates exclude each other")
	case c.insecure:
		o.Insecure = true
		return o, nil
	case isSocket(addr) && !named:
		return o, nil
	case onLoopback(addr) && usual(c.ca, dir, "ca.pem")+usual(c.cert, dir, "client.pem") == "":
		if c.token != "" || os.Getenv(tokenVariable) != "" {
			return o, usagef("--ca FILE encrypts it; --insecure sends it all the same", "the token is not sent to %s unencrypted", addr)
		}
		o.Token = "" // the usual one is for servers elsewhere
		return o, nil
	}
	o.TLS, err = c.tls(dir)
	return o, err
}

// checkAddress refuses what is no address. Its errors are *usageError.
func checkAddress(addr string) error {
	if isSocket(addr) {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return usagef("--connect HOST:PORT, or the path of a socket", "%q is no address of an engine", addr)
	}
	return nil
}

func isSocket(addr string) bool {
	return strings.HasPrefix(addr, "unix:") || strings.HasPrefix(addr, "/")
}

func onLoopback(addr string) bool {
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
			return nil, unreadable("--ca", err)
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
	if err != nil {
		return "", unreadable("--token-file", err)
	}
	words := strings.Fields(string(text))
	switch len(words) {
	case 0:
		return "", usagef("endoscoped token add USER makes one", "the token file %s is empty", file)
	case 1:
		return words[0], nil
	}
	return "", usagef("it is one word, as endoscoped token add USER prints it", "the token file %s has more than a token", file)
}

// unreadable is the error of a flag that names a file that cannot be read.
func unreadable(flag string, err error) error { return usagef("", "%s: %v", flag, err) }
