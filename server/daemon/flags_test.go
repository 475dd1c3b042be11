package daemon

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mistake in the command line is one line in the user's terms, with a hint where
// one helps, in the format of endoscope; the daemon does not start.
func TestMistakes(t *testing.T) {
	const help = "hint: endoscoped --help lists the flags\n"
	const token = "hint: endoscoped token add USER [--expires 90d] | list | revoke ID\n"
	const enroll = "hint: endoscoped enroll NAME [--role host|author|reducer] [--label KEY=VALUE ...] [--expires 90d] [--replace] [--fleet URL --creds FILE]\n"
	for _, c := range []struct{ line, want string }{
		{"--nope", "error: there is no flag --nope\n" + help},
		{"-nope=3", "error: there is no flag --nope\n" + help},
		{"--listen", "error: --listen needs a value (HOST:PORT)\n" + help},
		{"--listen=", "error: --listen needs a value (HOST:PORT)\n" + help},
		{"--listen :0 --client-timeout soon", "error: --client-timeout takes a duration, not \"soon\"\nhint: --client-timeout 10s\n"},
		{"--listen :0 --client-timeout 1ms", "error: --client-timeout must be at least 1s\nhint: --client-timeout 10s\n"},
		{"--insecure=maybe", "error: --insecure takes no value\n"},
		{"", "error: --listen, --unix, --web or --fleet is required\nhint: endoscoped --listen HOST:PORT, or endoscoped --unix PATH\n"},
		{"tokn list", "error: unexpected argument \"list\"\nhint: endoscoped --help lists the arguments\n"},
		{"tokn", "error: unexpected argument \"tokn\"\nhint: did you mean token?\n"},
		{"token", "error: endoscoped token needs add, list or revoke\n" + token},
		{"token ad", "error: unexpected argument \"ad\"\n" + token},
		{"token add", "error: endoscoped token add needs a USER\n" + token},
		{"token list x", "error: unexpected argument \"x\"\n" + token},
		{"token add x --nope", "error: there is no flag --nope\nhint: endoscoped token --help lists the flags\n"},
		{"cert", "error: endoscoped cert needs a USER\nhint: endoscoped cert USER [--expires 12h] [--replace]\n"},
		{"cert a b", "error: unexpected argument \"b\"\nhint: endoscoped cert --help lists the arguments\n"},
		{"enroll", "error: endoscoped enroll needs a NAME\n" + enroll},
		{"enroll a --role boss", "error: --role: \"boss\" is not a role: host, author or reducer\nhint: --role host\n"},
		{"enroll a --label rack", "error: --label takes each key once, as KEY=VALUE, not \"rack\"\nhint: --label rack=r1\n"},
		{"enroll a --label rack=1 --label rack=2", "error: --label takes each key once, as KEY=VALUE, not \"rack=2\"\nhint: --label rack=r1\n"},
		{"revoke ab --valid soon", "error: --valid takes 12h or 90d, not \"soon\"\n"},
		{"--reduce", "error: --creds, --fleet-name, --label, --standing and --reduce need --fleet\nhint: endoscoped --fleet nats://HOST:4222\n"},
		{"--unix s --reduce", "error: --reduce: a reducer executes no statements, and has no --listen, --unix, --web or --metrics\nhint: two programs, of which one has --reduce\n"},
		{"--fleet nats://bus:4222 --reduce --standing --state s", "error: --reduce: a reducer is no host, and keeps no standing queries\nhint: two programs, of which one has --reduce\n"},
		{"--fleet nats://bus:4222 --shards 2", "error: --shards needs --reduce\nhint: endoscoped --fleet nats://HOST:4222 --reduce\n"},
		{"--fleet nats://bus:4222 --reduce --shards 1000", "error: --shards must be 1 to 256\nhint: --shards 4\n"},
		{"--unix s --standing", "error: --creds, --fleet-name, --label, --standing and --reduce need --fleet\nhint: endoscoped --fleet nats://HOST:4222\n"},
		{"--fleet nats://bus:4222 --standing", "error: --standing needs --state: results are kept there\nhint: --state /var/lib/endoscope\n"},
		{"--fleet http://bus", "error: --fleet: \"http://bus\" is not the URL of a NATS server\nhint: --fleet nats://HOST:4222\n"},
		{"revoke ab --fleet nats://bus:4222", "error: --fleet and --creds need each other\nhint: endoscoped revoke [SERIAL ...] [--valid 30d] [--fleet URL --creds FILE]\n"},
		{"init --host", "error: --host needs a value (NAME)\nhint: endoscoped init --help lists the flags\n"},
	} {
		var out, msg bytes.Buffer
		if code := (Program{Stdout: &out, Stderr: &msg}).Run(t.Context(), strings.Fields(c.line)); code != exitUsage || msg.String() != c.want || out.Len() > 0 {
			t.Errorf("%s: exit code %d, output %q: %s", c.line, code, out.String(), msg.String())
		}
	}
}

