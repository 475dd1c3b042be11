package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"

	"endoscope/server/access"
	"endoscope/server/web"
	"endoscope/server/wire"
)

// page is the web page and its listener.
type page struct {
	*web.Server
	l   net.Listener
	tls bool
}

// page returns the web page for a listener; nil if there is none. It has the encryption that
// the same address would have as --listen.
func (c *config) page(l net.Listener, engine wire.Engine, s *security, version string, log *slog.Logger) (*page, error) {
	if l == nil {
		return nil, nil
	}
	encrypted, err := c.encrypted(l, s, log)
	if err != nil {
		return nil, err
	}
	o := web.Options{Access: s.by, Peer: access.PeerOf, Log: log, Version: version}
	if encrypted {
		conf := s.tls.Clone()
		conf.NextProtos = []string{"h2", "http/1.1"}
		l = tls.NewListener(l, conf)
		o.Hosts = hostsOf(conf)
	}
	return &page{web.New(engine, o), l, encrypted}, nil
}

func (p *page) serve() error { return p.Serve(p.l, p.tls) }

// hostsOf returns the names and addresses of the server's certificate.
func hostsOf(conf *tls.Config) (names []string) {
	for _, pair := range conf.Certificates {
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			continue
		}
		names = append(names, leaf.DNSNames...)
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
	}
	return names
}
