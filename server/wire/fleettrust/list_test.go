package fleettrust

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestRevokedCertificates(t *testing.T) {
	f := newFleet(t)
	alice, bob := f.enroll("alice", Author, 90*day), f.enroll("bob", Author, 90*day)
	file := filepath.Join(t.TempDir(), "revoked")
	trust, err := NewTrust(f.ca, Options{Now: f.clock, List: file})
	must(t, err)
	said := func(by *Identity) error {
		t.Helper()
		h := f.header(time.Minute)
		h.List = trust.ListNumber()
		m, err := by.Sign(KindLease, h, nil)
		must(t, err)
		_, err = trust.Verify(KindLease, m)
		return err
	}
	must(t, said(alice))
	older := f.list(4, day, bob)
	newer := f.list(5, day, alice)
	if changed, err := trust.SetList(newer); err != nil || !changed {
		t.Fatalf("the first list: %t, %v", changed, err)
	}
	if changed, err := trust.SetList(newer); err != nil || changed {
		t.Errorf("the same list: %t, %v", changed, err)
	}
	refused(t, "a revoked author", said(alice), Revoked)
	must(t, said(bob))
	_, err = trust.SetList(older)
	refused(t, "an older list", err, Replayed)
	_, err = trust.SetList(f.list(5, day))
	refused(t, "another list with the same number", err, Replayed)
	_, err = trust.SetList(f.list(0, day))
	refused(t, "a list without a number", err, Malformed)
	_, err = trust.SetList(newFleet(t).list(9, day))
	refused(t, "the list of another CA", err, Forged)
	_, err = trust.SetList(newer[:len(newer)/2])
	refused(t, "half a list", err, Malformed)
	_, err = trust.SetList(make([]byte, 4<<20))
	refused(t, "a long list", err, Oversized)
	refused(t, "the revoked author, after all that", said(alice), Revoked)

	// A restart does not forget the list.
	again, err := NewTrust(f.ca, Options{Now: f.clock, List: file})
	must(t, err)
	if again.ListNumber() != 5 || string(again.List()) != string(newer) {
		t.Errorf("list %d is in force after a restart", again.ListNumber())
	}
	_, err = again.SetList(older)
	refused(t, "an older list after a restart", err, Replayed)

	// While the list is too old nothing is accepted.
	f.pass(day + Tolerance)
	must(t, said(bob))
	f.pass(1)
	refused(t, "with an old list", said(bob), Behind)
	_, err = trust.SetList(f.list(6, day, alice))
	must(t, err)
	must(t, said(bob))

	// A file that is not a list is not ignored.
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	if _, err := NewTrust(f.ca, Options{List: file}); err == nil {
		t.Error("an invalid file of revoked certificates was ignored")
	}
}

func TestInventory(t *testing.T) {
	f := newFleet(t)
	var hosts []*Member
	for n := range 20 {
		hosts = append(hosts, f.enroll(fmt.Sprintf("db%02d", 19-n), Host, day).Member)
	}
	hosts[19].Labels, hosts[18].Labels = map[string]string{"rack": "r1", "zone": ""}, nil
	text, err := MakeInventory(7, f.clock(), hosts, f.key)
	must(t, err)
	trust := f.trust()
	inv, err := trust.Inventory(text)
	must(t, err)
	if inv.Number != 7 || !inv.Made.Equal(f.clock()) || len(inv.Hosts) != 20 || inv.Hosts[0].Name != "db00" ||
		!maps.Equal(inv.Hosts[0].Labels, hosts[19].Labels) || inv.Hosts[1].Labels != nil || !inv.Hosts[0].Is(hosts[19].Certificate) || inv.Hosts[0].Is(hosts[0].Certificate) {
		t.Errorf("the inventory is %+v", inv)
	}
	older, err := MakeInventory(6, f.clock(), hosts[1:], f.key)
	must(t, err)
	_, err = trust.Inventory(older)
	refused(t, "an older inventory", err, Replayed)
	other := newFleet(t)
	foreign, err := MakeInventory(8, f.clock(), hosts[1:], other.key)
	must(t, err)
	_, err = trust.Inventory(foreign)
	refused(t, "the inventory of another CA", err, Forged)
	for n := range text {
		if _, err := trust.Inventory(text[:n]); err == nil {
			t.Fatalf("%d of %d bytes of an inventory were accepted", n, len(text))
		}
		changed := append([]byte(nil), text...)
		changed[n] ^= 1
		if _, err := trust.Inventory(changed); err == nil {
			t.Fatalf("an inventory with a change of byte %d was accepted", n)
		}
	}
}

func TestNewest(t *testing.T) {
	f := newFleet(t)
	a, b := f.enroll("db1", Host, day), f.enroll("db2", Host, day)
	trust := f.trust()
	var n Newest
	beat := func(i *Identity) *Message {
		t.Helper()
		m, err := i.Sign(KindHeartbeat, f.header(time.Second), nil)
		must(t, err)
		v, err := trust.Verify(KindHeartbeat, m)
		must(t, err)
		return v
	}
	first := beat(a)
	must(t, n.Accept(first))
	must(t, n.Accept(first))
	must(t, n.Accept(beat(b)))
	f.pass(time.Second)
	second := beat(a)
	must(t, n.Accept(second))
	refused(t, "an older heartbeat", n.Accept(first), Replayed)
}
