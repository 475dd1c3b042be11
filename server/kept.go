package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/server/grant"
	"endoscope/server/wire"
)

// kept are the definitions that outlive the engine: streams and triggers, a file
// each in Options.StateDir. What is restored is what the statement says, with the
// target and the settings that its session had. It is safe for concurrent use.
type kept struct {
	dir string // "": nothing is kept

	mu      sync.Mutex
	pending map[string]definition // read, and not restored yet; by file
}

// definition is what a file of a definition holds.
type definition struct {
	Kind      string    `json:"kind"` // stream, trigger
	Name      string    `json:"name"`
	Owner     string    `json:"owner,omitempty"`
	Statement string    `json:"statement"`
	Session   []string  `json:"session,omitempty"` // statements that make its session what it was
	Processes []pinned  `json:"processes,omitempty"`
	Boot      string    `json:"boot,omitempty"` // in which these processes ran
	Created   time.Time `json:"created"`
}

// pinned is a process that a definition means by its number. Once it has ended
// nothing else is meant.
type pinned struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

const keptSuffix = ".json"

func (d *definition) file() string {
	return d.Kind + "." + strings.ReplaceAll(url.PathEscape(d.Name), ".", "%2E") + keptSuffix
}

// openKept reads what a directory has. What cannot be read is told, and stays.
func openKept(dir string) (*kept, error) {
	k := &kept{dir: dir, pending: map[string]definition{}}
	if dir == "" {
		return k, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), keptSuffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var d definition
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s is no definition: %w", filepath.Join(dir, e.Name()), err)
		}
		if d.file() != e.Name() {
			return nil, fmt.Errorf("%s is of the %s %s", filepath.Join(dir, e.Name()), d.Kind, d.Name)
		}
		k.pending[e.Name()] = d
	}
	return k, nil
}

// save keeps a definition.
func (k *kept) save(d *definition) error {
	if k.dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := replaceFile(filepath.Join(k.dir, d.file()), text); err != nil {
		return fmt.Errorf("%s %s is not kept, and ends with the server: %w", d.Kind, d.Name, err)
	}
	delete(k.pending, d.file())
	return nil
}

// drop forgets a definition, and reports whether there was one that had not been
// restored.
func (k *kept) drop(kind, name string) (waited bool, err error) {
	if k.dir == "" {
		return false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	file := (&definition{Kind: kind, Name: name}).file()
	_, waited = k.pending[file]
	delete(k.pending, file)
	if err := os.Remove(filepath.Join(k.dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return waited, fmt.Errorf("%s %s will be there again after a restart: %w", kind, name, err)
	}
	return waited, nil
}

// ownerOf is whose a definition is that waits to be restored.
func (k *kept) ownerOf(kind, name string) (owner string, waits bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d, ok := k.pending[(&definition{Kind: kind, Name: name}).file()]
	return d.Owner, ok
}

// waiting are the definitions that were not restored yet, in the order in which
// they were made.
func (k *kept) waiting() []definition {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.pending), func(a, b definition) int { return a.Created.Compare(b.Created) })
}

func (k *kept) restored(d *definition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pending, d.file())
}

// keep has a definition of the session outlive the engine. An error is a notice:
// the definition is there all the same.
func (s *session) keep(kind, name, statement string, plans ...*plan.Query) error {
	if s.e.kept.dir == "" {
		return nil
	}
	d := &definition{Kind: kind, Name: name, Owner: s.may.Name(), Statement: statement, Created: time.Now().UTC()}
	s.mu.Lock()
	if use := useOf(s.target); use != "" && kind == "trigger" {
		d.Session = append(d.Session, use)
	}
	d.Session = append(d.Session, slices.Sorted(maps.Values(s.said))...)
	s.mu.Unlock()
	seen := map[int]bool{}
	for _, p := range plans {
		for _, leaf := range plan.Leaves(p.Root) {
			if leaf.Target.Command {
				return fmt.Errorf("trigger %s is about a program that this session has started, and does not outlive it", name)
			}
			for _, pid := range leaf.Target.PIDs {
				if ran, ok := process.Lookup(pid); ok && !seen[pid] {
					seen[pid] = true
					d.Processes, d.Boot = append(d.Processes, pinned{pid, ran.StartTime}), bootID()
				}
			}
		}
	}
	return s.e.kept.save(d)
}

// useOf is the statement that makes a target the session's.
func useOf(t plan.Target) string {
	switch {
	case t.Command:
		return ""
	case len(t.PIDs) > 0:
		return fmt.Sprintf("USE PID %d", t.PIDs[0])
	case len(t.Processes) > 0:
		return "USE '" + strings.ReplaceAll(t.Processes[0], "'", "''") + "'"
	case len(t.Exes) > 0:
		return "USE '" + strings.ReplaceAll(t.Exes[0], "'", "''") + "'"
	}
	return ""
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// errEnded is why a definition is not restored, ever.
var errEnded = errors.New("the process that it is about has ended")

// Unrestored is a definition that could not be made again.
type Unrestored struct {
	Kind, Name string
	Err        error
	Gone       bool // it is not tried again
}

// Restore makes the streams and triggers again that were kept, as far as they are
// not there yet. As is what their owner may do now; false if they have no access.
// It gives those that could not be made again: they may be later, as when their
// program runs again.
func (e *Engine) Restore(ctx context.Context, as func(owner string) (*grant.Grant, bool)) []Unrestored {
	var left []Unrestored
	for again := true; again; { // one may need another
		again, left = false, nil
		for _, d := range e.kept.waiting() {
			err := e.restore(ctx, &d, as)
			switch {
			case err == nil:
				e.kept.restored(&d)
				again = true
			case errors.Is(err, errEnded):
				_, _ = e.kept.drop(d.Kind, d.Name)
				left = append(left, Unrestored{d.Kind, d.Name, err, true})
			default:
				left = append(left, Unrestored{d.Kind, d.Name, err, false})
			}
		}
	}
	return left
}

func (e *Engine) restore(ctx context.Context, d *definition, as func(string) (*grant.Grant, bool)) error {
	for _, p := range d.Processes {
		now, ok := process.Lookup(p.PID)
		if !ok || now.StartTime != p.Start || d.Boot != bootID() {
			return errEnded
		}
	}
	may, ok := as(d.Owner)
	if !ok {
		return fmt.Errorf("%s has no access", d.Owner)
	}
	s, err := newSession(ctx, e, wire.Options{}, may)
	if err != nil {
		return err
	}
	defer s.Close() // the trigger goes on without it
	for _, statement := range append(slices.Clone(d.Session), d.Statement) {
		r, err := s.Execute(ctx, statement)
		if err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}
