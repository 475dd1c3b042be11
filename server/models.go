package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"endoscope/operators/batch"
	"endoscope/operators/encoders"
)

// models are those that CREATE MODEL made. Each is a file, which outlives the
// engine; where it cannot be written the model lives as long as the engine.
// It is safe for concurrent use.
type models struct {
	dir string // "": there is none

	mu    sync.Mutex
	known map[string]*model // those of files once they were needed
}

// model is what a file of a model holds.
type model struct {
	Name       string          `json:"name"`
	Definition string          `json:"definition"`      // the CREATE MODEL statement
	Owner      string          `json:"owner,omitempty"` // of a server's: whose it is
	Created    time.Time       `json:"created"`
	Model      *encoders.Model `json:"model"`
}

func newModels(dir string) *models {
	if dir == "" {
		dir = modelDirectory()
	}
	return &models{dir: dir, known: map[string]*model{}}
}

// modelDirectory is where the user's programs keep what should stay, by the XDG
// base directory specification; "" if the user has no home.
func modelDirectory() string {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as the specification asks for
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "endoscope", "models")
}

const modelSuffix = ".json"

// path is the file of a model. Any name can be that of a file.
func (m *models) path(name string) string {
	return filepath.Join(m.dir, strings.ReplaceAll(url.PathEscape(name), ".", "%2E")+modelSuffix)
}

// mostModelBytes bounds what is read of a model's file.
const mostModelBytes = 1 << 30

// get is the model of that name, or nil.
func (m *models) get(name string) (*model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.known[name]; k != nil || m.dir == "" {
		return k, nil
	}
	k, err := read(m.path(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err == nil && k.Name != name {
		err = fmt.Errorf("%s is of model %s", m.path(name), k.Name)
	}
	if err != nil {
		return nil, err
	}
	m.known[name] = k
	return k, nil
}

func read(path string) (*model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > mostModelBytes || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no model", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var k model
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if k.Model == nil {
		return nil, fmt.Errorf("%s is no model", path)
	}
	return &k, nil
}

// put keeps a model. Without replace it is refused, by false, if there is one
// of that name. An error says why it is not in a file; it is kept all the same.
func (m *models) put(k *model, replace bool) (ok bool, unsaved error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !replace && m.has(k.Name) {
		return false, nil
	}
	m.known[k.Name] = k
	return true, m.save(k)
}

// has reports whether there is a model of that name; m.mu is held.
func (m *models) has(name string) bool {
	if m.known[name] != nil {
		return true
	}
	if m.dir == "" {
		return false
	}
	_, err := os.Lstat(m.path(name))
	return err == nil
}

// save writes a model's file.
func (m *models) save(k *model) error {
	if m.dir == "" {
		return errors.New("there is no home directory")
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	return replaceFile(m.path(k.Name), data)
}

// replaceFile writes a file so that there is never half of one.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// drop forgets a model and its file, and reports whether there was one.
func (m *models) drop(name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.has(name) {
		return false, nil
	}
	if m.dir != "" {
		if err := os.Remove(m.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	delete(m.known, name)
	return true, nil
}

// ModelNames implements planner.Models.
func (m *models) ModelNames() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.known {
		names = append(names, name)
	}
	if m.dir != "" {
		entries, _ := os.ReadDir(m.dir) // none if it is not there
		for _, e := range entries {
			base, ok := strings.CutSuffix(e.Name(), modelSuffix)
			if name, err := url.PathUnescape(base); ok && err == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Model implements planner.Models.
func (m *models) Model(name string) (v batch.Value, found bool, err error) {
	k, err := m.get(name)
	if err != nil || k == nil {
		return v, err != nil, err
	}
	return batch.Value{Type: batch.Encoding, A: k.Model}, true, nil
}
