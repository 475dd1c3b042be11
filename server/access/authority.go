package access

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"endoscope/server/grant"
	"endoscope/server/wire"
)

// Options are where an Authority looks. Files that are not there have nobody.
type Options struct {
	Policy string // the file of users; "": users of the machine alone
	Tokens string // the file of tokens; "": there are none
	Log    *slog.Logger
}

// Authority knows users, and what they may do. It reads its files again when they
// have changed; a file that does not read then stays as it was, and the log says
// so. It is safe for concurrent use.
type Authority struct {
	o        Options
	tokens   *Tokens // nil: there are none
	refusals throttle
	known    directory

	mu       sync.Mutex
	policy   *Policy
	seen     stamp
	accounts map[string]*grant.Account // by user
}

// New reads the files.
func New(o Options) (*Authority, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Authority{o: o, known: machine{}, policy: noPolicy(), accounts: map[string]*grant.Account{}}
	var err error
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

// current is the policy as the file has it now.
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
		a.o.Log.Error("the file of users is not understood, and those before stay", "error", err)
		return a.policy
	}
	a.policy = p
	a.o.Log.Info("the file of users was read again", "users", len(p.users))
	return p
}

// refused is why a call is. What is wrong with a token is not said.
func refused(format string, args ...any) error {
	return status.Error(codes.Unauthenticated, fmt.Sprintf(format, args...))
}

// Identify says who calls, and has refusals in the log, though not more than some a
// second: whoever can connect can be refused.
func (a *Authority) Identify(ctx context.Context) (*wire.User, error) {
	u, err := a.identify(ctx)
	if err == nil {
		return u, nil
	}
	from := "unknown"
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		from = p.Addr.String()
	}
	if unsaid, say := a.refusals.next(time.Now()); say {
		a.o.Log.Warn("a call was refused", "peer", from, "error", status.Convert(err).Message(), "others not logged", unsaid)
	}
	return nil, err
}

// throttle lets some things a second pass, and counts the others.
type throttle struct {
	mu     sync.Mutex
	second int64
	passed int
	held   int // since the last that passed
}

const logged = 10 // refusals a second

func (t *throttle) next(now time.Time) (held int, pass bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := now.Unix(); s != t.second {
		t.second, t.passed = s, 0
	}
	if t.passed == logged {
		t.held++
		return 0, false
	}
	t.passed++
	held, t.held = t.held, 0
	return held, true
}

// identify says who calls: by the token, if there is one, else by the client's
// certificate, else as the user of the machine that the connection is of.
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
		return nil, refused("who calls is not known")
	}
	switch info := p.AuthInfo.(type) {
	case credentials.TLSInfo:
		if len(info.State.VerifiedChains) == 0 {
			return nil, refused("who calls is not known: it takes a client certificate, or a token")
		}
		leaf := info.State.VerifiedChains[0][0]
		if policy.users[leaf.Subject.CommonName] == nil {
			return nil, refused("who has this certificate has no access")
		}
		return &wire.User{Name: leaf.Subject.CommonName, Via: fmt.Sprintf("certificate %x", leaf.SerialNumber)}, nil
	case Peer:
		if !info.Known {
			return nil, refused("who calls is not known: it takes a token")
		}
		name := policy.userOf(info.UID, a.known)
		if name == "" {
			return nil, refused("users of this machine have no access")
		}
		return &wire.User{Name: name, Via: fmt.Sprintf("uid %d", info.UID)}, nil
	}
	return nil, refused("who calls is not known")
}

// secretOf is the token of a call: Authorization: Bearer, or Basic with the token
// as password, as clients send it that know users and passwords alone.
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

// grantFor is what an identified user may do now; nil: nothing any more.
func (a *Authority) grantFor(u *wire.User) *grant.Grant {
	policy := a.current()
	if id, ok := strings.CutPrefix(u.Via, "token "); ok && (a.tokens == nil || !a.tokens.Has(u.Name, id)) {
		return nil
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

// grantOf is what a user may do who made something, without being there now.
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
			return nil, false // they have an entry by now
		}
		g, limits, ok = policy.localGrant(uid, a.known)
	}
	if ok {
		g.Account = a.account(name, limits)
	}
	return g, ok
}

// account is the one of a user, in all their sessions.
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

// forget closes the account of who is no user any more.
func (a *Authority) forget(user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.accounts, user)
}

// Usage is what each user that was ever seen uses now.
func (a *Authority) Usage() map[string]grant.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]grant.Usage{}
	for name, acc := range a.accounts {
		out[name] = acc.Usage()
	}
	return out
}
