package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"endoscope/probes/testenv"
)

// network is a server's and a client's machine: two network namespaces connected by a
// wire.
type network struct {
	t              testing.TB
	server, client string // namespaces
	addr           string // address of the server's end
}

func newNetwork(t testing.TB) *network {
	t.Helper()
	testenv.NeedRoot(t)
	testenv.NeedProgram(t, "ip")
	id := strconv.Itoa(os.Getpid())
	n := &network{t: t, server: "es-s" + id, client: "es-c" + id, addr: "10.213.7.1"}
	for _, ns := range []string{n.server, n.client} {
		if msg, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
			testenv.Skip(t, "needs network namespaces: %v: %s", err, msg)
		}
		t.Cleanup(func() { exec.Command("ip", "netns", "del", ns).Run() })
	}
	n.ip("link", "add", "wire", "netns", n.server, "type", "veth", "peer", "name", "wire", "netns", n.client)
	n.ip("-n", n.server, "addr", "add", n.addr+"/24", "dev", "wire")
	n.ip("-n", n.client, "addr", "add", "10.213.7.2/24", "dev", "wire")
	for _, ns := range []string{n.server, n.client} {
		n.ip("-n", ns, "link", "set", "wire", "up")
	}
	return n
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if msg, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %v: %v: %s", args, err, msg)
	}
}

// cut takes the wire down on the server's side; neither end is notified.
func (n *network) cut() { n.t.Helper(); n.ip("-n", n.server, "link", "set", "wire", "down") }

// mend brings it up again.
func (n *network) mend() { n.t.Helper(); n.ip("-n", n.server, "link", "set", "wire", "up") }

// in returns a command line that runs in a namespace.
func in(ns, name string, args ...string) []string {
	return append([]string{"ip", "netns", "exec", ns, name}, args...)
}

func (n *network) launch(ns, name string, args ...string) *ours {
	n.t.Helper()
	line := in(ns, name, args...)
	return launch(n.t, line[0], line[1:]...) // ip executes it in the same process
}

// configure creates certificates for the server and a token of a user with all
// permissions, and returns the directory and the token's file.
func (n *network) configure(endoscoped string) (dir, token string) {
	n.t.Helper()
	dir = filepath.Join(n.t.TempDir(), "conf")
	if msg, err := exec.Command(endoscoped, "init", "--config", dir, "--host", n.addr).CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %s", err, msg)
	}
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte("user alice\n role admin\n read "+os.TempDir()+"\n limits sessions=0 queries=0 probes=0 events=0 memory=0\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
	text, err := exec.Command(endoscoped, "token", "add", "alice", "--config", dir).Output()
	if err != nil {
		n.t.Fatal(err)
	}
	token = filepath.Join(dir, "alice.token")
	if err := os.WriteFile(token, text, 0o600); err != nil {
		n.t.Fatal(err)
	}
	return dir, token
}
