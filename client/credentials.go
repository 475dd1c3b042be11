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

// credentials are the encryption and authentication of a connection.
type credentials struct {
	ca, cert, key string // files; "": the default ones, if they exist
	token         string // a file
	insecure      bool   // do not encrypt, whatever the network
}

// configDir returns the directory of ca.pem, client.pem, client.key and token; "" if
// there is none.
func configDir() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "endoscope")
}

// options returns the options for connecting to an address. Sockets are encrypted
// only if certificates are named, and the loopback only if there are any; everything
// else always is. The loopback counts as a network because any local user can listen
// on a port that a server has released.
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
	case onLoopback(addr) && fileOrDefault(c.ca, dir, "ca.pem")+fileOrDefault(c.cert, dir, "client.pem") == "":
		if c.token != "" || os.Getenv(tokenVariable) != "" {
			return o, usagef("--ca FILE encrypts the connection; --insecure sends the token unencrypted", "the token is not sent to %s unencrypted", addr)
		}
		o.Token = "" // the default token is for servers on other machines
		return o, nil
	}
	o.TLS, err = c.tls(dir)
	return o, err
}

// checkAddress refuses an invalid address. Its errors are *usageError.
func checkAddress(addr string) error {
	if isSocket(addr) {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return usagef("--connect HOST:PORT, or the path of a socket", "%q is not the address of an engine", addr)
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

// fileOrDefault returns the file that the user has named, or else the file of that name in
// dir if it exists.
func fileOrDefault(named, dir, name string) string {
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
	if ca := fileOrDefault(c.ca, dir, "ca.pem"); ca != "" { // otherwise the CAs that the system trusts
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, unreadable("--ca", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s contains no certificate", ca)
		}
	}
	cert := fileOrDefault(c.cert, dir, "client.pem")
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

// tokenVariable contains the token if no file is named.
const tokenVariable = "ENDOSCOPE_TOKEN"

func (c credentials) readToken(dir string) (string, error) {
	if text := os.Getenv(tokenVariable); c.token == "" && text != "" {
		return strings.TrimSpace(text), nil
	}
	file := fileOrDefault(c.token, dir, "token")
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
	return "", usagef("a token is one word, as printed by endoscoped token add USER", "the token file %s contains more than a token", file)
}

// unreadable is the error of a flag whose file cannot be read.
func unreadable(flag string, err error) error { return usagef("", "%s: %v", flag, err) }
