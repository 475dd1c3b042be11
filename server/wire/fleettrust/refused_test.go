package fleettrust

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every message that its sender has not signed as it is, for this place and time, is
// refused, with the reason.
func TestMessagesRefused(t *testing.T) {
	f, foreign := newFleet(t), newFleet(t)
	alice, bob, host, reducer := f.enroll("alice", Author, day), f.enroll("bob", Author, day), f.enroll("db1", Host, day), f.enroll("r1", Reducer, day)
	mallory := foreign.enroll("alice", Author, day)
	sign := func(i *Identity, k Kind, h Header, body []byte) []byte {
		t.Helper()
		m, err := i.Sign(k, h, body)
		must(t, err)
		return m
	}
	theirs := sign(mallory, KindTombstone, foreign.header(time.Hour), nil)
	if _, err := foreign.trust().Verify(KindTombstone, theirs); err != nil {
		t.Errorf("a message of another installation, there: %v", err)
	}
	good := sign(alice, KindTombstone, f.header(time.Hour), []byte("body"))
	edited := func(change func(m []byte) []byte) []byte { return change(append([]byte(nil), good...)) }
	// A signer without the checks of Sign.
	raw := func(i *Identity, k Kind, h Header, role Role) []byte {
		t.Helper()
		copied, member := *i, *i.Member
		member.Role, member.NotAfter, copied.Member = role, f.clock().Add(4000*day), &member
		return sign(&copied, k, h, nil)
	}
	// Another's certificate in front of one's own signature.
	swapped := func(certificate *Identity, by *Identity) []byte {
		t.Helper()
		copied, member := *by, *by.Member
		member.Certificate, member.Fingerprint, member.Role, copied.Member = certificate.Certificate, certificate.Fingerprint, Author, &member
		return sign(&copied, KindTombstone, f.header(time.Hour), nil)
	}
	later := f.header(time.Hour)
	later.NotBefore, later.Expiry = later.NotBefore.Add(31*time.Second), later.Expiry.Add(31*time.Second)
	past := f.header(time.Hour)
	past.NotBefore, past.Expiry = past.NotBefore.Add(-time.Hour), past.NotBefore.Add(-31*time.Second)
	newer := f.header(time.Hour)
	newer.List = 7
	reversed := f.header(time.Hour)
	reversed.NotBefore, reversed.Expiry = reversed.NotBefore.Add(10*time.Second), reversed.NotBefore.Add(-10*time.Second)
	expired := f.enroll("carol", Author, 10*time.Second)
	brief := sign(expired, KindTombstone, f.header(5*time.Second), nil)

	for _, c := range []struct {
		what string
		kind Kind
		msg  []byte
		want Reason
	}{
		{"nothing", KindTombstone, nil, Malformed},
		{"text", KindTombstone, []byte("SELECT 1"), Malformed},
		{"another version", KindTombstone, edited(func(m []byte) []byte { m[2] = 9; return m }), Malformed},
		{"another kind", KindLease, good, Malformed},
		{"another kind, relabelled", KindLease, edited(func(m []byte) []byte { m[3] = byte(KindLease); return m }), Forged},
		{"truncated", KindTombstone, good[:len(good)-1], Malformed},
		{"continued", KindTombstone, append(append([]byte(nil), good...), 0), Malformed},
		{"an impossible length", KindTombstone, edited(func(m []byte) []byte {
			at := 6 + len(alice.Certificate)
			binary.BigEndian.PutUint32(m[at:], 1<<32-1)
			return m
		}), Malformed},
		{"oversized", KindTombstone, append(append([]byte(nil), good...), make([]byte, 64<<10)...), Oversized},
		{"a body that was changed", KindTombstone, edited(func(m []byte) []byte { m[len(m)-65]++; return m }), Forged},
		{"an expiry that was changed", KindTombstone, edited(func(m []byte) []byte { m[10+len(alice.Certificate)+40]++; return m }), Forged},
		{"a signature that was changed", KindTombstone, edited(func(m []byte) []byte { m[len(m)-1]++; return m }), Forged},
		{"a certificate that was changed", KindTombstone, edited(func(m []byte) []byte { m[6+len(alice.Certificate)-1]++; return m }), Foreign},
		{"the certificate of another author", KindTombstone, swapped(alice, bob), Forged},
		{"the certificate of an author, by a host", KindTombstone, swapped(alice, host), Forged},
		{"another installation", KindTombstone, theirs, Foreign},
		{"another installation, with a certificate of this one", KindTombstone, swapped(alice, mallory), Forged},
		{"by a host", KindTombstone, raw(host, KindTombstone, f.header(time.Hour), Author), Unpermitted},
		{"by a reducer", KindTombstone, raw(reducer, KindTombstone, f.header(time.Hour), Author), Unpermitted},
		{"a heartbeat of an author", KindHeartbeat, raw(alice, KindHeartbeat, f.header(time.Minute), Host), Unpermitted},
		{"expired", KindTombstone, sign(alice, KindTombstone, past, nil), Expired},
		{"early", KindTombstone, sign(alice, KindTombstone, later, nil), Early},
		{"an expiry before its beginning", KindTombstone, sign(alice, KindTombstone, reversed, nil), Malformed},
		{"with a newer list of revoked certificates", KindTombstone, sign(alice, KindTombstone, newer, nil), Behind},
	} {
		_, err := f.trust().Verify(c.kind, c.msg)
		refused(t, c.what, err, c.want)
	}
	if m, err := f.trust().Verify(KindTombstone, good); err != nil || m.From.Name != "alice" || string(m.Body) != "body" {
		t.Errorf("the message itself: %v", err)
	}

	f.pass(10*time.Second + Tolerance)
	if _, err := f.trust().Verify(KindTombstone, brief); err == nil {
		t.Error("accepted after its expiry")
	}
	f.pass(time.Second)
	_, err := f.trust().Verify(KindTombstone, raw(expired, KindTombstone, f.header(time.Hour), Author))
	refused(t, "by an expired certificate", err, Expired)
}

