package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"endoscope/server/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call returns the context of a call with a token, over a connection with the given
// identity.
func call(authorization string, info credentials.AuthInfo) context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{AuthInfo: info})
	if authorization != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", authorization))
	}
	return ctx
}

func TestIdentify(t *testing.T) {
	dir := t.TempDir()
	users, secrets := filepath.Join(dir, "users"), filepath.Join(dir, "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(users+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(users+".new", users); err != nil {
			t.Fatal(err)
		}
	}
	write("user alice\n role read\nuser carol\n role trace\n unix root\n")
	a, err := New(Options{Policy: users, Tokens: secrets})
	if err != nil {
		t.Fatal(err)
	}
	text, k, err := a.tokens.Add("alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	stranger, _, err := a.tokens.Add("mallory", 0) // a token without an entry
	if err != nil {
		t.Fatal(err)
	}
	certified := func(name string) credentials.AuthInfo {
		leaf := &x509.Certificate{}
		leaf.Subject.CommonName = name
		return credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}}
	}
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, c := range []struct {
		name, authorization string
		info                credentials.AuthInfo
		want                string // user, or the refusal
	}{
		{"token", "Bearer " + text, credentials.TLSInfo{}, "alice"},
		{"token as password", basic("whoever", text), credentials.TLSInfo{}, "alice"},
		{"certificate", "", certified("alice"), "alice"},
		{"local root with an entry", "", Peer{Known: true, UID: 0}, "carol"},
		{"a token precedes the local user", "Bearer " + text, Peer{Known: true, UID: 0}, "alice"},
		{"wrong token", "Bearer " + text[:30], credentials.TLSInfo{}, "the token is not valid"},
		{"wrong token from root", "Bearer x", Peer{Known: true, UID: 0}, "the token is not valid"},
		{"token without an entry", "Bearer " + stranger, credentials.TLSInfo{}, "the token is not valid"},
		{"another scheme", "Digest " + text, credentials.TLSInfo{}, "the token is not valid"},
		{"bad Basic", "Basic !", credentials.TLSInfo{}, "the token is not valid"},
		{"certificate without an entry", "", certified("mallory"), "the user of this certificate has no access"},
		{"neither", "", credentials.TLSInfo{}, "the caller is not identified: a client certificate or a token is required"},
		{"plaintext from elsewhere", "", Peer{}, "the caller is not identified: a token is required"},
		{"nothing identified", "", nil, "the caller is not identified"},
	} {
		u, err := a.Identify(call(c.authorization, c.info))
		got := ""
		if err != nil {
			_, got, _ = strings.Cut(err.Error(), "desc = ")
		} else {
			got = u.Name
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}

	// A user whose token or entry is removed loses access.
	u, err := a.Identify(call("Bearer "+text, credentials.TLSInfo{}))
	if err != nil || a.grantFor(u) == nil {
		t.Fatal(err)
	}
	byCert := &wire.User{Name: "alice", Via: "certificate 1"}
	if _, err := a.tokens.Revoke(k.ID()); err != nil {
		t.Fatal(err)
	}
	if a.grantFor(u) != nil {
		t.Error("a revoked token has a grant")
	}
	if a.grantFor(byCert) == nil {
		t.Error("a certificate went with a token")
	}
	write("user alice\n role nonsense\n")
	if a.grantFor(byCert) == nil {
		t.Error("a file with a mistake took a user away")
	}
	write("user bob\n role read\n")
	if a.grantFor(byCert) != nil {
		t.Error("a removed user has a grant")
	}
}
