package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/server"
	"endoscope/server/access"
)

// state is the directory of data that outlives the daemon. It is locked by one daemon
// at a time. The zero value is no directory.
type state struct {
	dir  string
	lock *os.File
}

func (c *config) openState() (*state, error) {
	s := &state{dir: c.state}
	if s.dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, cannot("--state", s.dir, err)
	}
	var err error
	if s.lock, err = os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, cannot("--state", s.dir, err)
	}
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		s.close()
		if err != unix.EWOULDBLOCK {
			return nil, cannot("--state", s.dir, err)
		}
		return nil, cannot("--state", s.dir, errors.New("another daemon uses it"))
	}
	return s, nil
}

func (s *state) close() {
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

func (s *state) options() server.Options {
	if s.dir == "" {
		return server.Options{}
	}
	return server.Options{ModelDir: filepath.Join(s.dir, "models"), StateDir: filepath.Join(s.dir, "definitions")}
}

// retryEvery is the interval between attempts to restore definitions whose target is
// not running yet.
const retryEvery = 10 * time.Second

// restore restores the saved definitions, and retries those whose targets are not
// running, until stop is called.
func (s *state) restore(ctx context.Context, e Engine, g *access.Guard, log *slog.Logger) (stop func()) {
	if s.dir == "" {
		return func() {}
	}
	logged := map[string]bool{}
	again := func(ctx context.Context) (waiting bool) {
		for _, u := range e.Restore(ctx, g.GrantOf) {
			waiting = waiting || !u.Gone
			if line := u.Kind + u.Name + u.Err.Error(); !logged[line] {
				logged[line] = true
				log.Warn("not restored", u.Kind, u.Name, "error", u.Err, "tried again", !u.Gone)
			}
		}
		return waiting
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	waiting := again(ctx)
	go func() {
		defer close(done)
		tick := time.NewTicker(retryEvery)
		defer tick.Stop()
		for waiting {
			select {
			case <-tick.C:
				waiting = again(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
