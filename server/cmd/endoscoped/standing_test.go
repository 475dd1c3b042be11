package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// A daemon that is killed between windows goes on with its standing query after its restart:
// each window is stored once.
func TestStandingQueryOutlivesItsDaemon(t *testing.T) {
	bin := testenv.Command(t, ".")
	nats, err := natsd.NewServer(&natsd.Options{ServerName: "test", Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	})
	testenv.Until(t, "the bus runs", func() bool { return nats.ReadyForConnections(time.Second) })
	dir, log := t.TempDir(), &testenv.Buffer{}
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, []byte("user fleet\n    role admin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(args ...string) *exec.Cmd {
		c := exec.Command(bin, append(args, "--fleet", nats.ClientURL(), "--access", users)...)
		c.Stderr = log
		c.WaitDelay = time.Second
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	end := func(c *exec.Cmd, with syscall.Signal) {
		_ = c.Process.Signal(with)
		_ = c.Wait()
	}
	host := start("--fleet-name", "h1")
	defer end(host, syscall.SIGTERM)
	keeper := start("--fleet-name", "k", "--standing", "--state", dir)
	defer func() { end(keeper, syscall.SIGTERM) }()
	e, err := root.Dial(t.Context(), root.Options{Bus: bus.Address{URL: nats.ClientURL()}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	testenv.UntilNil(t, "the hosts join", func() error { return e.Await(t.Context(), 2) })
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// read returns the window ends of so many rows.
	read := func(statement string) (ends []int64, err error) {
		r, err := s.Execute(t.Context(), statement)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		for {
			ev, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				return ends, nil
			}
			if err != nil {
				return nil, err
			}
			if ev.Batch != nil {
				for i := range ev.Batch.Len() {
					ends = append(ends, ev.Batch.Cols[0].Value(ev.Batch.Row(i)).I)
				}
				ev.Batch.Release()
			}
		}
	}
	create := func() error {
		_, err := read("CREATE QUERY w ON FLEET AS SELECT COUNT(*) AS n FROM SAMPLE(memory_usage, 50ms) EMIT EVERY 500ms")
		return err
	}
	testenv.UntilNil(t, "the daemon joins", create)
	if _, err := read("SELECT timestamp FROM w WHERE final LIMIT 3"); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	end(keeper, syscall.SIGKILL)
	keeper = start("--fleet-name", "k", "--standing", "--state", dir)
	var ends []int64
	testenv.UntilNil(t, "the query goes on", func() error {
		ends, err = read("SELECT timestamp FROM w WHERE final LIMIT 12")
		return err
	})
	for i := range ends {
		if i > 0 && ends[i] <= ends[i-1] {
			t.Errorf("the windows end at %v", ends)
		}
	}
}
