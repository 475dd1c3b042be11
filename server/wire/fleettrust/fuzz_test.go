package fleettrust

import (
	"bytes"
	"testing"
)

// The fuzz targets send arbitrary bytes to whatever parses messages of the bus. Nothing
// that was not signed is accepted, and no refusal is without a reason.
//
//	go test -run '^$' -fuzz FuzzVerify -fuzztime 1m ./server/wire/fleettrust

func FuzzVerify(f *testing.F) {
	x := fixtures(f)
	trust := x.trust()
	signed := map[string]bool{}
	for k := range kinds {
		m := x.messages[k.String()]
		signed[string(m)] = true
		f.Add(uint8(k), m)
	}
	f.Fuzz(func(t *testing.T, k uint8, msg []byte) {
		m, err := trust.Verify(Kind(k), msg)
		switch {
		case err != nil && ReasonOf(err) == "":
			t.Fatalf("refused without a reason: %v", err)
		case err == nil && !signed[string(msg)] && len(m.Body) > 0: // one without a body is in the corpus
			t.Fatalf("accepted a %s that nobody signed: %x", Kind(k), msg)
		}
	})
}

// FuzzOpen changes the message of a query and the keys that are sealed to its hosts.
func FuzzOpen(f *testing.F) {
	x := fixtures(f)
	trust := x.trust()
	query, all := x.messages["query"], x.messages["keys"]
	f.Add(query, all)
	f.Add(query, all[:receiverKey])
	f.Add([]byte{}, all)
	f.Fuzz(func(t *testing.T, msg, keys []byte) {
		s, err := trust.VerifyQuery(msg)
		if err == nil && !bytes.Equal(msg, query) {
			t.Fatalf("accepted a query that nobody signed: %x", msg)
		}
		var o *OpenQuery
		if err == nil {
			o, err = trust.Open(x.host, s, keys)
		}
		switch {
		case err == nil && string(o.Body) != fixedQuery:
			t.Fatalf("opened %q", o.Body)
		case err != nil && ReasonOf(err) == "":
			t.Fatalf("refused without a reason: %v", err)
		}
	})
}

// FuzzContents parses contents of a query, whose author may be of another version.
func FuzzContents(f *testing.F) {
	x := fixtures(f)
	trust := x.trust()
	for _, m := range []*Member{x.alice.Member, x.host.Member, newFleet(f).enroll("alice", Author, day).Member} {
		b := append(make([]byte, nonceBytes), 1, 2, 'r', '1', 1, byte(len(m.Certificate)>>8), byte(len(m.Certificate)))
		f.Add(append(append(b, m.Certificate...), fixedQuery...))
	}
	f.Add(make([]byte, nonceBytes+3))
	f.Fuzz(func(t *testing.T, body []byte) {
		q := &OpenQuery{}
		err := trust.parseQuery(q, body)
		switch {
		case err != nil && ReasonOf(err) == "":
			t.Fatalf("refused without a reason: %v", err)
		case err == nil && (len(q.Readers) == 0 || !bytes.HasSuffix(body, q.Body)):
			t.Fatalf("parsed %x as %+v", body, q)
		}
		for _, m := range q.Readers {
			if m.Role != Author {
				t.Fatalf("%s reads results", m.Role)
			}
		}
	})
}

func FuzzSession(f *testing.F) {
	x := fixtures(f)
	trust := x.trust()
	msg := x.messages["sealed"]
	f.Add(msg)
	f.Add(msg[:len(msg)-1])
	f.Fuzz(func(t *testing.T, changed []byte) {
		_, got, err := NewInbox(x.alice, trust, ID{}, Host).Open(nil, "s", changed)
		switch {
		case err != nil && ReasonOf(err) == "":
			t.Fatalf("refused without a reason: %v", err)
		case err == nil && len(got) > 0 && !bytes.Equal(changed, msg): // an empty one is in the corpus
			t.Fatalf("accepted %x", changed)
		}
	})
}

// FuzzMember parses certificates, lists of revoked ones and inventories. A signature of
// the CA has two forms, so that equal contents may differ in bytes.
func FuzzMember(f *testing.F) {
	x := fixtures(f)
	trust := x.trust()
	for _, text := range [][]byte{x.host.Certificate, x.ca.Raw, x.messages["list"], x.messages["inventory"]} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reasoned := func(err error) {
			t.Helper()
			if err != nil && ReasonOf(err) == "" {
				t.Fatalf("refused without a reason: %v", err)
			}
		}
		m, err := trust.Member(text)
		if reasoned(err); err == nil && m.Serial != x.host.Serial && m.Serial != x.alice.Serial {
			t.Fatalf("accepted the certificate %x", text)
		}
		fresh, err := NewTrust(x.ca, Options{Now: x.clock})
		must(t, err)
		newer, err := fresh.SetList(text)
		if reasoned(err); err == nil && (!newer || !fresh.list.serials[x.host.Serial]) {
			t.Fatalf("accepted the list %x", text)
		}
		inv, err := trust.Inventory(text)
		if reasoned(err); err == nil && (len(inv.Hosts) != 1 || !inv.Hosts[0].Is(x.host.Certificate)) {
			t.Fatalf("accepted the inventory %x", text)
		}
	})
}

// FuzzCredentials parses files of credentials.
func FuzzCredentials(f *testing.F) {
	text, err := fixtures(f).host.Encode()
	must(f, err)
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		i, err := ParseIdentity(text)
		if err != nil {
			return
		}
		if again, err := i.Encode(); err != nil {
			t.Fatal(err)
		} else if _, err := ParseIdentity(again); err != nil {
			t.Fatal(err)
		}
	})
}
