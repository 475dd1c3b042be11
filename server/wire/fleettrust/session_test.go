package fleettrust

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// session returns a session of a host for alice, and her inbox.
func (f *fleet) session(host, alice *Identity, id ID) *Session {
	f.Helper()
	h := f.header(time.Hour)
	h.ID = id
	s, err := host.NewSession(h, []*Member{alice.Member})
	must(f, err)
	return s
}

func TestSessionSealsToReaders(t *testing.T) {
	f := newFleet(t)
	alice, bob, reducer, host := f.enroll("alice", Author, day), f.enroll("bob", Author, day), f.enroll("r1", Reducer, day), f.enroll("db1", Host, day)
	id := ID{1}
	h := f.header(time.Hour)
	h.ID = id
	s, err := host.NewSession(h, []*Member{alice.Member, reducer.Member})
	must(t, err)
	rows := bytes.Repeat([]byte("secret"), 100)
	msg := s.Seal([]byte("before"), "results.1", rows)[len("before"):]
	if bytes.Contains(msg, []byte("secret")) {
		t.Error("a listener can read the result")
	}
	for _, i := range []*Identity{alice, reducer} {
		from, got, err := NewInbox(i, f.trust(), id, Host).Open([]byte("x"), "results.1", msg)
		if err != nil || from.Name != "db1" || string(got) != "x"+string(rows) {
			t.Errorf("%s: %v", i.Name, err)
		}
	}
	_, _, err = NewInbox(bob, f.trust(), id, Host).Open(nil, "results.1", msg)
	refused(t, "at another author", err, Unsealed)
	_, _, err = NewInbox(alice, f.trust(), ID{2}, Host).Open(nil, "results.1", msg)
	refused(t, "for another query", err, Forged)
	_, _, err = NewInbox(alice, f.trust(), id, Host).Open(nil, "results.2", msg)
	refused(t, "on another subject", err, Forged)
	_, _, err = NewInbox(alice, f.trust(), id, Author).Open(nil, "results.1", msg)
	refused(t, "where only authors may send", err, Unpermitted)

	// A host cannot send what another host has sealed: under an opening of its own, with
	// the keys of the other, the payload does not open.
	m, err := f.trust().Verify(KindSession, s.prefix[5:])
	must(t, err)
	opening, err := f.enroll("db2", Host, day).Sign(KindSession, h, m.Body)
	must(t, err)
	stolen := append([]byte{'E', 'S', version, byte(len(opening) >> 8), byte(len(opening))}, opening...)
	stolen = append(stolen, msg[len(s.prefix):]...)
	_, _, err = NewInbox(alice, f.trust(), id, Host).Open(nil, "results.1", stolen)
	refused(t, "another host's payload", err, Forged)
}

// A message is accepted once, in whatever order messages arrive.
func TestMessagesAcceptedOnce(t *testing.T) {
	f := newFleet(t)
	alice, host := f.enroll("alice", Author, day), f.enroll("db1", Host, day)
	trust := f.trust()
	rapid.Check(t, func(r *rapid.T) {
		s, inbox := f.session(host, alice, ID{}), NewInbox(alice, trust, ID{}, Host)
		n := rapid.IntRange(1, 3*replayWindow).Draw(r, "messages")
		sent := make([][]byte, n)
		for i := range sent {
			sent[i] = s.Seal(nil, "s", fmt.Append(nil, i))
		}
		accepted := map[int]bool{}
		last := -1
		for range rapid.IntRange(1, 200).Draw(r, "arrivals") {
			i := rapid.IntRange(0, n-1).Draw(r, "message")
			_, payload, err := inbox.Open(nil, "s", sent[i])
			fresh := !accepted[i] && i > last-replayWindow
			if fresh != (err == nil) || err == nil && string(payload) != fmt.Sprint(i) {
				r.Fatalf("message %d (accepted before: %t, last %d): %v", i, accepted[i], last, err)
			}
			if err != nil && ReasonOf(err) != Replayed {
				r.Fatal(err)
			}
			if fresh {
				accepted[i], last = true, max(last, i)
			}
		}
	})
}

func TestConcurrentMessagesAcceptedOnce(t *testing.T) {
	f := newFleet(t)
	alice, host := f.enroll("alice", Author, day), f.enroll("db1", Host, day)
	s, inbox := f.session(host, alice, ID{}), NewInbox(alice, f.trust(), ID{}, Host)
	msgs := make([][]byte, 100)
	for i := range msgs {
		msgs[i] = s.Seal(nil, "s", nil)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	accepted := 0
	for range 4 {
		all.Go(func() {
			for _, m := range msgs {
				if _, _, err := inbox.Open(nil, "s", m); err == nil {
					mu.Lock()
					accepted++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if accepted != len(msgs) {
		t.Errorf("%d messages were accepted, %d were sent", accepted, len(msgs))
	}
}

// A host that restarts opens other sessions. Those that were dropped for newer ones stay
// refused, so that none of their messages counts twice.
func TestOldSessionsRefused(t *testing.T) {
	f := newFleet(t)
	alice, host := f.enroll("alice", Author, day), f.enroll("db1", Host, day)
	inbox := NewInbox(alice, f.trust(), ID{}, Host)
	var old [][]byte
	for n := range sessionsOfOne + 3 {
		msg := f.session(host, alice, ID{}).Seal(nil, "s", nil)
		if _, _, err := inbox.Open(nil, "s", msg); err != nil {
			t.Fatalf("session %d: %v", n, err)
		}
		old = append(old, msg)
		f.pass(time.Second)
	}
	for n, msg := range slices.Backward(old) {
		_, _, err := inbox.Open(nil, "s", msg)
		refused(t, fmt.Sprint("session ", n), err, Replayed)
	}
	if len(inbox.sessions) != sessionsOfOne {
		t.Errorf("%d sessions are kept", len(inbox.sessions))
	}
}

// A session ends with its expiry, and with its sender's certificate.
func TestSessionsEnd(t *testing.T) {
	f := newFleet(t)
	alice, host, brief := f.enroll("alice", Author, day), f.enroll("db1", Host, day), f.enroll("db2", Host, time.Hour)
	trust := f.trust()
	inbox := NewInbox(alice, trust, ID{}, Host)
	s, other := f.session(host, alice, ID{}), f.session(brief, alice, ID{})
	receive := func(s *Session) error {
		_, _, err := inbox.Open(nil, "s", s.Seal(nil, "s", nil))
		return err
	}
	must(t, receive(s))
	must(t, receive(other))
	_, err := trust.SetList(f.list(1, day, brief))
	must(t, err)
	refused(t, "of a revoked host", receive(other), Revoked)
	must(t, receive(s))
	f.pass(time.Hour + Tolerance)
	must(t, receive(s))
	f.pass(1)
	refused(t, "of an expired session", receive(s), Expired)
}
