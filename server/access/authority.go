package access

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"endoscope/server/grant"
	"endoscope/server/wire"
)

// Options name the files that an Authority reads. A missing file lists no users or
// tokens.
type Options struct {
	Policy string // the file of users; "": only users of this machine have access
	Tokens string // the file of tokens; "": no tokens
	// Revoked is the file of revoked certificates: serial numbers, or lists that CA, the
	// file of the CA's certificate, has signed; "": none.
	Revoked, CA string
	Log         *slog.Logger
}

// Authority identifies users and returns their grants. It rereads its files when they
// change; if a changed file is invalid, the previous contents stay in force and the
// log says so. It is safe for concurrent use.
type Authority struct {
	o       Options
	tokens  *Tokens // nil: no token file
	known   directory
	revoked *revocations

	mu       sync.Mutex
	policy   *Policy
	seen     stamp
	accounts map[string]*grant.Account // by user
}

// New returns an Authority that has read the files of o.
func New(o Options) (*Authority, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Authority{o: o, known: machine{}, policy: noPolicy(), accounts: map[string]*grant.Account{}}
	var err error
	if a.revoked, err = newRevocations(o.Revoked, o.CA, o.Log); err != nil {
		return nil, err
	}
	if o.Tokens != "" {
		if a.tokens, err = OpenTokens(o.Tokens); err != nil {
			return nil, err
		}
	}
	if o.Policy != "" {
		if a.seen, err = stampOf(o.Policy); err == nil && a.seen.there {
			a.policy, err = ReadPolicy(o.Policy)
		}
	}
	return a, err
}

// current returns the policy, reread if the file has changed.
func (a *Authority) current() *Policy {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.o.Policy == "" {
		return a.policy
	}
	now, err := stampOf(a.o.Policy)
	if err == nil && now == a.seen {
		return a.policy
	}
	a.seen = now
	var p *Policy
	if err == nil {
		p, err = ReadPolicy(a.o.Policy)
	}
	if err != nil {
		a.o.Log.Error("the file of users is invalid; the previous one stays in force", "error", err)
		return a.policy
	}
	a.policy = p
	a.o.Log.Info("reloaded the file of users", "users", len(p.users))
	return p
}

// refused returns the error of a rejected call. It does not say what is wrong with a
// token.
func refused(format string, args ...any) error {
	return status.Error(codes.Unauthenticated, fmt.Sprintf(format, args...))
}

// Identify returns the caller's user. Refusals are logged. Any host that can connect can
// cause them, so the log should be limited.
func (a *Authority) Identify(ctx context.Context) (*wire.User, error) {
	u, err := a.identify(ctx)
	if err == nil {
		return u, nil
	}
	from := "unknown"
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		from = p.Addr.String()
	}
	a.o.Log.Warn("a call was refused", "peer", from, "error", status.Convert(err).Message())
	return nil, err
}

// identify determines the caller by the token, if the call has one, else by the
// client's certificate, else by the user id of the local peer.
func (a *Authority) identify(ctx context.Context) (*wire.User, error) {
	policy := a.current()
	if text, given := secretOf(ctx); given {
		if a.tokens != nil {
			if t, ok := a.tokens.Find(text); ok && policy.users[t.User] != nil {
				return &wire.User{Name: t.User, Via: "token " + t.ID()}, nil
			}
		}
		return nil, refused("the token is not valid")
	}
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return nil, refused("the caller is not identified")
	}
	switch info := p.AuthInfo.(type) {
	case credentials.TLSInfo:
		if len(info.State.VerifiedChains) == 0 {
			return nil, refused("the caller is not identified: a client certificate or a token is required")
		}
		leaf := info.State.VerifiedChains[0][0]
		if err := a.revoked.check(leaf); err != nil {
			return nil, err
		}
		if policy.users[leaf.Subject.CommonName] == nil {
			return nil, refused("the user of this certificate has no access")
		}
		return &wire.User{Name: leaf.Subject.CommonName, Via: fmt.Sprintf("certificate %x", leaf.SerialNumber)}, nil
	case Peer:
		if !info.Known {
			return nil, refused("the caller is not identified: a token is required")
		}
		name := policy.userOf(info.UID, a.known)
		if name == "" {
			return nil, refused("users of this machine have no access")
		}
		return &wire.User{Name: name, Via: fmt.Sprintf("uid %d", info.UID)}, nil
	}
	return nil, refused("the caller is not identified")
}

// secretOf returns the token of a call: Authorization: Bearer, or Basic with the
// token as password, for clients that support only user and password.
func secretOf(ctx context.Context) (text string, given bool) {
	headers := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(headers) == 0 {
		return "", false
	}
	scheme, rest, _ := strings.Cut(headers[0], " ")
	switch strings.ToLower(scheme) {
	case "bearer":
		return strings.TrimSpace(rest), true
	case "basic":
		if b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			_, text, _ = strings.Cut(string(b), ":")
		}
	}
	return text, true
}

// grantFor returns the current grant of an identified user; nil if the user no longer
// has access.
func (a *Authority) grantFor(u *wire.User) *grant.Grant {
	policy := a.current()
	if id, ok := strings.CutPrefix(u.Via, "token "); ok && (a.tokens == nil || !a.tokens.Has(u.Name, id)) {
		return nil
	}
	if text, ok := strings.CutPrefix(u.Via, "certificate "); ok {
		if serial, ok := new(big.Int).SetString(text, 16); ok && a.revoked.has(serial) {
			return nil
		}
	}
	g, limits, ok := policy.grantOf(u.Name, a.known)
	var uid uint32
	if n, err := fmt.Sscanf(u.Via, "uid %d", &uid); err == nil && n == 1 {
		if policy.userOf(uid, a.known) != u.Name {
			return nil
		}
		if !ok {
			g, limits, ok = policy.localGrant(uid, a.known)
		}
	}
	if !ok {
		return nil
	}
	g.Account = a.account(u.Name, limits)
	return g
}

// grantOf returns the grant of a definition's owner who need not have a session.
func (a *Authority) grantOf(name string) (*grant.Grant, bool) {
	policy := a.current()
	g, limits, ok := policy.grantOf(name, a.known)
	if local, isLocal := strings.CutPrefix(name, localPrefix); isLocal {
		uid, err := a.known.byName(local)
		if err != nil {
			if uid, err = number(local); err != nil {
				return nil, false
			}
		}
		if policy.userOf(uid, a.known) != name {
			return nil, false // the user has an entry by now
		}
		g, limits, ok = policy.localGrant(uid, a.known)
	}
	if ok {
		g.Account = a.account(name, limits)
	}
	return g, ok
}

// account returns the account of a user, shared by all the user's sessions.
func (a *Authority) account(user string, l grant.Limits) *grant.Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	acc := a.accounts[user]
	if acc == nil {
		acc = grant.NewAccount(l)
		a.accounts[user] = acc
	}
	acc.Limit(l)
	return acc
}

// forget closes the account of a user who no longer exists.
func (a *Authority) forget(user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.accounts, user)
}

// Usage returns the current usage of each user seen so far.
func (a *Authority) Usage() map[string]grant.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]grant.Usage{}
	for name, acc := range a.accounts {
		out[name] = acc.Usage()
	}
	return out
}
