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
	"google.golang.org/grpc/credentials"

	"endoscope/server/access"
)

// defaultConfig is where certificates, users and tokens are.
const defaultConfig = "/etc/endoscope"

// security is how connections are encrypted, and who may do what.
type security struct {
	tls   *tls.Config // nil: there are no certificates
	by    *access.Authority
	audit *slog.Logger
	file  *os.File // of audit; nil: none
}

func (c *config) file(name string) string { return filepath.Join(c.dir, name) }

// security reads what the directory of the configuration has.
func (c *config) security(log *slog.Logger) (s *security, err error) {
	s = &security{audit: log.With("audit", true)}
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
		return nil, cannot("--access", users, err) // who names a file has one
	}
	if s.by, err = access.New(access.Options{Policy: users, Tokens: c.file("tokens"), Log: log}); err != nil {
		return nil, err
	}
	if c.audit != "" {
		if s.file, err = os.OpenFile(c.audit, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640); err != nil {
			return nil, cannot("--audit", c.audit, err)
		}
		s.audit = slog.New(slog.NewJSONHandler(s.file, nil))
	}
	return s, nil
}

func (s *security) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// connectionLimits bound what somebody can make the daemon hold who connects, and
// was not identified yet.
func connectionLimits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(10 * time.Second), // until the handshake is done
		grpc.MaxConcurrentStreams(256),           // calls of one connection
		grpc.MaxHeaderListSize(64 << 10),
	}
}

// secure says how the connections of a listener are encrypted, and refuses one
// at which others could listen in.
func (c *config) secure(l net.Listener, s *security, log *slog.Logger) (grpc.ServerOption, error) {
	at, isTCP := l.Addr().(*net.TCPAddr)
	switch {
	case !isTCP:
		return grpc.Creds(access.Plain()), nil
	case s.tls != nil:
		return grpc.Creds(credentials.NewTLS(s.tls)), nil
	case at.IP.IsLoopback():
		return grpc.Creds(access.Plain()), nil
	case c.insecure:
		log.Warn("not encrypted: whoever is on the way to a client can read and change what is sent, tokens included", "address", at.String())
		return grpc.Creds(access.Plain()), nil
	}
	return nil, fmt.Errorf("%s can be reached by others, and there are no certificates: endoscoped init --config %s --host NAME makes them; --insecure goes without", at, c.dir)
}
