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
	"syscall"
	"time"

	"endoscope/operators/encoders/structure"
	"endoscope/planner/definitions"
	"endoscope/planner/types"
)

// Models holds the models created by CREATE MODEL, by qualified name. Each is a file, which
// outlives the engine; if the file cannot be written the model lives as long as
// the engine. It is safe for concurrent use.
type Models struct {
	Dir  string // "": no directory
	read func(path string) (*Model, error)

	// writing is held while a model is created or dropped, with its file. It is
	// taken before mu, under which no file is read or written.
	writing sync.Mutex

	mu        sync.Mutex               // guards the following
	known     map[string]*Model        // models in memory; those of files once they were used
	loading   map[string]*modelFile    // files being read into known
	summaries map[string]*modelSummary // of models that were only listed
}

// modelFile is a file that is being read.
type modelFile struct {
	read  chan struct{} // closed when the other fields are set
	model *Model
	err   error
}

// modelSummary is a row of SHOW MODELS.
type modelSummary struct {
	Kind, Size         string
	Sequences, Symbols int64
	Created            time.Time
	Definition, Owner  string

	modified time.Time // modification time of the file that was summarized
	bytes    int64
}

// Model is the contents of a model's file.
type Model struct {
	Name       string           `json:"name"`
	Definition string           `json:"definition"`      // the CREATE MODEL statement
	Owner      string           `json:"owner,omitempty"` // on a server, the user who owns it
	Created    time.Time        `json:"created"`
	Model      *structure.Model `json:"model"`
}

func (k *Model) key() string { return definitions.Qualify(k.Owner, k.Name) }

func NewModels(dir string) *Models {
	if dir == "" {
		dir = modelDirectory()
	} else {
		qualifyModels(dir)
	}
	return &Models{Dir: dir, read: readModel, known: map[string]*Model{}, loading: map[string]*modelFile{}, summaries: map[string]*modelSummary{}}
}

// modelDirectory returns the directory for persistent program state of the
// user, by the XDG base directory specification; "" if the user has no home.
func modelDirectory() string {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as the specification requires
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "endoscope", "models")
}

const modelSuffix = ".json"

// path returns the file of a model. Any name can be encoded as a file name.
func (m *Models) path(name string) string {
	return filepath.Join(m.Dir, escape(name)+modelSuffix)
}

// qualifyModels renames the files of a server's models from before owners had names of
// their own. One that cannot be read or renamed stays, and is reported when it is used.
func qualifyModels(dir string) {
	entries, _ := os.ReadDir(dir) // empty if the directory does not exist
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), modelSuffix)
		if !ok || strings.Contains(base, "%2E") {
			continue
		}
		if k, err := readHeader(filepath.Join(dir, e.Name())); err == nil && k.Owner != "" && escape(k.Name) == base {
			_ = os.Rename(filepath.Join(dir, e.Name()), filepath.Join(dir, escape(k.key())+modelSuffix))
		}
	}
}

// readHeader reads what a file says before the model itself.
func readHeader(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var k Model
	d := json.NewDecoder(f)
	if _, err := d.Token(); err != nil { // {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		into := map[any]any{"name": &k.Name, "definition": &k.Definition, "owner": &k.Owner, "created": &k.Created}[key]
		if into == nil {
			break
		}
		if err := d.Decode(into); err != nil {
			return nil, err
		}
	}
	return &k, nil
}

// mostModelBytes is the maximum size of a model's file.
const mostModelBytes = 1 << 30

// Get returns the model of that name, or nil. Its file is read once. Loading
// one model does not block lookups of others.
func (m *Models) Get(name string) (*Model, error) {
	m.mu.Lock()
	if k := m.known[name]; k != nil || m.Dir == "" {
		m.mu.Unlock()
		return k, nil
	}
	f := m.loading[name]
	if f != nil {
		m.mu.Unlock()
		<-f.read
		return f.model, f.err
	}
	f = &modelFile{read: make(chan struct{})}
	m.loading[name] = f
	m.mu.Unlock()
	f.model, f.err = m.load(name)
	m.mu.Lock()
	if m.loading[name] == f { // otherwise it was created or dropped meanwhile
		delete(m.loading, name)
		if f.model != nil {
			m.known[name] = f.model
		}
	}
	m.mu.Unlock()
	close(f.read)
	return f.model, f.err
}

