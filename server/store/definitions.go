package store

import (
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
)

// Definitions are the definitions that outlive the engine: streams and triggers, a file
// each in Options.StateDir. What is restored is what the statement says, with the
// target and the settings that its session had. It is safe for concurrent use.
type Definitions struct {
	Dir string // "": nothing is kept

	mu      sync.Mutex
	pending map[string]Definition // read, and not restored yet; by file
}

// Definition is what a file of a definition holds.
type Definition struct {
	Kind      string    `json:"kind"` // stream, trigger
	Name      string    `json:"name"`
	Owner     string    `json:"owner,omitempty"`
	Statement string    `json:"statement"`
	Session   []string  `json:"session,omitempty"` // statements that make its session what it was
	Processes []Process `json:"processes,omitempty"`
	Boot      string    `json:"boot,omitempty"` // in which these processes ran
	Created   time.Time `json:"created"`
}

// Process is a process that a definition means by its number. Once it has ended
// nothing else is meant.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

const definitionSuffix = ".json"

func (d *Definition) file() string {
	return d.Kind + "." + strings.ReplaceAll(url.PathEscape(d.Name), ".", "%2E") + definitionSuffix
}

// OpenDefinitions reads what a directory has. What cannot be read is told, and stays.
func OpenDefinitions(dir string) (*Definitions, error) {
	k := &Definitions{Dir: dir, pending: map[string]Definition{}}
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
		if !strings.HasSuffix(e.Name(), definitionSuffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var d Definition
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

// Save keeps a definition.
func (k *Definitions) Save(d *Definition) error {
	if k.Dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := replaceFile(filepath.Join(k.Dir, d.file()), text); err != nil {
		return fmt.Errorf("%s %s is not kept, and ends with the server: %w", d.Kind, d.Name, err)
	}
	delete(k.pending, d.file())
	return nil
}

// Drop forgets a definition, and reports whether there was one that had not been
// restored.
func (k *Definitions) Drop(kind, name string) (waited bool, err error) {
	if k.Dir == "" {
		return false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	file := (&Definition{Kind: kind, Name: name}).file()
	_, waited = k.pending[file]
	delete(k.pending, file)
	if err := os.Remove(filepath.Join(k.Dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return waited, fmt.Errorf("%s %s will be there again after a restart: %w", kind, name, err)
	}
	return waited, nil
}

// Owner is whose a definition is that waits to be restored.
func (k *Definitions) Owner(kind, name string) (owner string, waits bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d, ok := k.pending[(&Definition{Kind: kind, Name: name}).file()]
	return d.Owner, ok
}

// Pending are the definitions that were not restored yet, in the order in which
// they were made.
func (k *Definitions) Pending() []Definition {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.pending), func(a, b Definition) int { return a.Created.Compare(b.Created) })
}

func (k *Definitions) Restored(d *Definition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pending, d.file())
}
