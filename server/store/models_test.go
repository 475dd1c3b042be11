package store

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/structure"
)

// While a slow file is read, other models can be looked up, created, dropped
// and listed; and a model dropped meanwhile does not come back.
func TestModelsDoNotWaitForAFile(t *testing.T) {
	dir := t.TempDir()
	made := NewModels(dir)
	for _, name := range []string{"fast", "slow"} {
		if ok, err := made.Put(counter(t, name, 9), false); !ok || err != nil {
			t.Fatalf("%s was not kept: %v, %v", name, ok, err)
		}
	}
	m := NewModels(dir) // it has loaded none of them yet
	slow, begun, goOn := m.path("slow"), make(chan bool), make(chan bool)
	var reads atomic.Int64
	m.read = func(path string) (*Model, error) {
		k, err := readModel(path)
		if path == slow && reads.Add(1) == 1 {
			begun <- true
			<-goOn
		}
		return k, err
	}
	got := make(chan *Model, 2)
	get := func() {
		k, err := m.Get("slow")
		if err != nil {
			t.Error(err)
		}
		got <- k
	}
	go get()
	<-begun
	go get()
	if k, err := m.Get("fast"); k == nil || err != nil {
		t.Fatalf("fast: %v, %v", k, err)
	}
	fast, _ := m.Get("fast")
	other := *fast
	other.Name = "other"
	if ok, err := m.Put(&other, false); !ok || err != nil {
		t.Fatalf("other was not kept: %v, %v", ok, err)
	}
	if sum, err := m.Summary("other"); err != nil || sum.Kind != "automaton" {
		t.Errorf("other is %+v: %v", sum, err)
	}
	if names := m.ModelNames(); len(names) != 3 {
		t.Errorf("there are %q", names)
	}
	if found, err := m.Drop("slow"); !found || err != nil {
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
	if k, err := m.Get("slow"); k != nil || err != nil {
		t.Errorf("slow is still there: %v, %v", k, err)
	}
}

// A file that was listed is not parsed again, unless it has changed; nor does
// it stay in memory.
func TestModelsAreListedOnce(t *testing.T) {
	dir := t.TempDir()
	made := NewModels(dir)
	if ok, err := made.Put(counter(t, "m", 9), false); !ok || err != nil {
		t.Fatalf("m was not kept: %v, %v", ok, err)
	}
	m, reads := NewModels(dir), 0
	m.read = func(path string) (*Model, error) {
		reads++
		return readModel(path)
	}
	symbols := func() int64 {
		t.Helper()
		k, err := m.Summary("m")
		if err != nil {
			t.Fatal(err)
		}
		return k.Symbols
	}
	for range 3 {
		if n := symbols(); n != 9 {
			t.Errorf("it has %d symbols", n)
		}
	}
	if reads != 1 || len(m.known) > 0 {
		t.Errorf("read %d times, %d are kept", reads, len(m.known))
	}
	if ok, err := made.Put(counter(t, "m", 12), true); !ok || err != nil { // by another engine
		t.Fatalf("m was not replaced: %v, %v", ok, err)
	}
	if n := symbols(); n != 12 || reads != 2 {
		t.Errorf("it has %d symbols after %d readings", n, reads)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("files %q", left)
	}
}

// counter returns a model of n symbols, of three kinds in turn.
func counter(t *testing.T, name string, n int) *Model {
	t.Helper()
	a := encoders.NewAlphabet()
	e, err := structure.NewAutomatonEncoder(a, structure.AutomatonOptions{K: 2}, encoders.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e.Append([]encoders.Symbol{a.Symbol(fmt.Sprint(i % 3))}, nil)
	}
	m, err := structure.NewModel(e.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return &Model{Name: name, Definition: "CREATE MODEL " + name, Created: time.Now().UTC(), Model: m}
}
