package access

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"endoscope/server/grant"
)

// namesLoopback reports whether a request's Host is the loopback by itself.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// Scraper returns the grant of whoever sends a request for metrics over a connection that is
// not encrypted; nil if that is nobody with access. Users of this machine are identified as
// they are over the loopback, and others by a token. A token that came over a connection
// from another machine is refused unless insecure is set: others could have read it.
func (a *Authority) Scraper(r *http.Request, c net.Conn, insecure bool) *grant.Grant {
	info := Peer{}
	// A page in a browser of this machine may have any name resolve to the loopback.
	if uid, err := peerUID(c); err == nil && r.Header.Get("Origin") == "" && namesLoopback(r.Host) {
		info.Known, info.UID = true, uid
	}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: c.RemoteAddr(), AuthInfo: info})
	text := r.Header.Get("Authorization")
	switch {
	case text == "" && !info.Known:
		return nil // without credentials there is nothing to log
	case text != "" && !info.Known && !insecure:
		a.o.Log.Warn("a token was refused: it came unencrypted from another machine", "peer", c.RemoteAddr().String())
		return nil
	case text != "":
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", text))
	}
	u, err := a.Identify(ctx)
	if err != nil {
		return nil
	}
	return a.grantFor(u)
}
