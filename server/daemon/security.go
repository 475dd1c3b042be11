package daemon

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"endoscope/server/access"
)

// defaultConfig is the default directory of certificates, users and tokens.
const defaultConfig = "/etc/endoscope"

// security is the encryption and access control of the daemon.
type security struct {
	tls   *tls.Config // nil: there are no certificates
	by    *access.Authority
	audit *slog.Logger
	file  *os.File // the audit log; nil: none
	flush func()   // writes what was left out of the audit log
}

func (c *config) file(name string) string { return filepath.Join(c.dir, name) }

// security reads the directory of the configuration. handler is where the audit log goes
// if it has no file of its own. Refused statements are limited in it; what was executed is
// not left out, but its users are slowed down (grant.Account.LogWait).
func (c *config) security(log *slog.Logger, handler slog.Handler) (s *security, err error) {
	s = &security{}
	handler = handler.WithAttrs([]slog.Attr{slog.Bool("audit", true)})
	if info, err := os.Stat(c.dir); err == nil && !info.IsDir() {
		return nil, cannot("--config", c.dir, syscall.ENOTDIR)
	}
	if _, err := os.Stat(c.file("server.pem")); err == nil {
		if s.tls, err = access.ServerTLS(c.dir, c.requireCert); err != nil {
			return nil, err
		}
	} else if c.requireCert {
		return nil, fmt.Errorf("--require-certificate needs certificates: endoscoped init --config %s --host NAME makes them", c.dir)
	}
	users := c.access
	if users == "" {
		users = c.file("users")
	} else if _, err := os.Stat(users); err != nil {
		return nil, cannot("--access", users, err) // a file that is named explicitly must exist
	}
	revoked := c.revoked
	if revoked == "" {
		revoked = c.file("revoked")
	} else if _, err := os.Stat(revoked); err != nil {
		return nil, cannot("--revoked", revoked, err)
	}
	if s.by, err = access.New(access.Options{Policy: users, Tokens: c.file("tokens"), Revoked: revoked, CA: c.file("ca.pem"), Log: log}); err != nil {
		return nil, err
	}
	if c.audit != "" {
		if s.file, err = os.OpenFile(c.audit, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640); err != nil {
			return nil, cannot("--audit", c.audit, err)
		}
		handler = slog.NewJSONHandler(s.file, nil)
	}
	handler, s.flush = limit(handler, "refused")
	s.audit = slog.New(handler)
	return s, nil
}

func (s *security) close() error {
	s.flush()
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// connectionLimits bound the resources that a client can use before it is identified.
func connectionLimits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(10 * time.Second), // until the handshake is done
		grpc.MaxConcurrentStreams(256),           // calls per connection
		grpc.MaxHeaderListSize(64 << 10),
	}
}

// secure returns the encryption of a listener. It refuses an unencrypted listener
// that other machines can reach, unless --insecure is set.
func (c *config) secure(l net.Listener, s *security, log *slog.Logger) (grpc.ServerOption, error) {
	encrypted, err := c.encrypted(l, s, log)
	switch {
	case err != nil:
		return nil, err
	case encrypted:
		return grpc.Creds(s.by.TLS(s.tls)), nil
	}
	return grpc.Creds(access.Plain()), nil
}

// encrypted reports whether a listener uses TLS.
func (c *config) encrypted(l net.Listener, s *security, log *slog.Logger) (bool, error) {
	at, isTCP := l.Addr().(*net.TCPAddr)
	switch {
	case !isTCP:
		return false, nil
	case s.tls != nil:
		return true, nil
	case at.IP.IsLoopback():
		return false, nil
	case c.insecure:
		log.Warn("not encrypted: others on the network can read and change the traffic, including tokens", "address", at.String())
		return false, nil
	}
	return false, fmt.Errorf("%s can be reached by other machines, and there are no certificates: create them with endoscoped init --config %s --host NAME, or use --insecure", at, c.dir)
}
