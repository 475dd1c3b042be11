package calibrate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"endoscope/probes/codesite"
)

var kinds = []string{"entry", "exit"}

func table(ns float64) Table {
	prices := map[string]float64{codesite.Emulated: ns, codesite.Nop: ns, codesite.Stepped: ns}
	return Table{"entry": prices, "exit": prices}
}

// A cached table is not measured again by any user of the directory.
func TestCacheKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b") // created on demand
	measured := 0
	get := func(kinds []string) Table {
		got, err := NewCache(dir).Table(kinds, func() (Table, error) {
			measured++
			return table(float64(100 * measured)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for range 3 {
		if diff := cmp.Diff(table(100), get(kinds)); diff != "" {
			t.Error(diff)
		}
	}
	if measured != 1 {
		t.Errorf("measured %d times", measured)
	}
	// Other kinds are not cached.
	get([]string{"entry", "return"})
	if measured != 2 {
		t.Errorf("measured %d times", measured)
	}
	if names, _ := filepath.Glob(dir + "/*"); len(names) != 1 || names[0] != NewCache(dir).Path() {
		t.Errorf("files %v, want %s", names, NewCache(dir).Path())
	}
}

// Nothing in place of the cache causes a failure or a wait, or is trusted.
func TestCacheIsNotTrusted(t *testing.T) {
	good := func(change func(*stored)) func(t *testing.T, c Cache) {
		return func(t *testing.T, c Cache) {
			s := stored{version, c.machine, table(100)}
			change(&s)
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			write(t, c, string(b))
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, c Cache)
		heals bool // it is replaced
	}{
		{"empty", func(t *testing.T, c Cache) { write(t, c, "") }, true},
		{"no JSON", func(t *testing.T, c Cache) { write(t, c, "\x00\xff{]") }, true},
		{"other JSON", func(t *testing.T, c Cache) { write(t, c, `[{"Prices": 3}]`) }, true},
		{"null", func(t *testing.T, c Cache) { write(t, c, "null") }, true},
		{"numbers without end", func(t *testing.T, c Cache) { write(t, c, strings.Repeat("1", maxCacheFile+1)) }, true},
		{"nested without end", func(t *testing.T, c Cache) { write(t, c, strings.Repeat(`{"Prices":`, 5000)) }, true},
		{"of another version", good(func(s *stored) { s.Version++ }), true},
		{"of another machine", good(func(s *stored) { s.Machine = "6.1\nAbacus" }), true},
		{"no prices", good(func(s *stored) { s.Prices = nil }), true},
		{"a price of nothing", good(func(s *stored) { s.Prices["exit"][codesite.Nop] = 0 }), true},
		{"a negative price", good(func(s *stored) { s.Prices["exit"][codesite.Nop] = -5 }), true},
		{"a price beyond all bounds", good(func(s *stored) { s.Prices["exit"][codesite.Nop] = 1e300 }), true},
		{"a link to a good file", func(t *testing.T, c Cache) {
			other := NewCache(t.TempDir())
			good(func(*stored) {})(t, other)
			if err := os.Symlink(other.Path(), c.Path()); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a pipe", func(t *testing.T, c Cache) {
			if err := unix.Mkfifo(c.Path(), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a directory", func(t *testing.T, c Cache) {
			if err := os.MkdirAll(filepath.Join(c.Path(), "full"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"no directory to write to", func(t *testing.T, c Cache) {
			if err := errors.Join(os.Remove(c.dir), os.WriteFile(c.dir, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := NewCache(filepath.Join(t.TempDir(), "cache"))
			if err := os.Mkdir(cache.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, cache)
			for try := range 2 {
				measured := false
				got, err := cache.Table(kinds, func() (Table, error) {
					measured = true
					return table(7), nil
				})
				if diff := cmp.Diff(table(7), got); diff != "" || err != nil {
					t.Errorf("%v\n%s", err, diff)
				}
				if want := try == 0 || !c.heals; measured != want {
					t.Errorf("time %d: measured %v, want %v", try+1, measured, want)
				}
			}
			if left, _ := filepath.Glob(cache.dir + "/*.tmp"); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// A disturbed measurement is used, and not kept.
func TestDisturbedIsNotKept(t *testing.T) {
	c, measured := NewCache(t.TempDir()), 0
	for _, nop := range []float64{1000, 100, 100} {
		got, err := c.Table(kinds, func() (Table, error) {
			measured++
			all := table(100)
			all["entry"][codesite.Nop] = nop
			return all, nil
		})
		if err != nil || got["entry"][codesite.Nop] != nop {
			t.Errorf("%v %v, want %g", got, err, nop)
		}
	}
	if measured != 2 {
		t.Errorf("measured %d times", measured)
	}
}

func write(t *testing.T, c Cache, content string) {
	t.Helper()
	if err := os.WriteFile(c.Path(), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Without a directory everything is measured; failures are not cached.
func TestNoCache(t *testing.T) {
	got, err := Cache{}.Table(kinds, func() (Table, error) { return table(1), nil })
	if diff := cmp.Diff(table(1), got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	c := NewCache(t.TempDir())
	refused := errors.New("refused")
	if _, err := c.Table(kinds, func() (Table, error) { return nil, refused }); err != refused {
		t.Error(err)
	}
	if names, _ := filepath.Glob(c.dir + "/*"); len(names) > 0 {
		t.Errorf("kept %v", names)
	}
}

// Concurrent writers always leave a complete file.
func TestCacheOfMany(t *testing.T) {
	c := NewCache(t.TempDir())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				if err := c.write(table(float64(i + 1))); err != nil {
					t.Error(err)
				}
				if _, ok := c.read(kinds); !ok {
					t.Error("what was read is not whole")
				}
			}
		})
	}
	all.Wait()
}

func TestMachine(t *testing.T) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	if got := NewCache("/c").Path(); !strings.HasPrefix(got, "/c/probe-prices-"+notInNames.ReplaceAllString(release, "_")+"-") {
		t.Errorf("file %s", got)
	}
	odd := Cache{dir: "/c", machine: "../../6.1 evil\x00\nprocessor"}
	if got := odd.Path(); filepath.Dir(got) != "/c" || strings.ContainsAny(got, " \x00") {
		t.Errorf("file %q", got)
	}
}
