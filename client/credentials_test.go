package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"endoscope/client/remote"
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
			t.Errorf("%s is encrypted, which no daemon there expects", addr)
		}
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
	for c, want := range map[credentials]string{
		{ca: "/nowhere"}:            "no such file",
		{ca: token}:                 "has no certificate",
		{cert: token}:               "cannot be used",
		{token: "/nowhere"}:         "no such file",
		{insecure: true, ca: token}: "exclude each other",
	} {
		if _, err := c.options("db1:7", dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := parseFlags([]string{"--ca", "x"}); err == nil || !strings.Contains(err.Error(), "for an engine elsewhere") {
		t.Errorf("without --connect: %v", err)
	}
}