// load reads the file of a model; nil: there is none.
func (m *Models) load(name string) (*Model, error) {
	k, err := m.read(m.path(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err == nil && k.key() != name {
		err = fmt.Errorf("%s is of model %s", m.path(name), k.key())
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Summary returns the summary of a model; nil: there is none. For a file that
// was not used so far, only the summary stays in memory.
func (m *Models) Summary(name string) (*modelSummary, error) {
	m.mu.Lock()
	k, old := m.known[name], m.summaries[name]
	m.mu.Unlock()
	if k != nil {
		return summarise(k), nil
	}
	info, err := os.Stat(m.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && old != nil && old.modified.Equal(info.ModTime()) && old.bytes == info.Size() {
		return old, nil
	}
	k, err = m.load(name)
	if k == nil || err != nil {
		return nil, err
	}
	s := summarise(k)
	if info != nil {
		s.modified, s.bytes = info.ModTime(), info.Size()
		m.mu.Lock()
		m.summaries[name] = s
		m.mu.Unlock()
	}
	return s, nil
}

func summarise(k *Model) *modelSummary {
	of := k.Model.Encoding().Of()
	return &modelSummary{Kind: k.Model.Kind(), Size: k.Model.Size(), Sequences: int64(of.Sequences), Symbols: of.Symbols, Created: k.Created, Definition: k.Definition, Owner: k.Owner}
}

func readModel(path string) (*Model, error) {
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
	var k Model
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if k.Model == nil {
		return nil, fmt.Errorf("%s is no model", path)
	}
	return &k, nil
}

// Put stores a model. If replace is false and a model has that name, it returns
// false. unsaved is the reason why there is no file; the model is stored in
// memory all the same.
func (m *Models) Put(k *Model, replace bool) (ok bool, unsaved error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	if !replace && m.has(k.key()) {
		return false, nil
	}
	m.settle(k.key(), k)
	return true, m.save(k)
}

// settle sets the model of a name; nil: unknown.
func (m *Models) settle(name string, k *Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, name)
	delete(m.loading, name)
	delete(m.summaries, name)
	if k != nil {
		m.known[name] = k
	}
}

// has reports whether a model has that name. The caller holds m.writing.
func (m *Models) has(name string) bool {
	m.mu.Lock()
	known := m.known[name] != nil
	m.mu.Unlock()
	if known {
		return true
	}
	if m.Dir == "" {
		return false
	}
	_, err := os.Lstat(m.path(name))
	return err == nil
}

// save writes a model's file.
func (m *Models) save(k *Model) error {
	if m.Dir == "" {
		return errors.New("there is no home directory")
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return err
	}
	return replaceFile(m.path(k.key()), data)
}

// replaceFile writes a file atomically.
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

// Drop deletes a model and its file, and reports whether there was one.
func (m *Models) Drop(name string) (bool, error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	if !m.has(name) {
		return false, nil
	}
	if m.Dir != "" {
		if err := os.Remove(m.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, err
		}
	}
	m.settle(name, nil)
	return true, nil
}

// ModelNames implements planner.Models.
func (m *Models) ModelNames() []string {
	m.mu.Lock()
	names := slices.Collect(maps.Keys(m.known))
	m.mu.Unlock()
	if m.Dir != "" {
		entries, _ := os.ReadDir(m.Dir) // empty if the directory does not exist
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
func (m *Models) Model(name string) (v types.Value, found bool, err error) {
	k, err := m.Get(name)
	if err != nil || k == nil {
		return v, err != nil, err
	}
	return types.Value{Type: types.Encoding, A: k.Model}, true, nil
}
