package server

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"endoscope/server/wire"
)

// While a file is read that takes long, other models can be got, made, dropped and
// listed; and what is dropped meanwhile does not come back.
func TestModelsDoNotWaitForAFile(t *testing.T) {
	dir := t.TempDir()
	e, err := New(Options{ModelDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"fast", "slow"} {
		r, err := s.Execute(t.Context(), "CREATE MODEL "+name+" AS SELECT AUTOMATON(n % 3) FROM series(9)")
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = r.Next(context.Background())
		}
	}
	m := newModels(dir) // which knows none of them yet
	slow, begun, goOn := m.path("slow"), make(chan bool), make(chan bool)
	var reads atomic.Int64
	m.read = func(path string) (*model, error) {
		k, err := readModel(path)
		if path == slow && reads.Add(1) == 1 {
			begun <- true
			<-goOn
		}
		return k, err
	}
	got := make(chan *model, 2)
	get := func() {
		k, err := m.get("slow")
		if err != nil {
			t.Error(err)
		}
		got <- k
	}
	go get()
	<-begun
	go get()
	if k, err := m.get("fast"); k == nil || err != nil {
		t.Fatalf("fast: %v, %v", k, err)
	}
	fast, _ := m.get("fast")
	other := *fast
	other.Name = "other"
	if ok, err := m.put(&other, false); !ok || err != nil {
		t.Fatalf("other was not kept: %v, %v", ok, err)
	}
	if sum, err := m.summary("other"); err != nil || sum.kind != "automaton" {
		t.Errorf("other is %+v: %v", sum, err)
	}
	if names := m.ModelNames(); len(names) != 3 {
		t.Errorf("there are %q", names)
	}
	if found, err := m.drop("slow"); !found || err != nil {
		t.Fatalf("slow was not dropped: %v, %v", found, err)
	}
	close(goOn)
	for range 2 {
		select {
		case k := <-got:
			if k != nil && k.Name != "slow" {
				t.Errorf("got %s", k.Name)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("nobody gets slow")
		}
	}
	if k, err := m.get("slow"); k != nil || err != nil {
		t.Errorf("slow is still there: %v, %v", k, err)
	}
}

// A file that was listed is not parsed again, unless it has changed; nor is it kept
// in memory.
func TestModelsAreListedOnce(t *testing.T) {
	dir := t.TempDir()
	e, err := New(Options{ModelDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := e.NewSession(t.Context(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create := func(statement string) {
		t.Helper()
		r, err := s.Execute(t.Context(), statement)
		for err == nil {
			_, err = r.Next(context.Background())
		}
	}
	create("CREATE MODEL m AS SELECT AUTOMATON(n % 3) FROM series(9)")
	m, reads := newModels(dir), 0
	m.read = func(path string) (*model, error) {
		reads++
		return readModel(path)
	}
	symbols := func() int64 {
		t.Helper()
		k, err := m.summary("m")
		if err != nil {
			t.Fatal(err)
		}
		return k.symbols
	}
	for range 3 {
		if n := symbols(); n != 9 {
			t.Errorf("it has %d symbols", n)
		}
	}
	if reads != 1 || len(m.known) > 0 {
		t.Errorf("read %d times, %d are kept", reads, len(m.known))
	}
	create("CREATE OR REPLACE MODEL m AS SELECT AUTOMATON(n % 3) FROM series(12)") // by another engine
	if n := symbols(); n != 12 || reads != 2 {
		t.Errorf("it has %d symbols after %d readings", n, reads)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("files %q", left)
	}
}
