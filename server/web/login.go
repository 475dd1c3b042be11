package web

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"endoscope/server/wire"
)

// Limits of logins.
const (
	mostLinks = 1024
	mostKeys  = 1024
	keyLife   = time.Hour // without a page
)

// digest is the SHA-256 of a token or key. Secrets are looked up by it, so that the time
// that takes reveals nothing of them.
type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// link is a token that is valid once.
type link struct {
	user    *wire.User
	expires time.Time
}

// login is a key with its user and its page.
type login struct {
	user *wire.User
	page atomic.Pointer[page] // nil: none is open
	used time.Time            // guarded by logins.mu
}

// logins are the links and keys of a server.
type logins struct {
	mu    sync.Mutex
	links map[digest]link
	keys  map[digest]*login
}

func (l *logins) init() { l.links, l.keys = map[digest]link{}, map[digest]*login{} }

// newSecret returns 256 random bits as text.
func newSecret() string { return rand.Text() + rand.Text() }

// offer creates a link for a user; "": there are too many.
func (l *logins) offer(user *wire.User, now time.Time) (token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, k := range l.links {
		if !now.Before(k.expires) {
			delete(l.links, d)
		}
	}
	if len(l.links) >= mostLinks {
		return ""
	}
	token = newSecret()
	l.links[digestOf(token)] = link{user, now.Add(LinkLife)}
	return token
}

// redeem returns the user of a link, which is invalid from then on.
func (l *logins) redeem(token string, now time.Time) (user *wire.User, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := digestOf(token)
	k, found := l.links[d]
	delete(l.links, d)
	return k.user, found && now.Before(k.expires)
}

// enter creates a key for a user; "": there are too many.
func (l *logins) enter(user *wire.User, now time.Time) (key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, k := range l.keys {
		if k.page.Load() == nil && now.Sub(k.used) > keyLife {
			delete(l.keys, d)
		}
	}
	if len(l.keys) >= mostKeys {
		return ""
	}
	key = newSecret()
	l.keys[digestOf(key)] = &login{user: user, used: now}
	return key
}

// of returns the login of a request; nil if it has none.
func (l *logins) of(r *http.Request, now time.Time) *login {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[digestOf(key)]
	switch {
	case k == nil || k.page.Load() == nil && now.Sub(k.used) > keyLife:
		return nil
	}
	k.used = now
	return k
}

// Link returns the path of a link to the page with a token in its fragment, for the user
// that the process runs as.
func (s *Server) Link() string { return "/#token=" + s.logins.offer(nil, s.now()) }

type credentialsIn struct {
	Token string `json:"token"`
}

type keyOut struct {
	Key     string `json:"key"`
	User    string `json:"user,omitempty"`
	Version string `json:"version,omitempty"`
	Target  string `json:"target,omitempty"`
}

// login exchanges the token of a link, or the identity that the Access finds, for a key.
func (s *Server) login(r *http.Request, in credentialsIn) (out keyOut, err error) {
	user, ok := s.logins.redeem(in.Token, s.now())
	switch {
	case ok:
	case s.o.Access != nil:
		if user, err = s.identify(r, in.Token); err != nil {
			return out, failed(http.StatusUnauthorized, status.Convert(err).Message())
		}
	default:
		s.o.Log.Warn("a login was refused", "peer", r.RemoteAddr)
		return out, failed(http.StatusUnauthorized, "the link is not valid: it works once, within a minute")
	}
	out = keyOut{Key: s.logins.enter(user, s.now()), Version: s.o.Version, Target: s.o.Target}
	if user != nil {
		out.User = user.Name
	}
	if out.Key == "" {
		return out, failed(http.StatusServiceUnavailable, "too many pages are logged in")
	}
	return out, nil
}

// identify lets the Access identify a caller by a token, or by the connection if there is
// none.
func (s *Server) identify(r *http.Request, token string) (*wire.User, error) {
	ctx := r.Context()
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	p := &peer.Peer{}
	switch {
	case r.TLS != nil:
		p.AuthInfo = credentials.TLSInfo{State: *r.TLS}
	case conn != nil && s.o.Peer != nil:
		p.AuthInfo = s.o.Peer(conn)
	}
	if conn != nil {
		p.Addr = conn.RemoteAddr()
	}
	ctx = peer.NewContext(ctx, p)
	if token != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
	}
	return s.o.Access.Identify(ctx)
}

type linkOut struct {
	Token string `json:"token"`
}

// link creates a link to another page of the same user.
func (s *Server) link(r *http.Request, _ struct{}) (out linkOut, err error) {
	l := s.logins.of(r, s.now())
	if l == nil {
		return out, failed(http.StatusUnauthorized, "this page is not logged in")
	}
	if out.Token = s.logins.offer(l.user, s.now()); out.Token == "" {
		return out, failed(http.StatusServiceUnavailable, "too many links wait to be opened")
	}
	return out, nil
}
