package access

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/server/wire/fleettrust"
)

func TestEnroll(t *testing.T) {
	dir := made(t, "db1")
	f, err := OpenFleet(dir)
	if err != nil {
		t.Fatal(err)
	}
	enroll := func(name string, r fleettrust.Role, o ClientOptions) (string, *fleettrust.Identity) {
		t.Helper()
		file, made, err := f.Enroll(fleettrust.Profile{Name: name, Role: r, Labels: map[string]string{"rack": "r1"}}, o)
		if err != nil {
			t.Fatal(err)
		}
		return file, made
	}
	file, host := enroll("db1.example", fleettrust.Host, ClientOptions{})
	_, alice := enroll("alice", fleettrust.Author, ClientOptions{Life: time.Hour})
	enroll("db2", fleettrust.Host, ClientOptions{})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the credentials have mode %v: %v", info.Mode(), err)
	}
	read, err := fleettrust.LoadIdentity(file)
	if err != nil || read.Name != "db1.example" || read.Labels["rack"] != "r1" || !read.CA.Equal(f.ca.Certificate) {
		t.Errorf("the credentials: %v", err)
	}
	trust, err := fleettrust.NewTrust(f.ca.Certificate, fleettrust.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Member(host.Certificate); err != nil {
		t.Error(err)
	}
	if life := time.Until(alice.NotAfter); life > time.Hour || life < 50*time.Minute {
		t.Errorf("a certificate for an hour is valid for %s", life)
	}

	names := func() (names []string, number uint64) {
		t.Helper()
		text, err := f.Inventory()
		if err != nil {
			t.Fatal(err)
		}
		inv, err := trust.Inventory(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range inv.Hosts {
			names = append(names, h.Name)
		}
		return names, inv.Number
	}
	all, first := names()
	if !slices.Equal(all, []string{"db1.example", "db2"}) {
		t.Errorf("the inventory has %v", all)
	}
	if _, _, err := f.Enroll(fleettrust.Profile{Name: "db2", Role: fleettrust.Host}, ClientOptions{}); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("enrolled twice: %v", err)
	}
	_, again := enroll("db2", fleettrust.Host, ClientOptions{Replace: true})
	if all, number := names(); len(all) != 2 || number <= first {
		t.Errorf("inventory %d after %d has %v", number, first, all)
	}

	if _, _, err := f.Enroll(fleettrust.Profile{Name: "../x", Role: fleettrust.Host}, ClientOptions{}); err == nil {
		t.Error("enrolled a path")
	}

	// Revoked members leave the inventory, and the fleet.
	number, err := f.Revoke([]string{again.Serial, "serial=00:AB"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if all, _ := names(); !slices.Equal(all, []string{"db1.example"}) {
		t.Errorf("the inventory has %v", all)
	}
	members, err := f.Members()
	if err != nil || len(members) != 2 || members[0].Name != "db1.example" || members[1].Name != "alice" {
		t.Errorf("the members are %v: %v", members, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "revoked"))
	if err != nil {
		t.Fatal(err)
	}
	if newer, err := trust.SetList(text); err != nil || !newer || trust.ListNumber() != number {
		t.Errorf("list %d of revoked certificates: %v", number, err)
	}
	if _, err := trust.Member(again.Certificate); fleettrust.ReasonOf(err) != fleettrust.Revoked {
		t.Errorf("a revoked host: %v", err)
	}
}

// Revoke makes one list for clients and members, and keeps what was revoked before,
// whatever the notation.
func TestRevokeKeepsList(t *testing.T) {
	dir := made(t, "db1")
	path := filepath.Join(dir, "revoked")
	if err := os.WriteFile(path, []byte("# by hand\nab12 # alice\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFleet(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, err := f.Revoke([]string{"cd34"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Revoke(nil, time.Hour)
	if err != nil || second <= first {
		t.Errorf("list %d follows list %d: %v", second, first, err)
	}
	r, err := newRevocations(path, filepath.Join(dir, "ca.pem"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.serials) != 2 || !r.serials["43794"] || !r.serials["52532"] {
		t.Errorf("the list has %v", r.serials)
	}
	if _, err := f.Revoke([]string{"not a number"}, 0); err == nil {
		t.Error("revoked what is not a serial number")
	}
}