// A reason for which the daemon cannot start is reported as a mistake, with the flag
// that caused it, and everything that was opened is closed.
func TestCannotBegin(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.Addr().String()
	for _, c := range []struct{ line, want string }{
		{"--listen " + busy, "--listen " + busy + ": address already in use"},
		{"--listen 127.0.0.1", "--listen 127.0.0.1: missing port in address"},
		{"--listen 127.0.0.1:99999", "--listen 127.0.0.1:99999: invalid port"},
		{"--unix " + at("none/s"), "--unix " + at("none/s") + ": no such file or directory"},
		{"--unix " + at("file"), "--unix " + at("file") + ": it exists and is not a socket"},
		{"--unix " + at("s") + " --group no-such-group", "--group no-such-group: no such group"},
		{"--unix " + at("s") + " --state " + at("file"), "--state " + at("file") + ": not a directory"},
		{"--unix " + at("s") + " --audit " + dir, "--audit " + dir + ": is a directory"},
		{"--unix " + at("s") + " --access " + at("none"), "--access " + at("none") + ": no such file or directory"},
		{"--unix " + at("s") + " --metrics " + busy, "--metrics " + busy + ": address already in use"},
		{"--listen 0.0.0.0:0", "[::]:"},
		{"--unix " + at("s") + " --config " + at("file"), "--config " + at("file") + ": not a directory"},
	} {
		var out, msg bytes.Buffer
		code := (Program{Stdout: &out, Stderr: &msg}).Run(t.Context(), append([]string{"--config", at("config")}, strings.Fields(c.line)...))
		if code != exitFailed || !strings.HasPrefix(msg.String(), "error: "+c.want) || strings.Count(msg.String(), "\n") != 1 || out.Len() > 0 {
			t.Errorf("%s: exit code %d, output %q: %s", c.line, code, out.String(), msg.String())
		}
		if _, err := os.Lstat(at("s")); err == nil {
			t.Errorf("%s: the socket is left", c.line)
		}
	}
}

// A certificate or token for a user without an entry causes a notice.
func TestNoEntryYet(t *testing.T) {
	dir := t.TempDir()
	run := func(line string) string {
		var msg bytes.Buffer
		if code := (Program{Stdout: io.Discard, Stderr: &msg}).Run(t.Context(), append(strings.Fields(line), "--config", dir)); code != exitDone {
			t.Errorf("%s: exit code %d: %s", line, code, msg.String())
		}
		return msg.String()
	}
	said := func(name string) string {
		return "notice: " + name + " has no access until " + filepath.Join(dir, "users") + " has an entry for that user\n"
	}
	if got := run("init --host localhost --client alice"); got != said("alice") {
		t.Errorf("init: %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte("user alice\n    role trace\nuser carol\n    role trace\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{"cert bob": said("bob"), "cert carol": "", "token add bob": said("bob"), "token add alice": ""} {
		if got := run(line); strings.Contains(got, "notice:") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// Help that was requested goes to standard output.
func TestHelp(t *testing.T) {
	for line, want := range map[string]string{
		"--help":              "  --listen HOST:PORT\n",
		"-h":                  "\n        end the queries of clients that do not respond for this long (default 10s)\n",
		"--listen :0 --help":  "  --insecure\n",
		"token --help":        "usage: endoscoped token add USER [--expires 90d] | list | revoke ID\n",
		"cert alice --help":   "  --config DIRECTORY\n",
		"init --host a -help": "  --client USER\n",
	} {
		var out, msg bytes.Buffer
		if code := (Program{Stdout: &out, Stderr: &msg}).Run(t.Context(), strings.Fields(line)); code != exitDone || msg.Len() > 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d, %s\noutput %s", line, code, msg.String(), out.String())
		}
	}
}
