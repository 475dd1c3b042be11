package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	text, k, err := tokens.Add("alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) != len("endoscope_")+43 { // 256 bits
		t.Errorf("a token of %d characters", len(text))
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if secret := strings.TrimPrefix(text, "endoscope_"); strings.Contains(string(kept), secret) {
		t.Error("the token is kept as it is")
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %o", info.Mode().Perm())
	}
	other, _, err := tokens.Add("bob", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	expired, old, err := tokens.Add("carol", time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := OpenTokens(path) // the daemon, while the command changes the file
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]string{text: "alice", other: "bob", expired: "", text[:len(text)-1]: "", text + "x": "", "": "", "endoscope_": ""} {
		if got, ok := elsewhere.Find(secret); got.User != want || ok != (want != "") {
			t.Errorf("%.14s...: %q, want %q", secret, got.User, want)
		}
	}
	if elsewhere.Has("carol", old.ID()) {
		t.Error("an expired token is good")
	}
	if _, err := tokens.Revoke(k.ID()); err != nil {
		t.Fatal(err)
	}
	if _, ok := elsewhere.Find(text); ok || elsewhere.Has("alice", k.ID()) {
		t.Error("a revoked token is good")
	}
	if _, err := tokens.Revoke(k.ID()); err == nil || err.Error() != "there is no token "+k.ID() {
		t.Errorf("revoked twice: %v", err)
	}
	if _, ok := elsewhere.Find(other); !ok {
		t.Error("another one went, too")
	}
	if err := os.WriteFile(path, []byte("alice nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTokens(path); err == nil || !strings.Contains(err.Error(), "tokens:1: a token line has a user") {
		t.Errorf("nonsense: %v", err)
	}
}
