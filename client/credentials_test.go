package client

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	grpccreds "google.golang.org/grpc/credentials"

	"endoscope/client/remote"
	"endoscope/server/access"
)

func TestCredentials(t *testing.T) {
	t.Setenv("ENDOSCOPE_TOKEN", "")
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := file("mine", "endoscope_abc\n")
	of := func(c credentials, addr string) remote.Options {
		t.Helper()
		o, err := c.options(addr, dir)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, addr := range []string{"unix:/run/s", "/run/s", "127.0.0.1:7", "[::1]:7", "localhost:7"} {
		if o := of(credentials{}, addr); o.TLS != nil {
			t.Errorf("%s is encrypted, and there are no certificates", addr)
		}
	}
	for _, addr := range []string{"127.0.0.1:7", "localhost:7"} {
		if _, err := (credentials{token: token}).options(addr, dir); err == nil || !strings.Contains(err.Error(), "unencrypted") {
			t.Errorf("%s: a token: %v", addr, err)
		}
		if o := of(credentials{token: token, insecure: true}, addr); o.Token == "" || !o.Insecure {
			t.Errorf("%s: --insecure: %+v", addr, o)
		}
	}
	if o := of(credentials{token: token}, "/run/s"); o.TLS != nil || o.Token == "" {
		t.Errorf("a token over a socket: %+v", o)
	}
	for _, addr := range []string{"db1:7", "10.0.0.1:7", "localhost.example:7", "[fe80::1]:7", "127.0.0.1.example:7"} {
		if o := of(credentials{token: token}, addr); o.TLS == nil || o.Token != "endoscope_abc" {
			t.Errorf("%s: %+v", addr, o)
		}
	}
	if o := of(credentials{insecure: true, token: token}, "db1:7"); o.TLS != nil || o.Token != "endoscope_abc" {
		t.Errorf("--insecure: %+v", o)
	}
	t.Setenv("ENDOSCOPE_TOKEN", "endoscope_env")
	if o := of(credentials{}, "db1:7"); o.Token != "endoscope_env" {
		t.Errorf("from the environment: %+v", o)
	}
	if o := of(credentials{token: token}, "db1:7"); o.Token != "endoscope_abc" {
		t.Errorf("a file before the environment: %+v", o)
	}
	t.Setenv("ENDOSCOPE_TOKEN", "")
	file("token", "endoscope_usual")
	if o := of(credentials{}, "db1:7"); o.Token != "endoscope_usual" {
		t.Errorf("from the usual place: %+v", o)
	}
	if o := of(credentials{}, "127.0.0.1:7"); o.Token != "" {
		t.Errorf("unencrypted, the usual token is sent: %+v", o)
	}
	installed := configuredClient(t)
	for addr, encrypted := range map[string]bool{"127.0.0.1:7": true, "localhost:7": true, "/run/s": false} {
		o, err := credentials{}.options(addr, installed)
		if err != nil || (o.TLS != nil) != encrypted || o.Token != "endoscope_abc" {
			t.Errorf("with ca.pem: %s: %+v, %v", addr, o, err)
		}
	}
	two, empty := file("two", "endoscope_abc\nendoscope_def\n"), file("empty", "\n")
	for c, want := range map[credentials]string{
		{ca: "/nowhere"}:            "--ca: open /nowhere: no such file",
		{ca: token}:                 "contains no certificate",
		{cert: token}:               "cannot be used",
		{token: "/nowhere"}:         "--token-file: open /nowhere: no such file",
		{token: two}:                "contains more than a token",
		{token: empty}:              "is empty",
		{insecure: true, ca: token}: "exclude each other",
	} {
		if _, err := c.options("db1:7", dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := parseFlags([]string{"--ca", "x"}); err == nil || !strings.Contains(err.Error(), "need --connect") {
		t.Errorf("without --connect: %v", err)
	}
}

// configuredClient creates a user's directory with a CA and a token.
func configuredClient(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := access.Init(dir, []string{"localhost"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("endoscope_abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Mistakes in the command line end with exit code 2 and a hint.
func TestMistakesInConnections(t *testing.T) {
	t.Setenv("ENDOSCOPE_TOKEN", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	two := filepath.Join(t.TempDir(), "two")
	if err := os.WriteFile(two, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--connect 127.0.0.1", "HOST:PORT"},
		{"--connect http://127.0.0.1:7441", "HOST:PORT"},
		{"--connect http://db1", "HOST:PORT"},
		{"--connect db1:", "HOST:PORT"},
		{"--connect db1:7 --token x", "hint: --token-file FILE"},
		{"--connect db1:7 --ca /nowhere", "--ca: open /nowhere"},
		{"--connect db1:7 --token-file /nowhere", "--token-file: open /nowhere"},
		{"--connect db1:7 --token-file " + two, "more than a token"},
	} {
		var msg strings.Builder
		p := Program{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &msg}
		if code := p.Run(t.Context(), strings.Fields(c.args)); code != exitUsage || !strings.Contains(msg.String(), c.want) {
			t.Errorf("%s: exit code %d: %s", c.args, code, msg.String())
		}
	}
}

// If client and server disagree on encryption, the error says so.
func TestEncryptionThatDiffers(t *testing.T) {
	t.Setenv("ENDOSCOPE_TOKEN", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := configuredClient(t)
	conf, err := access.ServerTLS(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(creds grpc.ServerOption) string {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(creds)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l) }()
		t.Cleanup(func() { s.Stop(); <-ended })
		return l.Addr().String()
	}
	strict, err := access.ServerTLS(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	encrypted, plain := listen(grpc.Creds(grpccreds.NewTLS(conf))), listen(grpc.Creds(access.Plain()))
	_, port, _ := net.SplitHostPort(listen(grpc.Creds(grpccreds.NewTLS(strict))))
	ca := filepath.Join(dir, "ca.pem")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--connect", encrypted}, "the engine speaks TLS\nhint: --ca FILE"},
		{[]string{"--connect", plain, "--ca", ca}, "the engine does not speak TLS\nhint: --insecure"},
		{[]string{"--connect", encrypted, "--ca", ca}, "endoscoped init --host; add --host 127.0.0.1"},
		{[]string{"--connect", "localhost:" + port, "--ca", ca}, "certificate required\nhint: --cert FILE"},
	} {
		var msg strings.Builder
		p := Program{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &msg}
		if code := p.Run(t.Context(), c.args); code != exitFailed || !strings.Contains(msg.String(), c.want) {
			t.Errorf("%v: exit code %d: %s", c.args, code, msg.String())
		}
	}
}