// The clock tolerance is exact at both ends.
func TestTolerance(t *testing.T) {
	f := newFleet(t)
	m, err := f.enroll("alice", Author, day).Sign(KindTombstone, f.header(time.Hour), nil)
	must(t, err)
	for _, c := range []struct {
		after time.Duration
		want  Reason
	}{{-Tolerance - 1, Early}, {-Tolerance, ""}, {0, ""}, {time.Hour + Tolerance, ""}, {time.Hour + Tolerance + 1, Expired}} {
		now := f.clock().Add(c.after)
		trust, err := NewTrust(f.ca, Options{Now: func() time.Time { return now }})
		must(t, err)
		_, err = trust.Verify(KindTombstone, m)
		refused(t, c.after.String(), err, c.want)
	}
}

// No message with a change anywhere is accepted.
func TestChangedMessagesRefused(t *testing.T) {
	f := newFleet(t)
	alice, host := f.enroll("alice", Author, day), f.enroll("db1", Host, day)
	q, err := alice.SealQuery(Query{Body: []byte("SELECT 1")}, f.header(time.Hour), []*Member{host.Member}, nil)
	must(t, err)
	s, err := host.NewSession(Header{ID: q.ID, NotBefore: f.clock(), Expiry: f.clock().Add(time.Hour)}, []*Member{alice.Member})
	must(t, err)
	result := s.Seal(nil, "subject", []byte("rows"))
	trust := f.trust()
	if _, err := open(trust, host, q); err != nil {
		t.Fatal(err)
	}
	if _, _, err := NewInbox(alice, trust, q.ID, Host).Open(nil, "subject", result); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		which := rapid.SampledFrom([]string{"query", "keys", "result"}).Draw(r, "which")
		msg := map[string][]byte{"query": q.Message, "keys": q.Keys[0], "result": result}[which]
		changed := change(r, msg)
		if string(changed) == string(msg) {
			return
		}
		var err error
		switch which {
		case "query":
			_, err = open(trust, host, &SealedQuery{Message: changed, Keys: q.Keys})
		case "keys":
			var got *OpenQuery
			got, err = open(trust, host, &SealedQuery{Message: q.Message, Keys: [][]byte{changed}})
			if err == nil && string(got.Body) == "SELECT 1" {
				return // the keys of others are not authenticated: the host's own one was not changed
			}
		case "result":
			_, _, err = NewInbox(alice, trust, q.ID, Host).Open(nil, "subject", changed)
		}
		if ReasonOf(err) == "" {
			r.Errorf("a changed %s was accepted: %v", which, err)
		}
	})
}

// change draws a message made from another.
func change(r *rapid.T, msg []byte) []byte {
	out := append([]byte(nil), msg...)
	switch rapid.IntRange(0, 3).Draw(r, "how") {
	case 0: // bits
		for range rapid.IntRange(1, 4).Draw(r, "n") {
			out[rapid.IntRange(0, len(out)-1).Draw(r, "at")] ^= byte(rapid.IntRange(1, 255).Draw(r, "bits"))
		}
	case 1: // less
		return out[:rapid.IntRange(0, len(out)-1).Draw(r, "length")]
	case 2: // more
		return append(out, rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(r, "more")...)
	case 3: // a part left out
		a := rapid.IntRange(0, len(out)-1).Draw(r, "from")
		b := rapid.IntRange(a, len(out)).Draw(r, "to")
		return append(out[:a], out[b:]...)
	}
	return out
}
