package fleettrust

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The fuzz targets need the same keys in every process, so that messages of their corpora
// are valid. Keys and messages are made, and written to testdata, with
//
//	go test -run TestFixed -update ./server/wire/fleettrust
var update = flag.Bool("update", false, "make the keys and messages in testdata")

// fixed are the members and messages in testdata.
type fixed struct {
	*fleet
	alice, host *Identity
	messages    map[string][]byte
}

const (
	fixedQuery   = "SELECT 1"
	fixedPayload = "rows"
)

func fixtures(t testing.TB) *fixed {
	t.Helper()
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		return text
	}
	x := &fixed{fleet: &fleet{TB: t, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}, messages: map[string][]byte{}}
	block, rest := pem.Decode(read("ca.pem"))
	var err error
	x.ca, err = x509.ParseCertificate(block.Bytes)
	must(t, err)
	block, _ = pem.Decode(rest)
	x.key, err = x509.ParseECPrivateKey(block.Bytes)
	must(t, err)
	x.alice, err = ParseIdentity(read("alice.creds"))
	must(t, err)
	x.host, err = ParseIdentity(read("db1.creds"))
	must(t, err)
	for rest := read("messages.pem"); ; {
		if block, rest = pem.Decode(rest); block == nil {
			return x
		}
		x.messages[block.Headers["Name"]] = block.Bytes
	}
}

// TestFixed checks what the fuzz targets begin with, and makes it with -update.
func TestFixed(t *testing.T) {
	if *update {
		makeFixed(t)
	}
	x := fixtures(t)
	for k := range kinds {
		if _, err := x.trust().Verify(k, x.messages[k.String()]); err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	q, err := open(x.trust(), x.host, &SealedQuery{Message: x.messages["query"], Keys: [][]byte{x.messages["keys"]}})
	if err != nil || string(q.Body) != fixedQuery {
		t.Errorf("the query: %v", err)
	}
	if inv, err := x.trust().Inventory(x.messages["inventory"]); err != nil || len(inv.Hosts) != 1 {
		t.Errorf("the inventory: %v", err)
	}
	if _, got, err := NewInbox(x.alice, x.trust(), ID{}, Host).Open(nil, "s", x.messages["sealed"]); err != nil || string(got) != fixedPayload {
		t.Errorf("the sealed message: %v", err)
	}
}

func makeFixed(t *testing.T) {
	f := newFleet(t)
	alice, host := f.enroll("alice", Author, 3000*day), f.enroll("db1", Host, 3000*day)
	must(t, os.MkdirAll("testdata", 0o755))
	write := func(name string, text []byte) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join("testdata", name), text, 0o644))
	}
	write("ca.pem", append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.ca.Raw}), ecKey(t, f.key)...))
	for name, i := range map[string]*Identity{"alice.creds": alice, "db1.creds": host} {
		text, err := i.Encode()
		must(t, err)
		write(name, text)
	}
	var out []byte
	message := func(name string, text []byte, err error) {
		t.Helper()
		must(t, err)
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "MESSAGE", Headers: map[string]string{"Name": name}, Bytes: text})...)
	}
	for _, k := range []Kind{KindLease, KindTombstone, KindHost, KindHeartbeat} {
		by := alice
		if !k.may(Author) {
			by = host
		}
		m, err := by.Sign(k, f.header(time.Second), []byte("body"))
		message(k.String(), m, err)
	}
	q, err := alice.SealQuery(Query{Body: []byte(fixedQuery)}, f.header(time.Hour), []*Member{host.Member}, nil)
	must(t, err)
	message("query", q.Message, nil)
	message("keys", q.Keys[0], nil)
	s := f.session(host, alice, ID{})
	message("session", s.prefix[5:], nil)
	message("sealed", s.Seal(nil, "s", []byte(fixedPayload)), nil)
	inventory, err := MakeInventory(1, f.clock(), []*Member{host.Member}, f.key)
	message("inventory", inventory, err)
	message("list", f.list(1, 3000*day, host), nil)
	write("messages.pem", out)

	corpus := func(target, name string, args ...any) {
		t.Helper()
		dir := filepath.Join("testdata", "fuzz", target)
		must(t, os.MkdirAll(dir, 0o755))
		text := "go test fuzz v1\n"
		for _, a := range args {
			switch a := a.(type) {
			case Kind:
				text += fmt.Sprintf("byte(%q)\n", rune(a))
			case []byte:
				text += fmt.Sprintf("[]byte(%q)\n", a)
			}
		}
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	lease, err := alice.Sign(KindLease, f.header(time.Second), nil)
	must(t, err)
	corpus("FuzzVerify", "without-body", KindLease, lease)
	corpus("FuzzVerify", "other-kind", KindTombstone, lease)
	corpus("FuzzVerify", "without-signature", KindLease, lease[:len(lease)-64])
	corpus("FuzzVerify", "certificate-only", KindLease, lease[:6+len(alice.Certificate)])
	corpus("FuzzOpen", "keys-repeated", q.Message, append(append([]byte(nil), q.Keys[0]...), q.Keys[0]...))
	corpus("FuzzOpen", "keys-truncated", q.Message, q.Keys[0][:receiverKey+10])
	sealed := s.Seal(nil, "s", nil)
	corpus("FuzzSession", "empty", sealed)
	corpus("FuzzSession", "opening-only", sealed[:len(s.prefix)])
	corpus("FuzzSession", "counter-zero", append(append([]byte(nil), sealed[:len(s.prefix)+7]...), append([]byte{0}, sealed[len(s.prefix)+8:]...)...))
}

func ecKey(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
