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

	"endoscope/planner/definitions"
)

// Definitions stores the definitions that outlive the engine: streams, contexts, triggers and
// exports, one file each in Options.StateDir. A definition is restored from
// its statement, with the target and the settings of its session. It is safe
// for concurrent use.
type Definitions struct {
	Dir string // "": nothing is stored

	mu      sync.Mutex
	pending map[string]Definition // read, but not restored yet; by file
}

// Definition is the contents of a definition's file.
type Definition struct {
	Kind      string    `json:"kind"` // stream, context, trigger, export
	Name      string    `json:"name"`
	Owner     string    `json:"owner,omitempty"`
	Statement string    `json:"statement"`
	Session   []string  `json:"session,omitempty"` // statements that restore its session's target and settings
	Processes []Process `json:"processes,omitempty"`
	Boot      string    `json:"boot,omitempty"` // id of the boot during which the processes ran
	Created   time.Time `json:"created"`
}

// Process is a process to which a definition refers by its id. After it has
// exited the definition refers to no other process.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

const definitionSuffix = ".json"

func (d *Definition) file() string {
	return definitionFile(d.Kind, definitions.Qualify(d.Owner, d.Name))
}

func definitionFile(kind, key string) string { return kind + "." + escape(key) + definitionSuffix }

// escape returns a qualified name as a part of a file name.
func escape(key string) string { return strings.ReplaceAll(url.PathEscape(key), ".", "%2E") }

// OpenDefinitions reads a directory. Unreadable files are reported, and not
// deleted.
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
		if err := k.rename(e.Name(), &d); err != nil {
			return nil, err
		}
		k.pending[d.file()] = d
	}
	return k, nil
}

// rename renames a file from before owners had names of their own.
func (k *Definitions) rename(file string, d *Definition) error {
	if file == d.file() {
		return nil
	}
	if file != definitionFile(d.Kind, d.Name) {
		return fmt.Errorf("%s is of the %s %s", filepath.Join(k.Dir, file), d.Kind, definitions.Qualify(d.Owner, d.Name))
	}
	return os.Rename(filepath.Join(k.Dir, file), filepath.Join(k.Dir, d.file()))
}

// Save stores a definition.
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
		return fmt.Errorf("%s %s is not saved, and will be lost when the server stops: %w", d.Kind, d.Name, err)
	}
	delete(k.pending, d.file())
	return nil
}

// Drop deletes a definition by its qualified name, and reports whether there was one
// that had not been restored.
func (k *Definitions) Drop(kind, key string) (waited bool, err error) {
	if k.Dir == "" {
		return false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	file := definitionFile(kind, key)
	_, waited = k.pending[file]
	delete(k.pending, file)
	if err := os.Remove(filepath.Join(k.Dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return waited, fmt.Errorf("%s %s is dropped, but will be restored at the next start: %w", kind, key, err)
	}
	return waited, nil
}

// Waits reports whether the definition of a qualified name was not restored yet.
func (k *Definitions) Waits(kind, key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.pending[definitionFile(kind, key)]
	return ok
}

// Pending returns the definitions that were not restored yet, in the order of
// their creation.
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
